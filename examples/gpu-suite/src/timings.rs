//! A step's time in each bucket, eager and replayed: of a toy region and of both models.

use std::time::{Duration, Instant};

use anyhow::Result;
use backend_suite::{
    ThreeInputs,
    models::{digits, registry},
};
use digits_plugin::DigitsOptions;
use graph_core::{Backend, Engine, HostTensor, NodeCall, Options, RequestId, Source};
use graph_cuda::{Cuda, Stream};
use llama_plugin::LlamaOptions;

use crate::{
    bundle::Bundle,
    report::{Report, Spread, Timing, spread},
};

/// Tokens of a request in a decode that is timed, at the most.
const CONTEXT: usize = 256;

/// Calls of a region of three inputs of the host.
pub(crate) fn three_inputs(device: &Cuda, rounds: usize, report: &mut Report) -> Result<()> {
    let mut three = ThreeInputs::new(device.clone())?;
    let stream = three.engine().stream().clone();
    for rows in ThreeInputs::<Cuda>::SIZES {
        let mut of = |eager| {
            three.set_eager(eager);
            time(rounds, &stream, || three.run(rows).map(drop))
        };
        let ([eager_host, eager], [replay_host, replay]) = (of(true)?, of(false)?);
        let what = "toy.three, rows";
        report.timings.push(Timing { what, rows, eager_host, replay_host, eager, replay });
    }
    Ok(())
}

pub(crate) fn digits(device: &Cuda, bundle: &Bundle, rounds: usize, report: &mut Report) -> Result<()> {
    let options =
        Options::default().with(DigitsOptions { dir: bundle.digits.clone(), ..DigitsOptions::default() });
    let mut engine = Engine::builder(device.clone()).options(options).build(&registry("digits"))?;
    let (tokens, stream) = (digits::tokens(&bundle.digits), engine.stream().clone());
    for rows in [1, 2, 4, 8, 16, 32] {
        let images = &tokens[..rows * digits::IMAGE];
        let seq_lens = vec![16; rows];
        let patches = HostTensor::new(images, [images.len() / 4, 4])?;
        let inputs = [("patches", Source::host::<f32, 2>(&patches))];
        let call = NodeCall { requests: &[], seq_lens: &seq_lens, inputs: &inputs, slot: 0 };
        let node = engine.node("digits")?;
        let mut of = |eager| {
            node.set_eager(eager);
            time(rounds, &stream, || node.run("classify", &call).map(drop))
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
    let (requests, stream): (Vec<_>, _) =
        ((0..rows as u64).map(RequestId).collect(), engine.stream().clone());
    let node = engine.node("llama")?;
    requests.iter().try_for_each(|request| node.ingest(*request, &Options::default()))?;
    let (tokens, seq_lens) = (vec![84; rows], vec![1; rows]);
    let tokens: &[i32] = &tokens;
    let inputs = [("token", Source::host::<i32, 1>(&tokens))];
    let call = NodeCall { requests: &requests, seq_lens: &seq_lens, inputs: &inputs, slot: 0 };
    let times = time(rounds, &stream, || node.run("decode", &call).map(drop))?;
    requests.iter().for_each(|request| node.remove(*request));
    Ok(times)
}

/// Host time and time until the device is done.
fn time(
    rounds: usize,
    stream: &Stream,
    mut step: impl FnMut() -> graph_core::Result<()>,
) -> Result<[Spread; 2]> {
    let (mut host, mut all): (Vec<Duration>, Vec<Duration>) = (Vec::new(), Vec::new());
    // The first is not counted.
    for round in 0..=rounds {
        Cuda::synchronize(stream)?;
        let start = Instant::now();
        step()?;
        let returned = start.elapsed();
        Cuda::synchronize(stream)?;
        if round > 0 {
            host.push(returned);
            all.push(start.elapsed());
        }
    }
    Ok([spread(&mut host), spread(&mut all)])
}
