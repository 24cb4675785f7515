//! An engine with the llama node, and a small scheduler: requests join and leave between steps.

use std::collections::VecDeque;

use graph_core::{CaptureOptions, Engine, NodeCall, Options, Registry, RequestId, Result, Source};
use graph_host::Host;
use llama_plugin::{LlamaOptions, Prefill, Tokenizer};

use crate::reference::{Reference, argmax, references};

pub(crate) const REQUESTS: usize = 6;

pub(crate) fn options() -> LlamaOptions {
    LlamaOptions { max_requests: REQUESTS, max_context: 256, ..LlamaOptions::default() }
}

pub(crate) fn build(registry: &Registry, options: LlamaOptions, capture: CaptureOptions) -> Engine<Host> {
    Engine::builder(Host::new())
        .options(Options::default().with(options))
        .capture_options(capture)
        .build(registry)
        .expect("an engine")
}

pub(crate) fn engine_with(options: LlamaOptions) -> Engine<Host> {
    build(&Registry::collect().expect("no duplicates"), options, CaptureOptions::default())
}

pub(crate) fn engine() -> Engine<Host> {
    engine_with(options())
}

pub(crate) fn ingest(engine: &mut Engine<Host>, requests: impl IntoIterator<Item = u64>) {
    let node = engine.node("llama").expect("there");
    requests.into_iter().for_each(|r| node.ingest(RequestId(r), &Options::default()).expect("a new request"));
}

pub(crate) fn remove(engine: &mut Engine<Host>, requests: impl IntoIterator<Item = u64>) {
    let node = engine.node("llama").expect("there");
    requests.into_iter().for_each(|r| node.remove(RequestId(r)));
}

/// One step of a walk, whose rows are requests with their next tokens: the logits. Every row draws, greedily.
pub(crate) fn step(
    engine: &mut Engine<Host>,
    walk: &str,
    slot: usize,
    rows: &[(u64, &[u32])],
) -> Result<Vec<f32>> {
    step_drawing(engine, walk, slot, rows, &vec![1; rows.len()]).map(|(logits, _)| logits)
}

/// The same where the rows with a 1 draw: logits and tokens.
pub(crate) fn step_drawing(
    engine: &mut Engine<Host>,
    walk: &str,
    slot: usize,
    rows: &[(u64, &[u32])],
    draws: &[i32],
) -> Result<(Vec<f32>, Vec<i32>)> {
    let tokens: Vec<i32> = rows.iter().flat_map(|r| r.1).map(|t| *t as i32).collect();
    let seq_lens: Vec<usize> = rows.iter().map(|r| r.1.len()).collect();
    let requests: Vec<_> = rows.iter().map(|r| RequestId(r.0)).collect();
    let tokens = tokens.as_slice();
    let inputs = [("token", Source::host::<i32, 1>(&tokens)), ("draws", Source::host::<i32, 1>(&draws))];
    let inputs = if walk == "decode" { &inputs[..1] } else { &inputs };
    let stream = engine.stream().clone();
    let call = NodeCall { requests: &requests, seq_lens: &seq_lens, inputs, slot };
    let mut out = engine.node("llama")?.run(walk, &call)?.into_out();
    let logits = out.take::<f32, 2>("logits")?.to_vec(&stream)?;
    Ok((logits, out.take::<i32, 1>("token")?.to_vec(&stream)?))
}

/// How requests are served.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// Steps between arrivals.
    pub(crate) apart: usize,
    /// Tokens of a request in a prefill step, at the most.
    pub(crate) chunk: usize,
    pub(crate) prefill: Prefill,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Served {
    pub(crate) text: String,
    /// The bits of the logits of every new token.
    pub(crate) bits: Vec<Vec<u32>>,
}

impl Served {
    pub(crate) fn first_logits(&self) -> Vec<f32> {
        self.bits[0].iter().map(|bits| f32::from_bits(*bits)).collect()
    }
}

struct Active {
    index: usize,
    tokens: Vec<u32>,
    done: usize,
    bits: Vec<Vec<u32>>,
}

/// Serves prompts by continuous batching; in their order.
pub(crate) fn serve(engine: &mut Engine<Host>, prompts: &[&Reference], plan: Plan) -> Vec<Served> {
    let tokenizer = Tokenizer::bytes();
    let mut waiting: VecDeque<_> = prompts.iter().enumerate().collect();
    let mut active: Vec<Active> = Vec::new();
    let mut served = vec![None; prompts.len()];
    let prefill = plan.prefill.walk();
    for number in 0.. {
        while let Some((index, reference)) = waiting.front()
            && number >= index * plan.apart
        {
            let tokens = tokenizer.encode(&reference.prompt).expect("bytes");
            ingest(engine, [*index as u64]);
            active.push(Active { index: *index, tokens, done: 0, bits: Vec::new() });
            waiting.pop_front();
        }
        for walk in ["prefill", "decode"] {
            let decodes = |r: &Active| !r.bits.is_empty() && r.done + 1 == r.tokens.len();
            let mine: Vec<usize> =
                (0..active.len()).filter(|i| decodes(&active[*i]) == (walk == "decode")).collect();
            if mine.is_empty() {
                continue;
            }
            let row = |i: &usize| {
                let r = &active[*i];
                (r.index as u64, &r.tokens[r.done..r.tokens.len().min(r.done + plan.chunk)])
            };
            let rows: Vec<_> = mine.iter().map(row).collect();
            let lens: Vec<usize> = rows.iter().map(|r| r.1.len()).collect();
            let ends = |i: usize, len: usize| active[i].done + len == active[i].tokens.len();
            let draws: Vec<_> = mine.iter().zip(&lens).map(|(i, len)| ends(*i, *len).into()).collect();
            let walk = if walk == "prefill" { prefill } else { walk };
            let (logits, tokens) = step_drawing(engine, walk, number, &rows, &draws).expect("a step");
            for (((i, len), logits), token) in mine.into_iter().zip(lens).zip(logits.chunks(256)).zip(tokens)
            {
                let r = &mut active[i];
                r.done += len;
                if r.done == r.tokens.len() {
                    assert_eq!(token, argmax(logits) as i32, "greedy");
                    r.tokens.push(argmax(logits));
                    r.bits.push(logits.iter().map(|v| v.to_bits()).collect());
                }
            }
        }
        active.retain_mut(|r| {
            let goes_on = r.bits.len() < prompts[r.index].new_tokens;
            if !goes_on {
                remove(engine, [r.index as u64]);
                let text = tokenizer.decode(&r.tokens).expect("bytes");
                served[r.index] = Some(Served { text, bits: std::mem::take(&mut r.bits) });
            }
            goes_on
        });
        if active.is_empty() && waiting.is_empty() {
            break;
        }
    }
    served.into_iter().map(|s| s.expect("served")).collect()
}

/// All prompts together.
pub(crate) fn serve_all(engine: &mut Engine<Host>, plan: Plan) -> Vec<Served> {
    let references = references();
    serve(engine, &references.iter().collect::<Vec<_>>(), plan)
}
