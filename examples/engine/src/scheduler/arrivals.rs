//! Requests that arrive while others run.

use anyhow::{Context, Result};
use graph_core::{Backend, NodeRunner, RequestId};
use graph_plan::Step;
use graph_resources::{SampleParams, philox4x32_10};

use super::{Counts, Finished, Limits, Scheduler};

/// A prompt, and the step at which it arrives.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// The first step that it may be part of.
    pub at_step: usize,
}

/// The steps at which `count` requests arrive, one every four steps on the average: the same for the same seed.
///
/// ```
/// let steps = engine::scheduler::random_steps(7, 100);
/// assert_eq!(steps, engine::scheduler::random_steps(7, 100));
/// assert_ne!(steps, engine::scheduler::random_steps(8, 100));
/// assert!(steps.iter().all(|step| *step < 400));
/// ```
pub fn random_steps(seed: u64, count: usize) -> Vec<usize> {
    let step = |i| philox4x32_10([i as u32, 0, 0, 1], [seed as u32, (seed >> 32) as u32])[0] as usize;
    (0..count).map(|i| step(i) % (4 * count)).collect()
}

/// Serves all requests to their end; results in the order of the arrivals. `observe` gets the sizes of every step.
pub fn run<B: Backend>(
    node: &mut NodeRunner<B>,
    stream: &B::Stream,
    arrivals: &[Arrival],
    limits: Limits,
    params: SampleParams,
    mut observe: impl FnMut(&Step) -> Result<()>,
) -> Result<(Vec<Finished>, Counts)> {
    let mut scheduler = Scheduler::new(node, stream, limits)?;
    let mut coming: Vec<usize> = (0..arrivals.len()).collect();
    coming.sort_by_key(|i| std::cmp::Reverse((arrivals[*i].at_step, *i)));
    // Before anything runs: one that can never be served.
    for (i, arrival) in arrivals.iter().enumerate() {
        let checked = scheduler.check(RequestId(i as u64), arrival.tokens.len());
        checked.with_context(|| format!("prompt {}", i + 1))?;
    }
    let mut finished: Vec<Option<Finished>> = vec![None; arrivals.len()];
    for step in 0.. {
        while let Some(i) = coming.pop_if(|i| arrivals[*i].at_step <= step) {
            scheduler.submit(RequestId(i as u64), arrivals[i].tokens.clone(), params)?;
        }
        scheduler.step(&mut observe)?;
        for f in scheduler.take_finished() {
            let i = f.request.0 as usize;
            finished[i] = Some(f);
        }
        if coming.is_empty() && scheduler.is_idle() {
            break;
        }
    }
    let counts = scheduler.counts();
    let all = finished.into_iter().map(|f| f.context("a request never ended"));
    Ok((all.collect::<Result<_>>()?, counts))
}
