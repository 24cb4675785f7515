//! The arguments of the functions that vectors call.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{
    setups::spec::{ConfigSpec, Kind},
    vectors::{Bucket, Key},
};

/// `distribute_tokens`.
#[derive(Deserialize)]
pub(crate) struct Distribute {
    pub(crate) total_tokens: usize,
    pub(crate) bs: usize,
}

/// Questions to a whole-forward configuration.
#[derive(Deserialize)]
pub(crate) struct OfConfig {
    #[serde(flatten)]
    pub(crate) config: ConfigSpec,
    #[serde(default)]
    pub(crate) bs: usize,
    #[serde(default)]
    pub(crate) num_tokens: usize,
}

/// `get_capture_shapes` and `replay_seq_lens` of a piecewise configuration.
#[derive(Deserialize)]
pub(crate) struct OfPiecewise {
    pub(crate) kind: Kind,
    #[serde(default)]
    pub(crate) seq_len: usize,
    #[serde(default)]
    pub(crate) total_tokens: Vec<usize>,
    #[serde(default)]
    pub(crate) batch_sizes: Vec<usize>,
    #[serde(default)]
    pub(crate) shape: RawShape,
    #[serde(default)]
    pub(crate) seq_lens: Option<Vec<usize>>,
    #[serde(default)]
    pub(crate) real_bs: usize,
}

/// A capture shape.
#[derive(Default, Deserialize)]
pub(crate) struct RawShape {
    pub(crate) bs: usize,
    pub(crate) seq_lens: Vec<usize>,
    pub(crate) total_tokens: usize,
}

/// `seq_dim`.
#[derive(Deserialize)]
pub(crate) struct SeqDim {
    pub(crate) shape: Vec<usize>,
    pub(crate) seq_len: usize,
}

/// A function of a setup alone.
#[derive(Deserialize)]
pub(crate) struct OfSetup {
    pub(crate) setup: String,
}

/// `max_batch_size_for` and `captures_walk`.
#[derive(Deserialize)]
pub(crate) struct OfWalk {
    pub(crate) setup: String,
    pub(crate) walk: String,
}

/// A search for a bucket, and the slot to lease it with.
#[derive(Clone, Deserialize)]
pub(crate) struct Query {
    pub(crate) walk: String,
    pub(crate) bs: usize,
    /// Not known before planning: the search is among batched buckets.
    #[serde(default)]
    pub(crate) num_tokens: Option<usize>,
    #[serde(default)]
    pub(crate) key: Option<Key>,
    #[serde(default)]
    pub(crate) slot: Option<usize>,
}

/// `select_bucket`, `select_batched_bucket`, `lease_slot`.
#[derive(Deserialize)]
pub(crate) struct OneQuery {
    pub(crate) setup: String,
    #[serde(flatten)]
    pub(crate) query: Query,
}

/// `lease_sequence`.
#[derive(Deserialize)]
pub(crate) struct Queries {
    pub(crate) setup: String,
    pub(crate) calls: Vec<Query>,
}

/// `pad_inputs`.
#[derive(Deserialize)]
pub(crate) struct PadInputs {
    pub(crate) setup: String,
    pub(crate) bucket: Bucket,
    pub(crate) real_lens: Vec<usize>,
}

/// A leased bucket.
#[derive(Deserialize)]
pub(crate) struct Lease {
    pub(crate) slot: usize,
    pub(crate) bucket: Bucket,
}

/// `step_ids`.
#[derive(Deserialize)]
pub(crate) struct StepIds {
    pub(crate) setup: String,
    pub(crate) lease: Lease,
    pub(crate) request_ids: Vec<String>,
}

/// `stage`.
#[derive(Deserialize)]
pub(crate) struct Stage {
    pub(crate) setup: String,
    pub(crate) lease: Lease,
    /// The size of every input that the step supplies.
    pub(crate) inputs: BTreeMap<String, Vec<usize>>,
    /// The axis that the reference implementation took for the varying one.
    pub(crate) captured_seq_dims: BTreeMap<String, usize>,
}

/// `padded_bs`, `resolve`, `piecewise_lease_slot`.
#[derive(Deserialize)]
pub(crate) struct Resolve {
    pub(crate) setup: String,
    pub(crate) batch_size: usize,
    #[serde(default)]
    pub(crate) total_tokens: Option<usize>,
    #[serde(default)]
    pub(crate) set_slot: usize,
}

/// `run`.
#[derive(Deserialize)]
pub(crate) struct Run {
    pub(crate) setup: String,
    /// The size of every input of the call.
    pub(crate) static_inputs: BTreeMap<String, Vec<usize>>,
    pub(crate) request_ids: Option<Vec<String>>,
    pub(crate) seq_lens: Option<Vec<usize>>,
    pub(crate) real_bs: Option<usize>,
}

impl Run {
    /// The number of requests as the reference implementation finds it.
    pub(crate) fn requests(&self) -> Option<usize> {
        self.real_bs.or(self.named()).or(self.seq_lens.as_ref().map(Vec::len))
    }

    /// The number of requests that are named.
    pub(crate) fn named(&self) -> Option<usize> {
        self.request_ids.as_ref().map(Vec::len)
    }

    /// The names that `declared` has not.
    pub(crate) fn unknown<'a>(&'a self, declared: &'a [graph_core::IoSchema]) -> Vec<&'a str> {
        unknown(&self.static_inputs, declared)
    }
}

impl Stage {
    /// The names that `declared` has not.
    pub(crate) fn unknown<'a>(&'a self, declared: &'a [graph_core::IoSchema]) -> Vec<&'a str> {
        unknown(&self.inputs, declared)
    }
}

fn unknown<'a>(
    inputs: &'a BTreeMap<String, Vec<usize>>,
    declared: &'a [graph_core::IoSchema],
) -> Vec<&'a str> {
    let known = |name: &str| declared.iter().any(|io| io.name == name);
    inputs.keys().map(String::as_str).filter(|name| !known(name)).collect()
}
