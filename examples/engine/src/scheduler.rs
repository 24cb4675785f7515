//! Continuous batching: requests join and leave between steps.

use std::{
    collections::VecDeque,
    hash::{DefaultHasher, Hasher},
};

use anyhow::{Context, Result, bail};
use graph_core::{Backend, NodeCall, NodeRunner, RequestId, Source};
use graph_plan::Step;

/// Tokens of one prefill step at the most: the largest total that the llama plugin captures.
const PREFILL_BUDGET: usize = 256;

/// A prompt, and the step at which it arrives.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) tokens: Vec<u32>,
    pub(crate) at_step: usize,
}

/// What became of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finished {
    /// The prompt's tokens and the generated ones.
    pub(crate) tokens: Vec<u32>,
    /// How many were generated.
    pub(crate) new_tokens: usize,
    /// A digest of the bits of all logits that were sampled from: two runs agree only if they computed the same.
    pub(crate) logits: u64,
}

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_new_tokens: usize,
    pub(crate) max_batch: usize,
    /// Tokens that a request's context holds.
    pub(crate) context: usize,
    pub(crate) vocab: usize,
}

struct Active {
    index: usize,
    kv_slot: usize,
    tokens: Vec<u32>,
    prompt: usize,
    /// Tokens that are in the KV cache.
    done: usize,
    digest: DefaultHasher,
}

impl Active {
    fn new_tokens(&self) -> usize {
        self.tokens.len() - self.prompt
    }
}

/// Runs all requests to their end; results in the order of the arrivals. `observe` gets the sizes of every step.
pub(crate) fn run<B: Backend>(
    node: &mut NodeRunner<B>,
    stream: &B::Stream,
    arrivals: &[Arrival],
    limits: Limits,
    mut observe: impl FnMut(&Step) -> Result<()>,
) -> Result<Vec<Finished>> {
    let cap = node.whole().max_batch_size_for("decode").unwrap_or(usize::MAX).min(limits.max_batch);
    let mut waiting: VecDeque<usize> = (0..arrivals.len()).collect();
    waiting.make_contiguous().sort_by_key(|i| (arrivals[*i].at_step, *i));
    // KV slot 0 takes what padding rows write.
    let mut free_slots: Vec<usize> = (1..=cap.min(arrivals.len())).rev().collect();
    let mut active: Vec<Active> = Vec::new();
    let mut finished: Vec<Option<Finished>> = vec![None; arrivals.len()];
    for step in 0.. {
        while let Some(index) = waiting.front().copied()
            && arrivals[index].at_step <= step
            && let Some(kv_slot) = free_slots.pop()
        {
            waiting.pop_front();
            let tokens = arrivals[index].tokens.clone();
            let (prompt, digest) = (tokens.len(), DefaultHasher::new());
            active.push(Active { index, kv_slot, tokens, prompt, done: 0, digest });
        }
        // First the requests that have all but their newest token in the cache, then prompts: a request that finishes
        // its prompt in this step decodes from the next one on.
        let (ready, prompts): (Vec<_>, Vec<_>) = (0..active.len())
            .partition(|i| active[*i].done + 1 == active[*i].tokens.len() && active[*i].done > 0);
        if !ready.is_empty() {
            let chunks: Vec<_> = ready.iter().map(|i| (*i, 1)).collect();
            forward(node, stream, "decode", &mut active, &chunks, limits)?;
        }
        let mut budget = PREFILL_BUDGET;
        let mut chunks = Vec::new();
        for i in prompts {
            let chunk = (active[i].tokens.len() - active[i].done).min(budget);
            if chunk > 0 {
                budget -= chunk;
                chunks.push((i, chunk));
            }
        }
        if !chunks.is_empty() {
            forward(node, stream, "prefill", &mut active, &chunks, limits)?;
        }
        if !ready.is_empty() || !chunks.is_empty() {
            let prefill_chunks = chunks.iter().map(|(_, len)| *len as u32).collect();
            observe(&Step { decode_bs: ready.len() as u32, prefill_chunks })?;
        }
        active.retain_mut(|request| {
            let new_tokens = request.new_tokens();
            let ended = request.done >= request.prompt
                && (new_tokens >= limits.max_new_tokens || request.tokens.len() >= limits.context);
            if ended {
                let tokens = std::mem::take(&mut request.tokens);
                let logits = request.digest.finish();
                finished[request.index] = Some(Finished { tokens, new_tokens, logits });
                free_slots.push(request.kv_slot);
            }
            !ended
        });
        if active.is_empty() && waiting.is_empty() {
            break;
        }
    }
    finished.into_iter().map(|f| f.context("a request never ended")).collect()
}

/// One step of a walk over `(request, tokens)` chunks; a request whose tokens are all in the cache gets a new one.
fn forward<B: Backend>(
    node: &mut NodeRunner<B>,
    stream: &B::Stream,
    walk: &str,
    active: &mut [Active],
    chunks: &[(usize, usize)],
    limits: Limits,
) -> Result<()> {
    let (mut tokens, mut positions, mut kv_slots) = (Vec::new(), Vec::new(), Vec::new());
    let (mut requests, mut seq_lens) = (Vec::new(), Vec::new());
    for (i, len) in chunks {
        let request = &active[*i];
        let chunk = request.done..request.done + len;
        tokens.extend(request.tokens[chunk.clone()].iter().map(|t| *t as i32));
        positions.extend(chunk.map(|p| p as i32));
        kv_slots.push(request.kv_slot as i32);
        requests.push(RequestId(request.index as u64));
        seq_lens.push(*len);
    }
    let (tokens, positions, kv_slots) = (&tokens, &positions, &kv_slots);
    let inputs = [
        ("token", Source::host::<i32, 1>(&tokens)),
        ("position", Source::host::<i32, 1>(&positions)),
        ("kv_slot", Source::host::<i32, 1>(&kv_slots)),
    ];
    let call = NodeCall { requests: &requests, seq_lens: &seq_lens, inputs: &inputs, slot: 0 };
    let logits = node.run(walk, &call)?.into_out().take::<f32, 2>("logits")?.to_vec(stream)?;
    for ((i, len), row) in chunks.iter().zip(logits.chunks(limits.vocab)) {
        let request = &mut active[*i];
        request.done += len;
        if request.done == request.tokens.len() && request.new_tokens() < limits.max_new_tokens {
            row.iter().for_each(|logit| request.digest.write_u32(logit.to_bits()));
            request.tokens.push(greedy(row)?);
        }
    }
    Ok(())
}

/// The first of the largest logits.
fn greedy(logits: &[f32]) -> Result<u32> {
    let mut best = None;
    for (token, logit) in logits.iter().enumerate() {
        if logit.is_nan() {
            bail!("the model produced NaN for token {token}");
        }
        if best.is_none_or(|(_, most)| *logit > most) {
            best = Some((token, *logit));
        }
    }
    best.map(|(token, _)| token as u32).context("the model has no vocabulary")
}
