//! Activations in bf16: near the reference and near `f32`, and the same bits captured and eager, alone and batched.

use graph_core::Engine;
use graph_host::Host;
use llama_plugin::{Activations, LlamaOptions, Prefill, Tokenizer};

use crate::{
    engine::{Plan, engine_with, ingest, options, remove, serve, serve_all, step},
    folders::widened,
    reference::{argmax, differences, references},
};

const APART: Plan = Plan { apart: 3, chunk: 256, prefill: Prefill::Piecewise };

fn bf16() -> LlamaOptions {
    LlamaOptions { activations: Activations::Bf16, ..options() }
}

/// The logits after the prompt and after each byte of the reference's text, whatever the model would say: all requests
/// together.
fn forced(engine: &mut Engine<Host>) -> Vec<f32> {
    let references = references();
    let texts: Vec<_> =
        references.iter().map(|r| Tokenizer::bytes().encode(&r.greedy).expect("Latin-1")).collect();
    let ids = 0..references.len() as u64;
    ingest(engine, ids.clone());
    let prompt = |id: u64| (id, &texts[id as usize][..references[id as usize].prompt.len()]);
    let prompts: Vec<_> = ids.clone().map(prompt).collect();
    let mut logits = step(engine, "prefill", 0, &prompts).expect("a step");
    for at in 0..references[0].new_tokens {
        let next = |id: u64| {
            let at = references[id as usize].prompt.len() + at;
            (id, &texts[id as usize][at..at + 1])
        };
        let rows: Vec<_> = ids.clone().map(next).collect();
        logits.extend(step(engine, "decode", at, &rows).expect("a step"));
    }
    remove(engine, ids);
    logits
}

#[test]
fn alone_batched_captured_and_eager_are_the_same_to_the_bit() {
    let mut engine = engine_with(bf16());
    let batched = serve_all(&mut engine, APART);
    for (served, reference) in batched.iter().zip(references()) {
        let (worst, _) = differences(&served.first_logits(), &reference.first_logits);
        assert!(worst <= 5e-2, "{:?}: {worst}", reference.prompt);
        let alone = serve(&mut engine, &[&reference], APART);
        assert_eq!(alone[0], *served, "alone: {:?}", reference.prompt);
    }
    for stats in engine.stats() {
        assert!(stats.failures.is_empty(), "{}: {:?}", stats.name, stats.failures);
        assert!(stats.eager.is_empty(), "{}: {:?}", stats.name, stats.eager);
        assert!(stats.name == "decode" || stats.name.ends_with("_bf16"), "{}", stats.name);
    }
    engine.node("llama").expect("there").set_eager(true);
    assert_eq!(serve_all(&mut engine, APART), batched);
}

#[test]
fn chunks_page_sizes_and_both_ways_of_prefill_give_the_same_bits() {
    let want = serve_all(&mut engine_with(bf16()), APART);
    for (prefill, page_size, chunk) in [(Prefill::Piecewise, 4, 1), (Prefill::BlockLoop, 1, 7)] {
        let mut engine = engine_with(LlamaOptions { prefill, page_size, ..bf16() });
        let served = serve_all(&mut engine, Plan { apart: 1, chunk, prefill });
        assert_eq!(served, want, "{prefill:?}, pages of {page_size}, chunks of {chunk}");
    }
}

#[test]
fn logits_over_the_reference_text_stay_near_those_of_f32() {
    let (want, got) = (forced(&mut engine_with(options())), forced(&mut engine_with(bf16())));
    assert_eq!(want.len(), 5 * 101 * 256);
    // Of logits whose mean square is 10.5^2: bf16 has 8 bits.
    let (worst, rms) = differences(&got, &want);
    assert!(worst <= 2e-1 && rms <= 5e-2, "{worst}, {rms}");
    assert!(rms >= 1e-2, "{rms}: nothing was rounded");
    let same =
        got.chunks(256).zip(want.chunks(256)).filter(|(got, want)| argmax(got) == argmax(want)).count();
    assert!(same >= 500, "{same} of 505 tokens");
}

#[test]
fn a_model_whose_weights_are_in_f32_computes_in_bf16_as_well() {
    let dir = widened();
    let mut engine = engine_with(LlamaOptions { dir: dir.path().into(), ..bf16() });
    assert_eq!(forced(&mut engine), forced(&mut engine_with(bf16())));
}
