//! The llama model's reference through the engine, captured and eager.

use graph_core::{Engine, NodeCall, Options, RequestId, Result, Source};
use graph_cuda::Cuda;
use llama_plugin::{LlamaOptions, Prefill, Tokenizer};
use plugins_on_cuda::{close, open, registry, session};
use serde::Deserialize;

/// One prompt of `reference.json`.
#[derive(Deserialize)]
struct Reference {
    prompt: String,
    new_tokens: usize,
    greedy: String,
    first_logits: Vec<f32>,
}

fn references() -> Vec<Reference> {
    let path = LlamaOptions::default().dir.join("reference.json");
    model_support::read_json(&path).expect("the reference")
}

fn engine(prefill: Prefill) -> Engine<Cuda> {
    let options = LlamaOptions { max_requests: 6, max_context: 256, prefill, ..LlamaOptions::default() };
    let builder = Engine::builder(open(None)).options(Options::default().with(options));
    builder.build(&registry("llama")).expect("an engine")
}

/// One step of a walk: logits and next tokens.
fn step(engine: &mut Engine<Cuda>, walk: &str, rows: &[(u64, &[u32])]) -> Result<(Vec<f32>, Vec<i32>)> {
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
type Served = (Vec<u32>, Vec<Vec<u32>>);

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|v| v.to_bits()).collect()
}

/// Prompts one after the other, then all decoded together, as many tokens as `most` allows.
fn serve(engine: &mut Engine<Cuda>, prefill: Prefill, prompts: &[Reference], most: usize) -> Vec<Served> {
    let tokenizer = Tokenizer::bytes();
    let mut served = Vec::new();
    for (id, reference) in prompts.iter().enumerate() {
        let node = engine.node("llama").expect("linked");
        node.ingest(RequestId(id as u64), &Options::default()).expect("a new request");
        let mut tokens = tokenizer.encode(&reference.prompt).expect("bytes");
        let (logits, drawn) = step(engine, prefill.walk(), &[(id as u64, &tokens)]).expect("a prompt");
        tokens.push(drawn[0] as u32);
        served.push((tokens, vec![bits(&logits)]));
    }
    let wanted = |i: usize| prompts[i].new_tokens.min(most);
    loop {
        let mine: Vec<usize> = (0..served.len()).filter(|i| served[*i].1.len() < wanted(*i)).collect();
        if mine.is_empty() {
            break;
        }
        let rows: Vec<_> =
            mine.iter().map(|i| (*i as u64, &served[*i].0[served[*i].0.len() - 1..])).collect();
        let (logits, drawn) = step(engine, "decode", &rows).expect("a step");
        for ((i, logits), token) in mine.into_iter().zip(logits.chunks(256)).zip(drawn) {
            served[i].0.push(token as u32);
            served[i].1.push(bits(logits));
        }
    }
    let node = engine.node("llama").expect("linked");
    (0..prompts.len()).for_each(|id| node.remove(RequestId(id as u64)));
    served
}

/// Checks what was served, which may be the beginning only.
fn assert_reference(served: &[Served]) {
    for ((tokens, bits), reference) in served.iter().zip(references()) {
        let text = Tokenizer::bytes().decode(tokens).expect("bytes");
        assert!(reference.greedy.starts_with(&text), "{text}");
        let first: Vec<f32> = bits[0].iter().map(|bits| f32::from_bits(*bits)).collect();
        let close = close("the first logits", &first, &reference.first_logits, 2e-3);
        assert_eq!(close, Ok(()), "{:?}", reference.prompt);
    }
}

#[test]
fn llama_captured_and_eager_give_the_reference_to_the_same_bit() {
    let Some(session) = session("llama_captured_and_eager_give_the_reference_to_the_same_bit") else {
        return;
    };
    let prompts = references();
    let mut engine = engine(Prefill::Piecewise);
    let captured = serve(&mut engine, Prefill::Piecewise, &prompts, usize::MAX);
    assert_reference(&captured);
    assert!(captured.iter().zip(&prompts).all(|(served, prompt)| served.1.len() == prompt.new_tokens));
    for stats in engine.stats() {
        assert!(stats.failures.is_empty(), "{}: {:?}", stats.name, stats.failures);
        assert!(stats.eager.is_empty(), "{}: {:?}", stats.name, stats.eager);
    }

    // Alone, in the bucket for one.
    let alone = serve(&mut engine, Prefill::Piecewise, &prompts[..1], 8);
    assert_eq!(alone[0].1[..], captured[0].1[..8]);

    engine.node("llama").expect("linked").set_eager(true);
    for (eager, captured) in serve(&mut engine, Prefill::Piecewise, &prompts, 12).iter().zip(&captured) {
        assert_eq!(eager.1[..], captured.1[..12]);
    }
    drop(engine);
    assert!(session.live().is_zero(), "{:?}", session.live());
    assert!(session.faults().is_empty(), "{:?}", session.faults());
    assert!(graph_cuda::lost().is_empty());
}

#[test]
fn llama_with_attention_inside_the_graph_gives_the_reference() {
    let Some(session) = session("llama_with_attention_inside_the_graph_gives_the_reference") else { return };
    let mut engine = engine(Prefill::BlockLoop);
    assert_reference(&serve(&mut engine, Prefill::BlockLoop, &references(), 10));
    assert!(engine.stats().iter().all(|s| s.eager.is_empty() && s.failures.is_empty()));
    drop(engine);
    assert!(session.faults().is_empty(), "{:?}", session.faults());
}
