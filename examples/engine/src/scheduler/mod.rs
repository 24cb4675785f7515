//! Continuous batching: requests join and leave between steps, share the pages of the cache, and give way when those run
//! out.

mod arrivals;
mod error;
mod request;

use std::collections::VecDeque;

use anyhow::Result;
use graph_core::{AdmitOutcome, Backend, ErrorKind, NodeCall, NodeRunner, Options, RequestId, Source};
use graph_plan::Step;
use graph_resources::{PageCounts, PagedKv, SampleParams, Sampler};

pub use arrivals::{Arrival, random_steps, run};
pub use error::SchedulerError;
pub use request::Finished;
use request::Request;

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Tokens to generate for each request.
    pub max_new_tokens: usize,
    /// Requests that run at the same time.
    pub max_batch: usize,
    /// Tokens of one prefill step.
    pub prefill_budget: usize,
    /// Tokens that a request's context holds.
    pub context: usize,
    /// Logits of a token.
    pub vocab: usize,
    /// The walk that continues prompts.
    pub prefill: &'static str,
    /// The walk that continues requests by one token each.
    pub decode: &'static str,
}

/// What a scheduler did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that gave way and were queued again.
    pub preemptions: u64,
    /// Calls of the node on each of its slots.
    pub slots: Vec<u64>,
    /// Calls of the decode walk that replayed a graph.
    pub replayed: u64,
}

/// Serves requests on a node with a paged cache and a sampler.
///
/// Every step first decodes one token of each request that is past its prompt, in batches that the captured sizes hold,
/// then continues prompts, oldest first, within a budget of tokens. When a step needs more pages than are free, the
/// newest request gives way: its pages come back, and it is queued again with the tokens that it has. It then computes
/// them again as a prompt, draws on where it was, and so ends with the text that it would have had. The oldest request
/// never gives way, so every request ends; one that needs more pages than there are is refused at
/// [`submit`](Scheduler::submit).
///
/// Calls use the node's slots in turn.
pub struct Scheduler<'n, B: Backend> {
    node: &'n mut NodeRunner<B>,
    stream: B::Stream,
    limits: Limits,
    /// Requests of a decode call.
    decode_batch: usize,
    /// In order.
    waiting: VecDeque<Request>,
    /// In order; each is ingested.
    active: Vec<Request>,
    finished: Vec<Finished>,
    on_call: Option<Box<OnCall<'n, B>>>,
    counts: Counts,
    calls: usize,
    orders: u64,
}

type OnCall<'n, B> = dyn FnMut(&mut NodeRunner<B>, &[RequestId]) + 'n;

impl<'n, B: Backend> Scheduler<'n, B> {
    /// A scheduler without requests.
    pub fn new(node: &'n mut NodeRunner<B>, stream: &B::Stream, limits: Limits) -> Result<Self> {
        for (limit, got) in [("max_batch", limits.max_batch), ("prefill_budget", limits.prefill_budget)] {
            if got == 0 {
                return Err(SchedulerError::Zero { limit }.into());
            }
        }
        let name = node.name();
        if node.steps().get::<PagedKv<B>>().is_none() {
            return Err(SchedulerError::NoResource { node: name, resource: "paged cache" }.into());
        }
        if node.steps().get::<Sampler<B>>().is_none() {
            return Err(SchedulerError::NoResource { node: name, resource: "sampler" }.into());
        }
        let decode_batch = node.whole().max_batch_size_for(limits.decode).unwrap_or(usize::MAX);
        let counts = Counts { slots: vec![0; node.slots()], ..Counts::default() };
        Ok(Scheduler {
            node,
            stream: stream.clone(),
            limits,
            decode_batch,
            waiting: VecDeque::new(),
            active: Vec::new(),
            finished: Vec::new(),
            on_call: None,
            counts,
            calls: 0,
            orders: 0,
        })
    }

    /// Whether a prompt of so many tokens can be served at all.
    pub fn check(&mut self, request: RequestId, prompt: usize) -> Result<(), SchedulerError> {
        let Limits { context, max_new_tokens, .. } = self.limits;
        if prompt == 0 {
            return Err(SchedulerError::Empty { request });
        }
        if prompt > context {
            return Err(SchedulerError::TooLong { request, got: prompt, most: context });
        }
        // The last token that is generated is never in the cache.
        let tokens = prompt.max((prompt + max_new_tokens).saturating_sub(1).min(context));
        let (needs, total) = (tokens.div_ceil(self.page_size()), self.pages().total);
        match needs > total {
            true => Err(SchedulerError::NeverFits { request, tokens, needs, total }),
            false => Ok(()),
        }
    }

