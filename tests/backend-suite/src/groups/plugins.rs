//! The models: their references, captured and eager, to the same bit.

use digits_plugin::DigitsOptions;
use graph_core::{Engine, Error, Options, Result};
use llama_plugin::{LlamaOptions, Prefill};

use crate::{
    Bench, SuiteOps,
    models::{digits, llama, registry},
    same,
};

fn llama_engine<B: SuiteOps>(bench: &Bench<B>, prefill: Prefill) -> Result<Engine<B>> {
    let dir = bench.llama.clone();
    let options = LlamaOptions { dir, max_requests: 6, max_context: 256, prefill, ..LlamaOptions::default() };
    Engine::builder(bench.device()?).options(Options::default().with(options)).build(&registry("llama"))
}

/// All prompts with all their tokens, captured; the same eagerly; and one prompt alone.
fn llama<B: SuiteOps>(bench: &Bench<B>, prefill: Prefill) -> Result<()> {
    let mut engine = llama_engine(bench, prefill)?;
    let prompts = llama::references(&bench.llama);
    let captured = llama::serve(&mut engine, prefill, &prompts, usize::MAX)?;
    llama::check(&bench.llama, &captured).map_err(Error::plugin)?;
    assert!(captured.iter().zip(&prompts).all(|(served, prompt)| served.1.len() == prompt.new_tokens));
    // Alone, in the bucket for one.
    let alone = llama::serve(&mut engine, prefill, &prompts[..1], 8)?;
    assert!(alone[0].1[..] == captured[0].1[..8], "alone, other bits");
    for stats in engine.stats() {
        assert!(stats.failures.is_empty(), "{}: {:?}", stats.name, stats.failures);
        assert!(stats.eager.is_empty(), "{}: {:?}", stats.name, stats.eager);
    }
    engine.node("llama")?.set_eager(true);
    let eager = llama::serve(&mut engine, prefill, &prompts, usize::MAX)?;
    assert!(eager == captured, "eager, other bits");
    Ok(())
}

pub(crate) fn llama_piecewise_gives_the_reference_captured_and_eager<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    llama(bench, Prefill::Piecewise)
}

pub(crate) fn llama_block_loop_gives_the_reference_captured_and_eager<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    llama(bench, Prefill::BlockLoop)
}

pub(crate) fn digits_gives_the_reference_captured_and_eager<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let options =
        Options::default().with(DigitsOptions { dir: bench.digits.clone(), ..DigitsOptions::default() });
    let mut engine = Engine::builder(bench.device()?).options(options).build(&registry("digits"))?;
    let tokens = digits::tokens(&bench.digits);
    // In the bucket of 32, with padding.
    let captured = digits::classify(&mut engine, &tokens, 30)?;
    digits::check(&bench.digits, &captured).map_err(Error::plugin)?;
    for (images, batch) in [(12, 1), (40, 5)] {
        let got = digits::classify(&mut engine, &tokens[..images * digits::IMAGE], batch)?;
        same(&format!("batches of {batch}"), &got, &captured[..10 * images]).map_err(Error::plugin)?;
    }
    let stats = engine.stats();
    let region = stats.iter().find(|s| s.name == "classify").expect("registered");
    assert!(region.failures.is_empty() && region.eager.is_empty(), "{:?}", region.eager);
    assert!(region.buckets.iter().any(|b| b.padded_rows > 0));

    engine.node("digits")?.set_eager(true);
    let eager = digits::classify(&mut engine, &tokens, 40)?;
    same("eager", &eager, &captured).map_err(Error::plugin)?;
    Ok(())
}
