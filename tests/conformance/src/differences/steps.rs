//! Differences in a step of a whole forward.

use graph_core::IoSchema;
use serde_json::{Value, json};

use super::{
    Difference, Found,
    model::{Planned, captured, equal_in_python, smallest},
    with_handles, with_refused,
};
use crate::{
    args::{OneQuery, PadInputs, Queries, Query, Stage, StepIds},
    setups::{
        Setups,
        spec::{Kind, Registered, WholeSpec},
        whole::INPUTS,
    },
    vectors::{Bucket, Vector},
};

/// 11, 14, 9, 10, 15.
pub(super) fn lease_slot(vector: &Vector, setups: &Setups<'_>) -> Found {
    let OneQuery { setup, query } = vector.args()?;
    let spec: WholeSpec = setups.spec(&setup)?;
    let captured = match captured(&spec) {
        Ok(captured) => captured,
        Err(refused) => return Ok(Some(refused)),
    };
    let (number, ours) = lease(&spec, &captured, &query);
    Ok(number.map(|number| Difference::new(number, ours)))
}

/// The same for several; 20: whoever gives no slot gets none.
pub(super) fn lease_sequence(vector: &Vector, setups: &Setups<'_>) -> Found {
    let Queries { setup, calls } = vector.args()?;
    let spec: WholeSpec = setups.spec(&setup)?;
    let captured = match captured(&spec) {
        Ok(captured) => captured,
        Err(refused) => return Ok(Some(refused)),
    };
    let leases: Vec<_> = calls.iter().map(|query| lease(&spec, &captured, query)).collect();
    // The smallest number is named: another bucket rather than the counter.
    let number = leases.iter().filter_map(|(number, _)| *number).min();
    let ours = leases.into_iter().map(|(_, ours)| ours).collect();
    Ok(number.map(|number| Difference::new(number, ours)))
}

/// The difference that a lease belongs to, and what graph-core leases.
fn lease(spec: &WholeSpec, captured: &[Planned], query: &Query) -> (Option<u8>, Value) {
    let of_walk = spec.buckets.iter().filter(|r| r.bucket.walk == query.walk);
    let of_key = of_walk.filter(|r| equal_in_python(&r.bucket.key, &query.key));
    let theirs = smallest(query, of_key, |r| (r.bucket.bs, r.bucket.tokens, spec.is_batched(r)));
    let of_key = captured.iter().filter(|p| p.walks.contains(&query.walk) && p.bucket.key == query.key);
    let is_batched = |p: &Planned| spec.configs[p.config].kind == Kind::Batched;
    let ours = smallest(query, of_key, |p| (p.bucket.bs, p.bucket.tokens, is_batched(p)));

    let slot = query.slot.map(|slot| slot % spec.num_slots);
    let answer = ours.map_or(Value::Null, |p| json!({"slot": slot, "bucket": p.bucket}));
    let size = |b: &Bucket| (b.bs, b.tokens, b.key.clone());
    let number = match (theirs, ours) {
        (None, None) => None,
        (Some(t), Some(o)) if size(&t.bucket) == size(&o.bucket) => match query.slot {
            None => Some(20),
            // A size that is listed twice has its slots twice.
            Some(slot) => (slot % t.slots.len() != slot % spec.num_slots).then_some(14),
        },
        (Some(t), _) if t.bucket.key != query.key => Some(15),
        // It was kept although a slot failed.
        (Some(t), _) if !captured.iter().any(|p| is_of(p, t)) => Some(9),
        _ => spec.cascades().then_some(10),
    };
    (number, answer)
}

fn is_of(planned: &Planned, registered: &Registered) -> bool {
    let (p, r) = (&planned.bucket, &registered.bucket);
    planned.config == registered.config && (p.bs, p.tokens) == (r.bs, r.tokens)
}