    /// Queues a request behind those that are there.
    pub fn submit(
        &mut self,
        request: RequestId,
        tokens: Vec<u32>,
        params: SampleParams,
    ) -> Result<(), SchedulerError> {
        self.check(request, tokens.len())?;
        if self.waiting.iter().chain(&self.active).any(|r| r.id == request) {
            return Err(SchedulerError::Known { request });
        }
        self.orders += 1;
        self.waiting.push_back(Request::new(request, self.orders, tokens, params));
        Ok(())
    }

    /// Ends a request, in whatever state: its pages are free at once. `false` for one that is not there.
    pub fn cancel(&mut self, request: RequestId) -> bool {
        let before = self.waiting.len() + self.active.len();
        self.waiting.retain(|r| r.id != request);
        if let Some(i) = self.active.iter().position(|r| r.id == request) {
            self.node.remove(request);
            self.active.remove(i);
        }
        before > self.waiting.len() + self.active.len()
    }

    /// One step: every request that runs gets on, as far as budget and pages allow. `observe` gets the sizes of its
    /// calls.
    pub fn step(&mut self, mut observe: impl FnMut(&Step) -> Result<()>) -> Result<()> {
        self.start()?;
        let mut ready: VecDeque<RequestId> =
            self.active.iter().filter(|r| r.decodes()).map(|r| r.id).collect();
        let mut decoded = 0;
        // In batches; what gives way meanwhile is not active any more.
        loop {
            ready.retain(|id| self.active.iter().any(|r| r.id == *id));
            let batch: Vec<_> = ready.iter().take(self.decode_batch).map(|id| (*id, 1)).collect();
            if batch.is_empty() {
                break;
            }
            if self.forward(self.limits.decode, &batch)? {
                ready.drain(..batch.len());
                if decoded > 0 {
                    observe(&Step { decode_bs: decoded, prefill_chunks: Vec::new() })?;
                }
                decoded = batch.len() as u32;
            }
        }
        // A request that finishes its prompt in this step decodes from the next one on.
        let chunks = loop {
            let chunks = self.chunks();
            if chunks.is_empty() || self.forward(self.limits.prefill, &chunks)? {
                break chunks;
            }
        };
        if decoded > 0 || !chunks.is_empty() {
            let prefill_chunks = chunks.iter().map(|(_, len)| *len as u32).collect();
            observe(&Step { decode_bs: decoded, prefill_chunks })?;
        }
        self.end();
        Ok(())
    }

    /// Has something called after every call of the node, with the requests of the call, before any of them leaves.
    pub fn on_call(&mut self, hook: impl FnMut(&mut NodeRunner<B>, &[RequestId]) + 'n) {
        self.on_call = Some(Box::new(hook));
    }

    /// The requests that ended since it was asked last.
    pub fn take_finished(&mut self) -> Vec<Finished> {
        std::mem::take(&mut self.finished)
    }

    /// Whether no request runs or waits.
    pub fn is_idle(&self) -> bool {
        self.active.is_empty() && self.waiting.is_empty()
    }

    /// What it did so far.
    pub fn counts(&self) -> Counts {
        self.counts.clone()
    }

    /// The node that it drives.
    pub fn node(&mut self) -> &mut NodeRunner<B> {
        self.node
    }

    /// Pages of the node's cache.
    pub fn pages(&mut self) -> PageCounts {
        let none = PageCounts { total: 0, free: 0, peak: 0 };
        self.node.steps().get::<PagedKv<B>>().map_or(none, PagedKv::counts)
    }

    fn page_size(&mut self) -> usize {
        self.node.steps().get::<PagedKv<B>>().map_or(1, |kv| kv.options().page_size)
    }

    /// Starts waiting requests, oldest first, while there are pages for all the tokens that they have.
    fn start(&mut self) -> Result<()> {
        let page_size = self.page_size();
        let pages = |tokens: usize| tokens.div_ceil(page_size);
        while self.active.len() < self.limits.max_batch
            && let Some(next) = self.waiting.front()
        {
            // Prompts that run have yet to take theirs.
            let owed: usize = self.active.iter().map(|r| pages(r.tokens.len()) - pages(r.done)).sum();
            let needs = owed + pages(next.tokens.len());
            if !self.active.is_empty() && needs > self.pages().free {
                break;
            }
            let Some(next) = self.waiting.pop_front() else { break };
            self.node.ingest(next.id, &Options::default().with(next.params))?;
            let at = self.active.partition_point(|r| r.order < next.order);
            self.active.insert(at, next);
        }
        Ok(())
    }

