//! Answers about a node's buckets: which there are, and which one a step runs in.

use serde_json::json;

use super::Answer;
use crate::{
    args::{OfSetup, OfWalk, OneQuery, Query},
    errors::Stop,
    setups::{Setups, whole::WholeEngine},
    vectors::{Bucket, Vector},
};

/// Configuration, walk, requests, tokens and slot of every capture.
pub(super) fn capture_order(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let OfSetup { setup } = vector.args()?;
    let whole = setups.whole(&setup)?;
    let slots = 0..whole.spec.num_slots;
    let plan = whole.plan()?;
    let all = plan.iter().flat_map(|(config, key)| {
        slots.clone().map(move |slot| json!([config, key.walk, key.bs, key.tokens, slot]))
    });
    Ok(all.collect())
}

/// The largest configured size.
pub(super) fn runner_max_bs(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let OfSetup { setup } = vector.args()?;
    let whole = setups.whole(&setup)?;
    let mut most = None;
    for config in whole.configs() {
        most = config.shapes(&whole.spec.default_batch_sizes)?.iter().map(|d| d.bs).max().max(most);
    }
    Ok(json!(most))
}

/// The buckets that were planned and are not there. Each has its reason in the statistics.
pub(super) fn dropped_buckets(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let OfSetup { setup } = vector.args()?;
    let whole = setups.whole(&setup)?;
    let engine = whole.engine()?;
    let captured = engine.with(|runner| Ok(runner.buckets().cloned().collect::<Vec<_>>()))?;
    let dropped: Vec<_> =
        whole.plan()?.into_iter().map(|(_, key)| key).filter(|key| !captured.contains(key)).collect();
    let reasons = engine.failures();
    if reasons != dropped.len() {
        return Err(format!("{} buckets are missing, {reasons} reasons are recorded", dropped.len()).into());
    }
    Ok(json!(dropped.iter().map(|key| Bucket::of(key, &key.walk)).collect::<Vec<_>>()))
}

pub(super) fn max_batch_size_for(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let OfWalk { setup, walk } = vector.args()?;
    let whole = setups.whole(&setup)?;
    Ok(json!(whole.engine()?.with(|runner| Ok(runner.max_batch_size_for(&walk)))?))
}

pub(super) fn captures_walk(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let OfWalk { setup, walk } = vector.args()?;
    let whole = setups.whole(&setup)?;
    Ok(json!(whole.engine()?.with(|runner| Ok(runner.captures_walk(&walk)))?))
}

/// The choice among what the reference implementation registered, so that it does not depend on how captures end.
/// Where the runner of the setup has exactly these buckets, it must choose the same.
pub(super) fn select(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let OneQuery { setup, query } = vector.args()?;
    let whole = setups.whole(&setup)?;
    let by_table = whole.registered.choose(&query);
    if let (true, Ok(engine)) = (whole.as_registered, whole.engine()) {
        let by_runner = choose(engine, &query)?;
        if by_runner != by_table {
            return Err(format!("the runner chooses {by_runner:?}, the table {by_table:?}").into());
        }
    }
    Ok(json!(by_table))
}

/// The bucket that the runner chooses, filed under the walk that is asked for.
fn choose(engine: &WholeEngine, query: &Query) -> Result<Option<Bucket>, Stop> {
    let chosen = engine.with(|runner| {
        let info = query.key.as_ref().map(|key| key.info());
        let Some(walk) = runner.walk(&query.walk, info.as_ref()) else { return Ok(None) };
        let found = match query.num_tokens {
            Some(tokens) => runner.select_bucket(walk, query.bs, tokens),
            None => runner.select_batched_bucket(walk, query.bs),
        };
        found.ok().map(|found| Ok(Bucket::of(runner.key(found)?, &query.walk))).transpose()
    });
    Ok(chosen?)
}
