//! The llama model: prompts, then decoding in a batch.

use std::path::Path;

use graph_core::{Backend, Engine, Error, NodeCall, Options, RequestId, Result, Source};
use llama_plugin::{Prefill, Tokenizer};
use serde::Deserialize;

use crate::{close, near};

/// One prompt of `reference.json`.
#[derive(Deserialize)]
pub struct Reference {
    /// The prompt.
    pub prompt: String,
    /// How many tokens follow.
    pub new_tokens: usize,
    greedy: String,
    first_logits: Vec<f32>,
}

/// The prompts of a model's folder.
///
/// # Panics
/// They are not there.
pub fn references(dir: &Path) -> Vec<Reference> {
    model_support::read_json(&dir.join("reference.json")).expect("the reference")
}

/// One step of a walk: logits and next tokens.
///
/// # Errors
/// As the step's.
pub fn step<B: Backend>(
    engine: &mut Engine<B>,
    walk: &str,
    rows: &[(u64, &[u32])],
) -> Result<(Vec<f32>, Vec<i32>)> {
    let tokens: Vec<i32> = rows.iter().flat_map(|r| r.1).map(|t| *t as i32).collect();
    let seq_lens: Vec<usize> = rows.iter().map(|r| r.1.len()).collect();
    let requests: Vec<_> = rows.iter().map(|r| RequestId(r.0)).collect();
    let (tokens, draws) = (tokens.as_slice(), vec![1; rows.len()]);
    let draws = draws.as_slice();
    let inputs = [("token", Source::host::<i32, 1>(&tokens)), ("draws", Source::host::<i32, 1>(&draws))];
    let inputs = if walk == "decode" { &inputs[..1] } else { &inputs };
    let stream = engine.stream().clone();
    let call = NodeCall { requests: &requests, seq_lens: &seq_lens, inputs, slot: 0 };
    let mut out = engine.node("llama")?.run(walk, &call)?.into_out();
    let logits = out.take::<f32, 2>("logits")?.to_vec(&stream)?;
    Ok((logits, out.take::<i32, 1>("token")?.to_vec(&stream)?))
}

/// A prompt's continuation, and the bits of the logits of each new token.
pub type Served = (Vec<u32>, Vec<Vec<u32>>);

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|v| v.to_bits()).collect()
}

/// Prompts one after the other, then all decoded together, as many tokens as `most` allows.
///
/// # Errors
/// As the steps'.
pub fn serve<B: Backend>(
    engine: &mut Engine<B>,
    prefill: Prefill,
    prompts: &[Reference],
    most: usize,
) -> Result<Vec<Served>> {
    let mut served = Vec::new();
    for (id, reference) in prompts.iter().enumerate() {
        engine.node("llama")?.ingest(RequestId(id as u64), &Options::default())?;
        let mut tokens = Tokenizer::bytes().encode(&reference.prompt).map_err(Error::plugin)?;
        let (logits, drawn) = step(engine, prefill.walk(), &[(id as u64, &tokens)])?;
        tokens.push(drawn[0] as u32);
        served.push((tokens, vec![bits(&logits)]));
    }
    let wanted = |i: usize| prompts[i].new_tokens.min(most);
    loop {
        let mine: Vec<usize> = (0..served.len()).filter(|i| served[*i].1.len() < wanted(*i)).collect();
        if mine.is_empty() {
            break;
        }
        let last = |i: &usize| (*i as u64, &served[*i].0[served[*i].0.len() - 1..]);
        let (logits, drawn) = step(engine, "decode", &mine.iter().map(last).collect::<Vec<_>>())?;
        for ((i, logits), token) in mine.into_iter().zip(logits.chunks(256)).zip(drawn) {
            served[i].0.push(token as u32);
            served[i].1.push(bits(logits));
        }
    }
    let node = engine.node("llama")?;
    (0..prompts.len()).for_each(|id| node.remove(RequestId(id as u64)));
    Ok(served)
}

/// The logits of each step over the reference's own text, whatever the model would say: after the prompts, then after
/// each of so many bytes, all prompts together.
///
/// # Errors
/// As the steps'.
pub fn forced<B: Backend>(
    engine: &mut Engine<B>,
    prefill: Prefill,
    prompts: &[Reference],
    most: usize,
) -> Result<Vec<f32>> {
    let encoded = |reference: &Reference| Tokenizer::bytes().encode(&reference.greedy).map_err(Error::plugin);
    let texts = prompts.iter().map(encoded).collect::<Result<Vec<_>>>()?;
    (0..prompts.len() as u64)
        .try_for_each(|id| engine.node("llama")?.ingest(RequestId(id), &Options::default()))?;
    let mut logits = Vec::new();
    for at in 0..=most {
        let of = |(id, (reference, text)): (usize, (&Reference, _))| {
            let text: &Vec<u32> = text;
            let prompt = reference.prompt.len();
            match at {
                0 => (id as u64, &text[..prompt]),
                at => (id as u64, &text[prompt + at - 1..prompt + at]),
            }
        };
        let rows: Vec<_> = prompts.iter().zip(&texts).enumerate().map(of).collect();
        logits.extend(step(engine, if at == 0 { prefill.walk() } else { "decode" }, &rows)?.0);
    }
    let node = engine.node("llama")?;
    (0..prompts.len()).for_each(|id| node.remove(RequestId(id as u64)));
    Ok(logits)
}

/// Whether the first logits are within 5e-2 of the reference's, which is what bf16 activations are held to; the mean square
/// of the logits is about 10^2.
///
/// # Errors
/// The first difference.
///
/// # Panics
/// The reference is not there.
pub fn check_first(dir: &Path, served: &[Served]) -> std::result::Result<(), String> {
    for ((_, bits), reference) in served.iter().zip(references(dir)) {
        let first: Vec<f32> = bits[0].iter().map(|bits| f32::from_bits(*bits)).collect();
        near(&reference.prompt, &first, &reference.first_logits, 5e-2, 5e-2)?;
    }
    Ok(())
}

/// Whether what was served, which may be the beginning only, is the reference.
///
/// # Errors
/// The first difference.
///
/// # Panics
/// The reference is not there.
pub fn check(dir: &Path, served: &[Served]) -> std::result::Result<(), String> {
    for ((tokens, bits), reference) in served.iter().zip(references(dir)) {
        let text = Tokenizer::bytes().decode(tokens).map_err(|error| error.to_string())?;
        if !reference.greedy.starts_with(&text) {
            return Err(format!("{:?} gives {text:?}", reference.prompt));
        }
        let first: Vec<f32> = bits[0].iter().map(|bits| f32::from_bits(*bits)).collect();
        close("the first logits", &first, &reference.first_logits, 2e-3)?;
    }
    Ok(())
}
