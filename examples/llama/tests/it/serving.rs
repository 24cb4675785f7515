//! The reference through the engine: alone, batched with others that come and go, captured and eager. Since a row's
//! result has the same bits in every batch, all of them agree to the last bit.

use graph_core::{CaptureOptions, Registry};
use graph_host::Host;
use graph_resources::PagedKv;
use llama_plugin::{LlamaOptions, Prefill};

use crate::{
    engine::{Plan, Served, build, engine, engine_with, ingest, options, remove, serve, serve_all, step},
    reference::{assert_close, references},
};

const APART: Plan = Plan { apart: 3, chunk: 256, prefill: Prefill::Piecewise };

fn assert_reference(served: &[Served]) {
    for (served, reference) in served.iter().zip(references()) {
        assert_eq!(served.text, reference.greedy);
        assert_close(&served.first_logits(), &reference.first_logits, 2e-3);
    }
}

#[test]
fn alone_batched_captured_and_eager_are_the_same_to_the_bit() {
    let mut engine = engine();
    let batched = serve_all(&mut engine, APART);
    assert_reference(&batched);
    for (reference, batched) in references().iter().zip(&batched) {
        let alone = serve(&mut engine, &[reference], APART);
        assert_eq!(alone[0], *batched, "alone: {:?}", reference.prompt);
    }

    let replays = |engine: &graph_core::Engine<_>| -> u64 {
        engine.stats().iter().flat_map(|s| &s.buckets).map(|b| b.replays).sum()
    };
    let before = replays(&engine);
    assert!(before > 500, "only {before} replays");
    engine.node("llama").expect("there").set_eager(true);
    let eager = serve_all(&mut engine, APART);
    assert_eq!(eager, batched);
    assert_eq!(replays(&engine), before, "eager execution replays nothing");
}

#[test]
fn every_step_is_replayed_in_a_bucket_that_holds_it() {
    let mut engine = engine();
    serve_all(&mut engine, APART);
    for stats in engine.stats() {
        assert!(stats.failures.is_empty(), "{}: {:?}", stats.name, stats.failures);
        assert!(stats.eager.is_empty(), "{}: {:?}", stats.name, stats.eager);
        assert!(!stats.name.ends_with("_bf16"), "{} is of other activations", stats.name);
        for bucket in stats.buckets.iter().filter(|b| b.replays > 0) {
            assert!(bucket.real_rows >= bucket.replays, "{}: {bucket:?}", stats.name);
        }
    }
}

#[test]
fn chunks_page_sizes_and_both_ways_of_prefill_give_the_same_bits() {
    let mut at_once = engine();
    let want = serve_all(&mut at_once, APART);
    assert_reference(&want);
    for (prefill, page_size, chunk) in [
        (Prefill::Piecewise, 1, 5),
        (Prefill::Piecewise, 4, 1),
        (Prefill::BlockLoop, 16, 256),
        (Prefill::BlockLoop, 4, 7),
    ] {
        let mut engine = engine_with(LlamaOptions { prefill, page_size, ..options() });
        let served = serve_all(&mut engine, Plan { apart: 1, chunk, prefill });
        assert_eq!(served, want, "{prefill:?}, pages of {page_size}, chunks of {chunk}");
        let stats = engine.stats();
        assert!(stats.iter().all(|s| s.eager.is_empty() && s.failures.is_empty()), "{stats:?}");
    }
}

#[test]
fn one_slot_gives_the_same_bits() {
    let capture = CaptureOptions { slots: Some(1), ..CaptureOptions::default() };
    let mut one = build(&Registry::collect().expect("no duplicates"), options(), capture);
    assert_eq!(one.node("llama").expect("there").slots(), 1);
    let served = serve_all(&mut one, Plan { apart: 1, chunk: 5, ..APART });
    assert_reference(&served);
}

#[test]
fn a_prompt_beyond_every_bucket_runs_eagerly_with_a_reason() {
    let mut engine = engine();
    let tokens: Vec<u32> = (0..200).map(|i| b"to be or not "[i % 13].into()).collect();
    ingest(&mut engine, 1..=3);
    let both = step(&mut engine, "prefill", 0, &[(1, &tokens), (2, &tokens)]).expect("eager");
    let (one, other) = both.split_at(256);
    assert_eq!(one, other);
    let alone = step(&mut engine, "prefill", 0, &[(3, &tokens)]).expect("in a bucket");
    assert_eq!(alone, one);
    let stats = engine.stats();
    let qkv = stats.iter().find(|s| s.name == "qkv").expect("registered");
    assert_eq!(qkv.eager.iter().map(|(_, n)| n).sum::<u64>(), 4, "{:?}", qkv.eager);
    assert_eq!(qkv.buckets.iter().map(|b| b.replays).sum::<u64>(), 4);
}

#[test]
fn mistakes_of_a_caller_are_errors_and_the_engine_goes_on() {
    let mut engine = engine();
    ingest(&mut engine, [1]);
    for (row, want) in [
        ((7, &[84, 111][..]), "request 7 is not known"),
        ((1, &[84; 257][..]), "request 1 (main) would have 257 tokens, at most 256"),
        ((1, &[84, 256][..]), "row 256 of a table of 256 rows"),
        ((1, &[][..]), "has no token"),
    ] {
        let text = step(&mut engine, "prefill", 0, &[row]).expect_err("a mistake").to_string();
        assert!(text.contains(want), "`{want}` is not in: {text}");
    }
    let text = step(&mut engine, "decode", 0, &[(7, &[84])]).expect_err("a mistake").to_string();
    assert!(text.contains("request 7 is not known"), "{text}");
    let text = step(&mut engine, "verify", 0, &[(1, &[84])]).expect_err("a mistake").to_string();
    assert!(text.contains("verify") && text.contains("decode") && text.contains("prefill"), "{text}");
    let text = step(&mut engine, "prefill_block_loop", 0, &[(1, &[84])]).expect_err("a mistake").to_string();
    assert!(text.contains("`LlamaOptions::prefill` BlockLoop, it is Piecewise"), "{text}");
    let kv = engine.node("llama").expect("there").steps().get::<PagedKv<Host>>().expect("a cache");
    assert_eq!(kv.counts().free, kv.counts().total, "no mistake left a page behind");
    remove(&mut engine, [1]);
    let reference = &references()[0];
    assert_eq!(serve(&mut engine, &[reference], APART)[0].text, reference.greedy);
}
