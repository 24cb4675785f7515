//! An engine with the llama node, and a small scheduler: requests join and leave between steps.

use std::collections::VecDeque;

use graph_core::{CaptureOptions, Engine, NodeCall, Options, Registry, RequestId, Result, Source};
use graph_host::Host;
use llama_plugin::{LlamaOptions, Tokenizer};

use crate::reference::{Reference, argmax, references};

pub(crate) const REQUESTS: usize = 6;

pub(crate) fn options() -> LlamaOptions {
    LlamaOptions { max_requests: REQUESTS, max_context: 256, ..LlamaOptions::default() }
}

pub(crate) fn build(registry: &Registry, capture: CaptureOptions) -> Engine<Host> {
    Engine::builder(Host::new())
        .options(Options::default().with(options()))
        .capture_options(capture)
        .build(registry)
        .expect("an engine")
}

pub(crate) fn engine() -> Engine<Host> {
    build(&Registry::collect().expect("no duplicates"), CaptureOptions::default())
}

/// One step of a walk; the logits.
pub(crate) fn step(
    engine: &mut Engine<Host>,
    walk: &str,
    slot: usize,
    rows: &[(usize, i32, &[u32])],
) -> Result<Vec<f32>> {
    let tokens: Vec<i32> = rows.iter().flat_map(|r| r.2).map(|t| *t as i32).collect();
    let positions: Vec<i32> = rows.iter().flat_map(|r| (r.0 as i32..).take(r.2.len())).collect();
    let kv_slots: Vec<i32> = rows.iter().map(|r| r.1).collect();
    let seq_lens: Vec<usize> = rows.iter().map(|r| r.2.len()).collect();
    let requests: Vec<_> = kv_slots.iter().map(|slot| RequestId(*slot as u64)).collect();
    let (tokens, positions, kv_slots) = (&tokens[..], &positions[..], &kv_slots[..]);
    let inputs = [
        ("token", Source::host::<i32, 1>(&tokens)),
        ("position", Source::host::<i32, 1>(&positions)),
        ("kv_slot", Source::host::<i32, 1>(&kv_slots)),
    ];
    let stream = engine.stream().clone();
    let call = NodeCall { requests: &requests, seq_lens: &seq_lens, inputs: &inputs, slot };
    engine.node("llama")?.run(walk, &call)?.into_out().take::<f32, 2>("logits")?.to_vec(&stream)
}

/// How requests are served.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// Steps between arrivals.
    pub(crate) apart: usize,
    /// Tokens of a request in a prefill step, at the most.
    pub(crate) chunk: usize,
    /// Copies of the static buffers, used in turn.
    pub(crate) slots: usize,
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
    kv_slot: i32,
    tokens: Vec<u32>,
    done: usize,
    bits: Vec<Vec<u32>>,
}

/// Serves prompts by continuous batching; in their order.
pub(crate) fn serve(engine: &mut Engine<Host>, prompts: &[&Reference], plan: Plan) -> Vec<Served> {
    let tokenizer = Tokenizer::bytes();
    let mut waiting: VecDeque<_> = prompts.iter().enumerate().collect();
    let mut free: Vec<i32> = (1..=REQUESTS as i32).collect();
    let mut active: Vec<Active> = Vec::new();
    let mut served = vec![None; prompts.len()];
    for number in 0.. {
        while let Some((index, reference)) = waiting.front()
            && number >= index * plan.apart
        {
            let tokens = tokenizer.encode(&reference.prompt).expect("bytes");
            let kv_slot = free.pop().expect("enough slots");
            active.push(Active { index: *index, kv_slot, tokens, done: 0, bits: Vec::new() });
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
                (r.done, r.kv_slot, &r.tokens[r.done..r.tokens.len().min(r.done + plan.chunk)])
            };
            let rows: Vec<_> = mine.iter().map(row).collect();
            let lens: Vec<usize> = rows.iter().map(|r| r.2.len()).collect();
            let logits = step(engine, walk, number % plan.slots, &rows).expect("a step");
            for ((i, len), logits) in mine.into_iter().zip(lens).zip(logits.chunks(256)) {
                let r = &mut active[i];
                r.done += len;
                if r.done == r.tokens.len() {
                    r.tokens.push(argmax(logits));
                    r.bits.push(logits.iter().map(|v| v.to_bits()).collect());
                }
            }
        }
        active.retain_mut(|r| {
            let goes_on = r.bits.len() < prompts[r.index].new_tokens;
            if !goes_on {
                free.push(r.kv_slot);
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
