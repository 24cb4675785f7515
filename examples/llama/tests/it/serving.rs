//! The reference through the engine: alone, batched with others that come and go, captured and eager. Since a row's
//! result has the same bits in every batch, all of them agree to the last bit.

use graph_core::{CaptureOptions, Registry};

use crate::{
    engine::{Plan, Served, build, engine, serve, serve_all, step},
    reference::{assert_close, references},
};

const APART: Plan = Plan { apart: 3, chunk: 256, slots: 1 };

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
        for bucket in stats.buckets.iter().filter(|b| b.replays > 0) {
            assert!(bucket.real_rows >= bucket.replays, "{}: {bucket:?}", stats.name);
        }
    }
}

#[test]
fn chunks_of_prompts_and_two_slots_in_turn_change_nothing() {
    let capture = CaptureOptions { slots: Some(2), ..CaptureOptions::default() };
    let mut engine = build(&Registry::collect().expect("no duplicates"), capture);
    let served = serve_all(&mut engine, Plan { apart: 1, chunk: 5, slots: 2 });
    assert_reference(&served);
    assert_eq!(served, serve_all(&mut engine, Plan { slots: 2, ..APART }));
}

#[test]
fn a_prompt_beyond_every_bucket_runs_eagerly_with_a_reason() {
    let mut engine = engine();
    let tokens: Vec<u32> = (0..200).map(|i| b"to be or not "[i % 13].into()).collect();
    let both = step(&mut engine, "prefill", 0, &[(0, 1, &tokens), (0, 2, &tokens)]).expect("eager");
    let (one, other) = both.split_at(256);
    assert_eq!(one, other);
    let alone = step(&mut engine, "prefill", 0, &[(0, 3, &tokens)]).expect("in a bucket");
    assert_eq!(alone, one);
    let stats = engine.stats();
    let qkv = stats.iter().find(|s| s.name == "qkv").expect("registered");
    assert_eq!(qkv.eager.iter().map(|(_, n)| n).sum::<u64>(), 4, "{:?}", qkv.eager);
    assert_eq!(qkv.buckets.iter().map(|b| b.replays).sum::<u64>(), 4);
}

#[test]
fn mistakes_of_a_caller_are_errors_and_the_engine_goes_on() {
    let mut engine = engine();
    for (rows, want) in [
        ((0, 7, &[84, 111][..]), "slot 7 of 7"),
        ((255, 1, &[84, 111][..]), "position 256 of 256"),
        ((0, 1, &[84, 256][..]), "row 256 of a table of 256 rows"),
        ((0, 1, &[][..]), "has no token"),
    ] {
        let text = step(&mut engine, "prefill", 0, &[rows]).expect_err("a mistake").to_string();
        assert!(text.contains(want), "`{want}` is not in: {text}");
    }
    let text = step(&mut engine, "decode", 0, &[(0, 7, &[84])]).expect_err("a mistake").to_string();
    assert!(text.contains("slot 7 of 7"), "{text}");
    let text = step(&mut engine, "verify", 0, &[(0, 1, &[84])]).expect_err("a mistake").to_string();
    assert!(text.contains("verify") && text.contains("decode") && text.contains("prefill"), "{text}");
    let reference = &references()[0];
    assert_eq!(serve(&mut engine, &[reference], APART)[0].text, reference.greedy);
}
