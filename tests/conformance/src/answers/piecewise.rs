//! Answers about a region's shapes: which there are, and which one a call runs in.

use graph_core::{Dims, ErrorKind, PiecewiseCudaGraphConfig, Shape};
use serde_json::{Value, json};

use super::{Answer, config::shape_json};
use crate::{
    args::{OfSetup, Resolve},
    errors::Stop,
    setups::{
        Setups,
        piecewise::{Piecewise, Region},
        spec::{Kind, PiecewiseSpec},
    },
    vectors::Vector,
};

/// Requests and tokens of the captured shapes, in capture order.
pub(super) fn captured_order(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let OfSetup { setup } = vector.args()?;
    let piecewise = setups.piecewise(&setup)?;
    let buckets = piecewise.region()?.runner.borrow().stats().buckets;
    Ok(buckets.iter().map(|b| json!([b.dims.bs, b.dims.tokens])).collect())
}

/// Requests and tokens of the shapes that could not be captured.
pub(super) fn dropped_shapes(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let OfSetup { setup } = vector.args()?;
    let piecewise = setups.piecewise(&setup)?;
    let failures = piecewise.region()?.runner.borrow().stats().failures;
    let shape = |failure: &graph_core::Error| match failure.kind() {
        ErrorKind::Capture { bs, tokens, .. } => Ok(json!([bs, tokens])),
        _ => Err(Stop::from(failure)),
    };
    failures.iter().map(|failure| shape(failure)).collect()
}

pub(super) fn padded_bs(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let args: Resolve = vector.args()?;
    let spec = &setups.piecewise(&args.setup)?.spec;
    Ok(json!(spec.config().padded_bs("node.blk", args.batch_size, &spec.default_batch_sizes)?))
}

pub(super) fn resolve(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let args: Resolve = vector.args()?;
    let piecewise = setups.piecewise(&args.setup)?;
    let region = piecewise.region()?;
    let runner = region.runner.borrow();
    let real = match (piecewise.spec.kind, args.total_tokens) {
        (Kind::Batched, _) => runner.config().real_dims(&vec![0; args.batch_size]),
        (Kind::Packed, Some(tokens)) => Dims { bs: args.batch_size, tokens },
        (Kind::Packed, None) => return without_lengths(runner.config(), args.batch_size),
    };
    match runner.bucket_for(real) {
        Ok(bucket) => Ok(shape_json(&shape_at(runner.config(), bucket)?)),
        Err(_) => Ok(Value::Null),
    }
}

/// What a packed configuration says to a call without lengths.
pub(super) fn without_lengths(config: &dyn PiecewiseCudaGraphConfig, bs: usize) -> Answer {
    let shapes = config.capture_shapes(&[bs])?;
    let shape = shapes.first().ok_or_else(|| "the configuration has no shape".to_string())?;
    Ok(json!(config.replay_seq_lens(shape, None, bs)?))
}

/// The capture shape of a bucket.
pub(super) fn shape_at(config: &dyn PiecewiseCudaGraphConfig, bucket: Dims) -> Result<Shape, Stop> {
    let shapes = config.capture_shapes(&[bucket.bs])?;
    let found = shapes.into_iter().find(|shape| shape.dims() == bucket);
    found.ok_or_else(|| format!("{bucket:?} is no shape of its configuration").into())
}

impl Piecewise {
    /// The runner and what it runs with, or the error that it was refused with.
    pub(super) fn region(&self) -> Result<&Region, Stop> {
        self.built.as_ref().map_err(Stop::from)
    }
}

impl PiecewiseSpec {
    /// Any lengths of this many requests and tokens.
    pub(super) fn lengths(&self, bs: usize, tokens: usize) -> Result<Vec<usize>, Stop> {
        Ok(match self.kind {
            Kind::Batched => vec![self.seq_len; bs],
            Kind::Packed => graph_core::distribute_tokens(tokens, bs)?,
        })
    }
}
