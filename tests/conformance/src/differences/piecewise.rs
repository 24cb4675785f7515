//! Differences of a region's runner.

use serde_json::{Value, json};

use super::{Difference, Found, regions::Size, with_handles, with_refused};
use crate::{
    args::{OfSetup, Resolve, Run},
    setups::{
        Setups,
        piecewise::{X_BYTES, schema},
        spec::{Kind, PiecewiseSpec},
    },
    vectors::Vector,
};

/// 14.
pub(super) fn shapes(vector: &Vector, setups: &Setups<'_>) -> Found {
    let OfSetup { setup } = vector.args()?;
    Ok(setups.spec::<PiecewiseSpec>(&setup)?.refused())
}

/// 14.
pub(super) fn padded_bs(vector: &Vector, setups: &Setups<'_>) -> Found {
    let args: Resolve = vector.args()?;
    Ok(setups.spec::<PiecewiseSpec>(&args.setup)?.refused_sizes())
}

/// 14. 16, 8: what a packed call without requests or lengths is told. 2: any larger bucket will do.
pub(super) fn resolve(vector: &Vector, setups: &Setups<'_>) -> Found {
    let args: Resolve = vector.args()?;
    let spec: PiecewiseSpec = setups.spec(&args.setup)?;
    if let Some(refused) = spec.refused() {
        return Ok(Some(refused));
    }
    let Some(tokens) = spec.counted(args.batch_size, args.total_tokens) else {
        return Ok(Some(no_lengths(args.batch_size)));
    };
    let ours = spec.our_choice(args.batch_size, tokens);
    if ours == spec.their_choice(args.batch_size, tokens) {
        return Ok(None);
    }
    let shape = |(bs, tokens): Size| {
        let mut lens = vec![tokens / bs; bs];
        lens[0] += tokens % bs;
        json!({"bs": bs, "seq_lens": lens, "total_tokens": tokens})
    };
    Ok(Some(Difference::new(2, ours.map_or(Value::Null, shape))))
}

fn no_lengths(bs: usize) -> Difference {
    match bs {
        0 => Difference::new(16, json!({"error": "EmptyBatch"})),
        _ => Difference::new(8, json!({"error": "LengthsMissing"})),
    }
}

/// 14, 16, 8, 2.
pub(super) fn lease_slot(vector: &Vector, setups: &Setups<'_>) -> Found {
    let args: Resolve = vector.args()?;
    let spec: PiecewiseSpec = setups.spec(&args.setup)?;
    if let Some(refused) = spec.refused() {
        return Ok(Some(refused));
    }
    let tokens = spec.counted(args.batch_size, args.total_tokens);
    let (Some(tokens), true) = (tokens, args.batch_size > 0) else {
        return Ok(Some(no_lengths(args.batch_size)));
    };
    let ours = spec.our_choice(args.batch_size, tokens);
    if ours == spec.their_choice(args.batch_size, tokens) {
        return Ok(None);
    }
    let slot = args.set_slot % spec.slots();
    let lease = ours.map_or(Value::Null, |(bs, tokens)| {
        json!({"slot": slot, "bucket": {"walk": "__piecewise__", "bs": bs, "tokens": tokens, "key": "blk"}})
    });
    Ok(Some(Difference::new(2, lease)))
}

/// 14, 16, 8. 6: an input that is missing or not declared. 4, 17: lengths or rows that disagree, or that the bucket does
/// not hold. 2: any larger bucket will do. 19: no bucket is an eager outcome. 21: padding rows are handles.
pub(super) fn run(vector: &Vector, setups: &Setups<'_>) -> Found {
    let args: Run = vector.args()?;
    let spec: PiecewiseSpec = setups.spec(&args.setup)?;
    if let Some(refused) = spec.refused() {
        return Ok(Some(refused));
    }
    let Some(bs) = args.requests() else { return Ok(None) };
    let lens = match (spec.kind, &args.seq_lens) {
        _ if bs == 0 => return Ok(Some(no_lengths(0))),
        (_, Some(lens)) => lens.clone(),
        (Kind::Batched, None) => vec![spec.seq_len; args.named().unwrap_or(bs)],
        (Kind::Packed, None) => return Ok(Some(no_lengths(bs))),
    };
    if let Some(n) = [Some(bs), args.named()].into_iter().flatten().find(|n| *n != lens.len()) {
        let ours = json!({"error": "LengthsDisagree", "lens": lens.len(), "bs": n});
        return Ok(Some(Difference::new(4, ours)));
    }
    let inputs = schema(spec.kind).inputs;
    let unknown = args.unknown(inputs);
    let found = |number, ours| Ok(Some(Difference::new(number, with_refused(ours, &unknown))));
    if let Some(io) = inputs.iter().find(|io| !args.static_inputs.contains_key(io.name)) {
        return found(6, json!({"error": "MissingInput", "input": io.name}));
    }

    let tokens = lens.iter().sum::<usize>();
    let counted = spec.counted(bs, Some(tokens)).unwrap_or(tokens);
    let (ours, theirs) = (spec.our_choice(bs, counted), spec.their_choice(bs, counted));
    let rows_of = |(bs, tokens): Size| if spec.kind == Kind::Batched { bs } else { tokens };
    let real = rows_of((bs, tokens));
    for io in inputs {
        let got = &args.static_inputs[io.name];
        let want = match (spec.kind, io.name) {
            (Kind::Batched, "x") => vec![real, spec.seq_len, X_BYTES],
            (Kind::Packed, "x") => vec![real, X_BYTES],
            _ => vec![real],
        };
        if *got != want {
            let beyond = ours.is_some_and(|bucket| got.first().is_some_and(|n| *n > rows_of(bucket)));
            let ours = json!({"error": "WrongSize", "input": io.name, "got": got, "want": want});
            return found(if beyond { 17 } else { 4 }, ours);
        }
    }
    let Some(bucket) = ours else {
        return found(19, json!({"eager": spec.reason(bs, counted), "output_rows": real}));
    };
    if ours != theirs {
        return found(2, spec.ran(&args, bucket, &lens));
    }
    let number = match (bucket.0 > bs, unknown.is_empty()) {
        (true, _) => 21,
        (false, false) => 6,
        (false, true) => return Ok(None),
    };
    found(number, with_handles(vector.value()?))
}