/// 4: more rows than the bucket has. 7: packed padding rows have no tokens, as in the newest revision.
pub(super) fn pad_inputs(vector: &Vector, setups: &Setups<'_>) -> Found {
    let PadInputs { setup, bucket, real_lens } = vector.args()?;
    let spec: WholeSpec = setups.spec(&setup)?;
    if let Some(difference) = beyond(real_lens.len(), bucket.bs) {
        return Ok(Some(difference));
    }
    let registered = spec.buckets.iter().find(|r| r.bucket == bucket);
    let packed = registered.is_some_and(|r| !spec.is_batched(r));
    let left = bucket.tokens > real_lens.iter().sum();
    if !packed || spec.newest() || !left || real_lens.len() == bucket.bs {
        return Ok(None);
    }
    let mut lens = real_lens;
    lens.resize(bucket.bs, 0);
    Ok(Some(Difference::new(7, json!(lens))))
}

/// 4: more requests than the bucket has rows.
fn beyond(got: usize, most: usize) -> Option<Difference> {
    let ours = json!({"error": "BeyondBucket", "what": "requests", "got": got, "most": most});
    (got > most).then(|| Difference::new(4, ours))
}

/// Why graph-core has no lease on a bucket: 11, 14, or 9 where a slot of it failed.
fn no_lease(spec: &WholeSpec, bucket: &Bucket) -> Option<Difference> {
    let captured = match captured(spec) {
        Ok(captured) => captured,
        Err(refused) => return Some(refused),
    };
    let is_there = captured.iter().any(|p| p.bucket == *bucket);
    (!is_there).then(|| Difference::new(9, json!({"dropped": bucket})))
}

/// 11, 14, 9. 4: more requests than rows. 21: padding rows are handles.
pub(super) fn step_ids(vector: &Vector, setups: &Setups<'_>) -> Found {
    let StepIds { setup, lease, request_ids } = vector.args()?;
    let (ids, rows) = (request_ids.len(), lease.bucket.bs);
    let refused = no_lease(&setups.spec(&setup)?, &lease.bucket).or_else(|| beyond(ids, rows));
    if refused.is_some() || ids == rows {
        return Ok(refused);
    }
    Ok(Some(Difference::new(21, with_handles(vector.value()?))))
}

/// 11, 14, 9. 6: an input that is missing or not declared. 4, 17: rows that disagree, or that the bucket does not hold.
/// 18: the varying axis is the declared one. 5: all padding is written.
pub(super) fn stage(vector: &Vector, setups: &Setups<'_>) -> Found {
    let args: Stage = vector.args()?;
    let bucket = &args.lease.bucket;
    if let Some(difference) = no_lease(&setups.spec(&args.setup)?, bucket) {
        return Ok(Some(difference));
    }
    let unknown = args.unknown(&INPUTS);
    let found = |number, ours| Ok(Some(Difference::new(number, with_refused(ours, &unknown))));
    if let Some(io) = INPUTS.iter().find(|io| !args.inputs.contains_key(io.name)) {
        return found(6, json!({"error": "MissingInput", "input": io.name}));
    }
    let rows = |io: &IoSchema| args.inputs[io.name].get(io.axis).copied().unwrap_or(0);
    let real = rows(&INPUTS[0]);
    if let Some(io) = INPUTS.iter().find(|io| rows(io) != real) {
        let (got, mut want) = (&args.inputs[io.name], args.inputs[io.name].clone());
        want[io.axis] = real;
        return found(4, json!({"error": "WrongSize", "input": io.name, "got": got, "want": want}));
    }
    if real > bucket.tokens {
        let (name, most) = (INPUTS[0].name, bucket.tokens);
        return found(17, json!({"error": "BeyondBucket", "what": name, "got": real, "most": most}));
    }
    let rest = if real < bucket.tokens { "padded" } else { "not written" };
    let guessed = |io: &IoSchema| args.captured_seq_dims.get(io.name).copied().unwrap_or(io.axis);
    if INPUTS.iter().any(|io| guessed(io) != io.axis) {
        let copy = |io: &IoSchema| json!({"op": "copy", "dim": io.axis, "start": 0, "rows": real});
        return found(18, json!({"writes": INPUTS.iter().map(copy).collect::<Vec<_>>(), "rest": rest}));
    }
    if real == bucket.tokens && unknown.is_empty() {
        return Ok(None);
    }
    let mut ours = vector.value()?.clone();
    ours["rest"] = json!(rest);
    found(if real < bucket.tokens { 5 } else { 6 }, ours)
}
