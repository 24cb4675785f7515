//! Sampling through the scheduler: a text depends on its prompt and its seed.

use graph_core::{NodeCall, Options, RequestId, Source};
use graph_resources::SampleParams;
use llama_plugin::{LlamaOptions, Prefill};

use crate::{
    node::engine,
    schedule::{Prompt, Schedule},
    tiny::{VOCAB, tiny},
};

const NEW: usize = 12;

fn hot(seed: u64) -> SampleParams {
    SampleParams::seeded(seed).temperature(1.5)
}

/// The tokens of `count` requests with one prompt, of seeds 1, 2 and so on.
fn serve(options: &LlamaOptions, seeds: &[u64], eager: bool) -> (Vec<Vec<u32>>, u64) {
    let mut engine = engine(options.clone());
    engine.node("llama").expect("there").set_eager(eager);
    let prompt =
        |seed: &u64| Prompt { tokens: vec![4, 9, 2], params: hot(*seed), at_step: 0, cancel_at: None };
    let schedule = Schedule {
        prompts: seeds.iter().map(prompt).collect(),
        max_new_tokens: NEW,
        max_batch: 8,
        prefill_budget: 64,
        alias: false,
    };
    let served = schedule.serve(&mut engine, options.prefill.walk(), true);
    let tokens = served.finished.into_iter().map(|f| f.expect("not cancelled").tokens).collect();
    (tokens, served.counts.preemptions)
}

#[test]
fn a_seed_gives_one_text_alone_batched_captured_eager_and_preempted() {
    let dir = tiny();
    let options = LlamaOptions { dir: dir.path().into(), page_size: 2, ..LlamaOptions::default() };
    let seeds: Vec<u64> = (1..=6).collect();
    let (batched, none) = serve(&options, &seeds, false);
    assert_eq!(none, 0);
    let different: std::collections::HashSet<_> = batched.iter().collect();
    assert_eq!(different.len(), seeds.len(), "six seeds, six texts");
    for (seed, want) in seeds.iter().zip(&batched) {
        assert_eq!(serve(&options, &[*seed], false).0[0], *want, "alone, seed {seed}");
    }
    assert_eq!(serve(&options, &seeds, true).0, batched, "eager");
    let block_loop = LlamaOptions { prefill: Prefill::BlockLoop, ..options.clone() };
    assert_eq!(serve(&block_loop, &seeds, false).0, batched, "the other way of prefill");
    // 14 tokens each in the cache: 7 pages, of which all share 20.
    let few = LlamaOptions { pages: Some(20), ..options };
    for eager in [false, true] {
        let (texts, preemptions) = serve(&few, &seeds, eager);
        assert!(preemptions > 0);
        assert_eq!(texts, batched, "preempted, eager {eager}");
    }
}

/// The graph, the input and the logits are the same; only the counter on the device is not.
#[test]
fn two_replays_draw_different_numbers() {
    let dir = tiny();
    let options = LlamaOptions { dir: dir.path().into(), ..LlamaOptions::default() };
    let mut engine = engine(options);
    let stream = engine.stream().clone();
    let node = engine.node("llama").expect("there");
    let mut draw = |counter| {
        node.ingest(RequestId(1), &Options::default().with(hot(5).counter(counter))).expect("new");
        let token: &[i32] = &[3];
        let inputs = [("token", Source::host::<i32, 1>(&token))];
        let call = NodeCall { requests: &[RequestId(1)], seq_lens: &[1], inputs: &inputs, slot: 0 };
        let outcome = node.run("decode", &call).expect("a step");
        assert!(outcome.reason().is_none(), "replayed");
        let mut out = outcome.into_out();
        let logits = out.take::<f32, 2>("logits").expect("there").to_vec(&stream).expect("read");
        let token = out.take::<i32, 1>("token").expect("there").to_vec(&stream).expect("read")[0];
        drop(out);
        node.remove(RequestId(1));
        (logits.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), token)
    };
    let drawn: Vec<_> = (0..64).map(&mut draw).collect();
    assert!(drawn.iter().all(|(logits, _)| *logits == drawn[0].0), "one distribution");
    let tokens: std::collections::HashSet<_> = drawn.iter().map(|(_, token)| token).collect();
    assert!(tokens.len() > VOCAB / 3, "{tokens:?}");
    assert_eq!((0..64).map(draw).collect::<Vec<_>>(), drawn, "and the same again");
}

/// The counter advances by itself, on the device: fresh numbers without anybody telling the graph.
#[test]
fn a_request_draws_on() {
    let dir = tiny();
    let options = LlamaOptions { dir: dir.path().into(), ..LlamaOptions::default() };
    let (texts, _) = serve(&options, &[1], false);
    let new: std::collections::HashSet<_> = texts[0][3..].iter().collect();
    assert!(new.len() > 3, "{texts:?}");
}