    /// The prompts' next chunks within the budget, oldest first.
    fn chunks(&self) -> Vec<(RequestId, usize)> {
        let mut budget = self.limits.prefill_budget;
        let mut chunks = Vec::new();
        for request in self.active.iter().filter(|r| r.done < r.tokens.len() && !r.decodes()) {
            let chunk = (request.tokens.len() - request.done).min(budget);
            if chunk > 0 {
                budget -= chunk;
                chunks.push((request.id, chunk));
            }
        }
        chunks
    }

    /// One call of a walk over chunks of requests; a request whose tokens are all in the cache gets a new one. `false`
    /// if pages were short: the newest request gave way, and nothing else happened.
    fn forward(&mut self, walk: &'static str, chunks: &[(RequestId, usize)]) -> Result<bool> {
        let (mut tokens, mut draws) = (Vec::new(), Vec::new());
        let (mut requests, mut seq_lens, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        for (id, len) in chunks {
            let Some(row) = self.active.iter().position(|r| r.id == *id) else { continue };
            let request = &self.active[row];
            tokens.extend(request.tokens[request.done..request.done + len].iter().map(|t| *t as i32));
            let draw = request.done + len == request.tokens.len()
                && request.new_tokens() < self.limits.max_new_tokens;
            draws.push(i32::from(draw));
            requests.push(*id);
            seq_lens.push(*len);
            rows.push(row);
        }
        let (token, draw) = (&tokens, &draws);
        let inputs = [("token", Source::host::<i32, 1>(&token)), ("draws", Source::host::<i32, 1>(&draw))];
        let inputs = if walk == self.limits.decode { &inputs[..1] } else { &inputs };
        let slot = self.calls % self.counts.slots.len();
        let call = NodeCall { requests: &requests, seq_lens: &seq_lens, inputs, slot };
        let called = match called(self.node, &self.stream, walk, &call) {
            Ok(called) => called,
            Err(error) if is_short(&error) && self.active.len() > 1 => {
                self.preempt();
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        self.calls += 1;
        self.counts.slots[slot] += 1;
        self.counts.replayed += u64::from(walk == self.limits.decode && called.replayed);
        if let Some(hook) = &mut self.on_call {
            hook(self.node, &requests);
        }
        for (i, row) in rows.into_iter().enumerate() {
            let request = &mut self.active[row];
            request.done += seq_lens[i];
            if draws[i] != 0 {
                let logits = &called.logits[i * self.limits.vocab..(i + 1) * self.limits.vocab];
                if let Some(token) = logits.iter().position(|logit| logit.is_nan()) {
                    return Err(SchedulerError::NotANumber { request: request.id, token }.into());
                }
                request.push(called.tokens[i] as u32, logits);
            }
        }
        Ok(true)
    }

    /// The newest request gives its pages back and waits, with the tokens that it has.
    fn preempt(&mut self) {
        let Some(mut request) = self.active.pop() else { return };
        let drawn = self.node.steps().get::<Sampler<B>>().and_then(|sampler| sampler.counter(request.id));
        request.params.counter = drawn.unwrap_or(request.params.counter);
        self.node.remove(request.id);
        request.done = 0;
        self.counts.preemptions += 1;
        let at = self.waiting.partition_point(|r| r.order < request.order);
        self.waiting.insert(at, request);
    }

    /// Requests that have all their tokens leave.
    fn end(&mut self) {
        let Limits { max_new_tokens, context, .. } = self.limits;
        let ended = |r: &Request| {
            r.done >= r.prompt && (r.new_tokens() >= max_new_tokens || r.tokens.len() >= context)
        };
        while let Some(i) = self.active.iter().position(ended) {
            let request = self.active.remove(i);
            self.node.remove(request.id);
            self.finished.push(request.finish());
        }
    }
}

/// Requests that are still there leave the node, too.
impl<B: Backend> Drop for Scheduler<'_, B> {
    fn drop(&mut self) {
        self.active.iter().for_each(|request| self.node.remove(request.id));
    }
}

/// What a call of the node gave.
struct Called {
    logits: Vec<f32>,
    tokens: Vec<i32>,
    replayed: bool,
}

fn called<B: Backend>(
    node: &mut NodeRunner<B>,
    stream: &B::Stream,
    walk: &str,
    call: &NodeCall<'_, B>,
) -> graph_core::Result<Called> {
    let outcome = node.run(walk, call)?;
    let replayed = outcome.reason().is_none();
    let mut out = outcome.into_out();
    let logits = out.take::<f32, 2>("logits")?.to_vec(stream)?;
    Ok(Called { logits, tokens: out.take::<i32, 1>("token")?.to_vec(stream)?, replayed })
}

fn is_short(error: &graph_core::Error) -> bool {
    let ErrorKind::Refused { outcome, .. } = error.kind() else { return false };
    matches!(outcome, AdmitOutcome::PagesShort { .. })
}
