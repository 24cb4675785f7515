//! The llama model's reference through the engine, captured and eager.

use graph_core::{Engine, Options};
use graph_cuda::Cuda;
use llama_plugin::{LlamaOptions, Prefill};
use plugins_on_cuda::{
    models::llama::{Served, check, references, serve},
    open, registry, session,
};

fn engine(prefill: Prefill) -> Engine<Cuda> {
    let options = LlamaOptions { max_requests: 6, max_context: 256, prefill, ..LlamaOptions::default() };
    let builder = Engine::builder(open(None)).options(Options::default().with(options));
    builder.build(&registry("llama")).expect("an engine")
}

fn assert_reference(served: &[Served]) {
    assert_eq!(check(&LlamaOptions::default().dir, served), Ok(()));
}

#[test]
fn llama_captured_and_eager_give_the_reference_to_the_same_bit() {
    let Some(session) = session("llama_captured_and_eager_give_the_reference_to_the_same_bit") else {
        return;
    };
    let prompts = references(&LlamaOptions::default().dir);
    let mut engine = engine(Prefill::Piecewise);
    let captured = serve(&mut engine, Prefill::Piecewise, &prompts, usize::MAX).expect("every prompt");
    assert_reference(&captured);
    assert!(captured.iter().zip(&prompts).all(|(served, prompt)| served.1.len() == prompt.new_tokens));
    for stats in engine.stats() {
        assert!(stats.failures.is_empty(), "{}: {:?}", stats.name, stats.failures);
        assert!(stats.eager.is_empty(), "{}: {:?}", stats.name, stats.eager);
    }

    // Alone, in the bucket for one.
    let alone = serve(&mut engine, Prefill::Piecewise, &prompts[..1], 8).expect("a prompt");
    assert_eq!(alone[0].1[..], captured[0].1[..8]);

    engine.node("llama").expect("linked").set_eager(true);
    let eager = serve(&mut engine, Prefill::Piecewise, &prompts, 12).expect("every prompt");
    for (eager, captured) in eager.iter().zip(&captured) {
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
    let prompts = references(&LlamaOptions::default().dir);
    assert_reference(&serve(&mut engine, Prefill::BlockLoop, &prompts, 10).expect("every prompt"));
    assert!(engine.stats().iter().all(|s| s.eager.is_empty() && s.failures.is_empty()));
    drop(engine);
    assert!(session.faults().is_empty(), "{:?}", session.faults());
}
