//! Differences in which buckets a node has and which one is chosen.

use serde_json::{Value, json};

use super::{
    Difference, Found,
    model::{captured, equal_in_python, planned, refused_sizes, smallest},
};
use crate::{
    args::{OfSetup, OfWalk, OneQuery},
    setups::{
        Setups,
        spec::{ConfigSpec, Registered, WholeSpec},
    },
    vectors::{Bucket, Vector},
};

/// The buckets that graph-core captures of a setup, in order, or the error that it refuses the setup with.
pub(crate) fn expected(spec: &WholeSpec) -> Result<Vec<Bucket>, Value> {
    let captured = captured(spec).map_err(|refused| refused.ours)?;
    Ok(captured.into_iter().map(|p| p.bucket).collect())
}

/// 11, 14.
pub(super) fn capture_order(vector: &Vector, setups: &Setups<'_>) -> Found {
    let OfSetup { setup } = vector.args()?;
    let spec: WholeSpec = setups.spec(&setup)?;
    let plan = match planned(&spec) {
        Ok(plan) => plan,
        Err(refused) => return Ok(Some(refused)),
    };
    if !spec.configs.iter().any(ConfigSpec::repeats) {
        return Ok(None);
    }
    let all = plan.iter().flat_map(|p| {
        let b = &p.bucket;
        (0..spec.num_slots).map(move |slot| json!([p.config, b.walk, b.bs, b.tokens, slot]))
    });
    Ok(Some(Difference::new(14, all.collect())))
}

/// 14.
pub(super) fn runner_max_bs(vector: &Vector, setups: &Setups<'_>) -> Found {
    let OfSetup { setup } = vector.args()?;
    Ok(refused_sizes(&setups.spec(&setup)?))
}

/// 11, 14. 10: the reference implementation also lost buckets that fail nowhere themselves.
pub(super) fn dropped_buckets(vector: &Vector, setups: &Setups<'_>) -> Found {
    let OfSetup { setup } = vector.args()?;
    let spec: WholeSpec = setups.spec(&setup)?;
    let plan = match planned(&spec) {
        Ok(plan) => plan,
        Err(refused) => return Ok(Some(refused)),
    };
    let is_registered = |bucket: &Bucket| spec.buckets.iter().any(|r| r.bucket == *bucket);
    if !spec.cascades() || plan.iter().all(|p| p.fails(&spec) || is_registered(&p.bucket)) {
        return Ok(None);
    }
    let dropped: Vec<_> = plan.iter().filter(|p| p.fails(&spec)).map(|p| &p.bucket).collect();
    Ok(Some(Difference::new(10, json!(dropped))))
}

/// 15: a key of another type that is equal in Python.
pub(super) fn select(vector: &Vector, setups: &Setups<'_>) -> Found {
    let OneQuery { setup, query } = vector.args()?;
    let spec: WholeSpec = setups.spec(&setup)?;
    let of_walk = || spec.buckets.iter().filter(|r| r.bucket.walk == query.walk);
    let size = |r: &&Registered| (r.bucket.bs, r.bucket.tokens, spec.is_batched(r));
    let theirs = smallest(&query, of_walk().filter(|r| equal_in_python(&r.bucket.key, &query.key)), size);
    let ours = smallest(&query, of_walk().filter(|r| r.bucket.key == query.key), size);
    let (theirs, ours) = (theirs.map(|r| &r.bucket), ours.map(|r| &r.bucket));
    Ok((theirs != ours).then(|| Difference::new(15, json!(ours))))
}

/// 11, 14. 12: the capture walk counts. 13: only what was captured counts.
pub(super) fn max_batch_size_for(vector: &Vector, setups: &Setups<'_>) -> Found {
    let OfWalk { setup, walk } = vector.args()?;
    let spec: WholeSpec = setups.spec(&setup)?;
    let captured = match captured(&spec) {
        Ok(captured) => captured,
        Err(refused) => return Ok(Some(refused)),
    };
    let caps = |config: &ConfigSpec| config.caps.unwrap_or(true);
    let configured = |serves: &dyn Fn(&ConfigSpec) -> bool| {
        let serving = spec.configs.iter().filter(|c| caps(c) && serves(c));
        serving.flat_map(|c| c.sizes(&spec)).max().copied()
    };
    let theirs = configured(&|c| c.replayed().contains(&walk));
    let with_capture_walk = configured(&|c| c.replayed().contains(&walk) || c.capture_walk == walk);
    let serving = captured.iter().filter(|p| caps(&spec.configs[p.config]) && p.walks.contains(&walk));
    let ours = serving.map(|p| p.bucket.bs).max();
    if ours == theirs {
        return Ok(None);
    }
    let number = if with_capture_walk == theirs { 13 } else { 12 };
    Ok(Some(Difference::new(number, json!(ours))))
}

/// 11, 14. 12: the capture walk counts.
pub(super) fn captures_walk(vector: &Vector, setups: &Setups<'_>) -> Found {
    let OfWalk { setup, walk } = vector.args()?;
    let spec: WholeSpec = setups.spec(&setup)?;
    if let Err(refused) = planned(&spec) {
        return Ok(Some(refused));
    }
    let replayed = spec.configs.iter().any(|c| c.replayed().contains(&walk));
    let captured = spec.configs.iter().any(|c| c.capture_walk == walk);
    Ok((captured && !replayed).then(|| Difference::new(12, json!(true))))
}
