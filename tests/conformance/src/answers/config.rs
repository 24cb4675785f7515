//! Answers of the configurations: no runner is needed.

use graph_core::{
    DEFAULT_BATCH_SIZES, Elem, IoSchema, PiecewiseBatchedConfig, PiecewiseCudaGraphConfig,
    PiecewisePackedConfig, Shape,
};
use serde_json::{Value, json};

use super::Answer;
use crate::{
    args::{Distribute, OfConfig, OfPiecewise, SeqDim},
    setups::spec::Kind,
    vectors::Vector,
};

pub(super) fn distribute_tokens(vector: &Vector) -> Answer {
    let Distribute { total_tokens, bs } = vector.args()?;
    Ok(json!(graph_core::distribute_tokens(total_tokens, bs)?))
}

pub(super) fn default_batch_sizes() -> Value {
    json!(DEFAULT_BATCH_SIZES)
}

/// The varying axis is declared; an input that declares none has the first.
pub(super) fn seq_dim(vector: &Vector) -> Answer {
    let SeqDim { shape, .. } = vector.args()?;
    Ok(json!(IoSchema::host("input", Elem::F32, shape.len(), "as given").axis))
}

pub(super) fn replay_graph_walks(vector: &Vector) -> Answer {
    let OfConfig { config, .. } = vector.args()?;
    Ok(json!(config.build(None).replay_graph_walks()))
}

pub(super) fn defaults(vector: &Vector) -> Answer {
    let OfConfig { config, .. } = vector.args()?;
    let built = config.build(None);
    let key = built.additional_key_info().map(|key| format!("{key:?}"));
    let mut all = json!({
        "replay_graph_walks": built.replay_graph_walks(),
        "additional_key_info": key,
        "compile": built.compile(),
        "capture_batch_sizes": built.capture_batch_sizes(),
        "capture_forward_method": built.capture_forward_method(),
        "caps_eager_batch_size": built.caps_eager_batch_size(),
        "config_type": built.config_type().as_str(),
    });
    if config.kind == Kind::Batched {
        // One request of one token: the total is the multiplier.
        all["total_tokens_multiplier"] = json!(built.total_tokens(1).iter().sum::<usize>());
    }
    Ok(all)
}

pub(super) fn total_tokens(vector: &Vector) -> Answer {
    let OfConfig { config, bs, .. } = vector.args()?;
    Ok(json!(config.build(None).total_tokens(bs)))
}

pub(super) fn node_inputs(vector: &Vector) -> Answer {
    let OfConfig { config, bs, num_tokens } = vector.args()?;
    let rows = config.build(None).node_inputs(bs, num_tokens)?;
    Ok(json!(rows.iter().map(|row| row.input_seq_len).collect::<Vec<_>>()))
}

fn piecewise(args: &OfPiecewise) -> Box<dyn PiecewiseCudaGraphConfig> {
    match args.kind {
        Kind::Batched => Box::new(PiecewiseBatchedConfig::new(args.seq_len)),
        Kind::Packed => Box::new(PiecewisePackedConfig::new(args.total_tokens.clone())),
    }
}

/// A capture shape as the vectors write it.
pub(super) fn shape_json(shape: &Shape) -> Value {
    json!({"bs": shape.bs, "seq_lens": shape.seq_lens, "total_tokens": shape.total_tokens})
}

pub(super) fn capture_shapes(vector: &Vector) -> Answer {
    let args: OfPiecewise = vector.args()?;
    let shapes = piecewise(&args).capture_shapes(&args.batch_sizes)?;
    Ok(shapes.iter().map(shape_json).collect())
}

pub(super) fn replay_seq_lens(vector: &Vector) -> Answer {
    let args: OfPiecewise = vector.args()?;
    let shape = Shape {
        bs: args.shape.bs,
        seq_lens: args.shape.seq_lens.clone(),
        total_tokens: args.shape.total_tokens,
    };
    Ok(json!(piecewise(&args).replay_seq_lens(&shape, args.seq_lens.as_deref(), args.real_bs)?))
}
