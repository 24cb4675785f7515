//! Both models: their references captured and eager, and a step's time in each bucket.

use std::time::{Duration, Instant};

use anyhow::Result;
use digits_plugin::DigitsOptions;
use graph_core::{Backend, Engine, HostTensor, NodeCall, Options, RequestId, Source};
use graph_cuda::Cuda;
use llama_plugin::{LlamaOptions, Prefill};
use plugins_on_cuda::{
    models::{digits, llama},
    registry, same,
};

use crate::{
    bundle::Bundle,
    report::{Check, Report, Spread, Timing, spread},
};

/// Tokens of each prompt that are served eagerly, too.
const EAGER_TOKENS: usize = 16;
/// Tokens of a request in a decode that is timed, at the most.
const CONTEXT: usize = 256;

/// Host time and time until the device is done.
fn time(
    rounds: usize,
    engine: &mut Engine<Cuda>,
    step: &mut dyn FnMut(&mut Engine<Cuda>) -> graph_core::Result<()>,
) -> Result<[Spread; 2]> {
    let stream = engine.stream().clone();
    let (mut host, mut all): (Vec<Duration>, Vec<Duration>) = (Vec::new(), Vec::new());
    // The first is not counted.
    for round in 0..=rounds {
        Cuda::synchronize(&stream)?;
        let start = Instant::now();
        step(engine)?;
        let returned = start.elapsed();
        Cuda::synchronize(&stream)?;
        if round > 0 {
            host.push(returned);
            all.push(start.elapsed());
        }
    }
    Ok([spread(&mut host), spread(&mut all)])
}

pub(crate) fn digits(device: &Cuda, bundle: &Bundle, rounds: usize, report: &mut Report) -> Result<()> {
    let options =
        Options::default().with(DigitsOptions { dir: bundle.digits.clone(), ..DigitsOptions::default() });
    let mut engine = Engine::builder(device.clone()).options(options).build(&registry("digits"))?;
    let tokens = digits::tokens(&bundle.digits);
    let captured = digits::classify(&mut engine, &tokens, 32)?;
    report.check(Check::new("digits, captured".into(), digits::check(&bundle.digits, &captured)));
    engine.node("digits")?.set_eager(true);
    let eager = digits::classify(&mut engine, &tokens, 32)?;
    report.check(Check::new("digits, eager: the same bits".into(), same("eager", &eager, &captured)));

    for rows in [1, 2, 4, 8, 16, 32] {
        let images = &tokens[..rows * digits::IMAGE];
        let seq_lens = vec![16; rows];
        let patches = HostTensor::new(images, [images.len() / 4, 4])?;
        let mut step = |engine: &mut Engine<Cuda>| {
            let inputs = [("patches", Source::host::<f32, 2>(&patches))];
            let call = NodeCall { requests: &[], seq_lens: &seq_lens, inputs: &inputs, slot: 0 };
            engine.node("digits")?.run("classify", &call).map(drop)
        };
        let mut of = |eager| {
            engine.node("digits")?.set_eager(eager);
            time(rounds, &mut engine, &mut step)
        };
        let ([eager_host, eager], [replay_host, replay]) = (of(true)?, of(false)?);
        let what = "digits, images";
        report.timings.push(Timing { what, rows, eager_host, replay_host, eager, replay });
    }
    Ok(())
}

pub(crate) fn llama(device: &Cuda, bundle: &Bundle, rounds: usize, report: &mut Report) -> Result<()> {
    let dir = bundle.llama.clone();
    let options = LlamaOptions { dir, max_requests: 16, max_context: CONTEXT, ..LlamaOptions::default() };
    let options = Options::default().with(options);
    let mut engine = Engine::builder(device.clone()).options(options).build(&registry("llama"))?;
    let prompts = llama::references(&bundle.llama);
    let captured = llama::serve(&mut engine, Prefill::Piecewise, &prompts, usize::MAX)?;
    report.check(Check::new("llama, captured".into(), llama::check(&bundle.llama, &captured)));
    engine.node("llama")?.set_eager(true);
    let eager = llama::serve(&mut engine, Prefill::Piecewise, &prompts, EAGER_TOKENS)?;
    let mut both = eager.iter().zip(&captured);
    let equal = both.all(|((_, eager), (_, captured))| *eager == captured[..eager.len()]);
    let equal = if equal { Ok(()) } else { Err("logits differ".into()) };
    report.check(Check::new("llama, eager: the same bits".into(), equal));

    for rows in [1, 2, 4, 8, 16] {
        let mut of = |eager| {
            engine.node("llama")?.set_eager(eager);
            decode(&mut engine, rows, rounds.min(CONTEXT - 8))
        };
        let ([eager_host, eager], [replay_host, replay]) = (of(true)?, of(false)?);
        let what = "llama, decode";
        report.timings.push(Timing { what, rows, eager_host, replay_host, eager, replay });
    }
    Ok(())
}

/// Decode steps of that many requests, whose contexts grow from one token on.
fn decode(engine: &mut Engine<Cuda>, rows: usize, rounds: usize) -> Result<[Spread; 2]> {
    let requests: Vec<RequestId> = (0..rows as u64).map(RequestId).collect();
    for request in &requests {
        engine.node("llama")?.ingest(*request, &Options::default())?;
    }
    let (tokens, seq_lens) = (vec![84; rows], vec![1; rows]);
    let tokens: &[i32] = &tokens;
    let mut step = |engine: &mut Engine<Cuda>| {
        let inputs = [("token", Source::host::<i32, 1>(&tokens))];
        let call = NodeCall { requests: &requests, seq_lens: &seq_lens, inputs: &inputs, slot: 0 };
        engine.node("llama")?.run("decode", &call).map(drop)
    };
    let times = time(rounds, engine, &mut step)?;
    requests.iter().try_for_each(|request| engine.node("llama").map(|node| node.remove(*request)))?;
    Ok(times)
}
