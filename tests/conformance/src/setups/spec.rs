//! What a setup says: the inputs of a runner, and what the reference implementation made of them.

use std::borrow::Cow;

use graph_core::{
    BatchedCudaGraphConfig, BucketKey, CudaGraphConfig, DEFAULT_BATCH_SIZES, KeyInfo, NodeInputs,
    PackedCudaGraphConfig, PiecewiseBatchedConfig, PiecewiseCudaGraphConfig, PiecewisePackedConfig,
};
use serde::Deserialize;

use crate::vectors::{Bucket, Key};

/// Batched or packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// All requests of one length.
    Batched,
    /// Requests that share a token budget.
    Packed,
}

/// A whole-forward configuration.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ConfigSpec {
    /// Batched or packed.
    pub(crate) kind: Kind,
    /// The walk that is captured.
    #[serde(default = "any_walk")]
    pub(crate) capture_walk: String,
    /// The walks that may replay it.
    #[serde(default)]
    pub(crate) replay_walks: Option<Vec<String>>,
    /// Additional key info.
    #[serde(default)]
    pub(crate) key: Option<Key>,
    /// Batch sizes to capture.
    #[serde(default)]
    pub(crate) batch_sizes: Option<Vec<usize>>,
    /// Whether it caps eager batches.
    #[serde(default)]
    pub(crate) caps: Option<bool>,
    /// The template's length (batched).
    #[serde(default = "one")]
    pub(crate) input_seq_len: usize,
    /// Sequences per request (batched).
    #[serde(default)]
    pub(crate) multiplier: Option<usize>,
    /// Token totals (packed).
    #[serde(default)]
    pub(crate) token_lengths: Vec<usize>,
}

fn any_walk() -> String {
    "w".into()
}
fn one() -> usize {
    1
}

/// Sets the fields that a setup names; what it leaves out keeps graph-core's default.
macro_rules! with_given {
    ($config:expr, $spec:expr, $forward:expr) => {{
        let mut config = $config;
        if let Some(walks) = &$spec.replay_walks {
            config = config.replay_graph_walks(walks.iter().cloned());
        }
        if let Some(key) = &$spec.key {
            config = config.additional_key_info(key.info());
        }
        if let Some(sizes) = &$spec.batch_sizes {
            config = config.capture_batch_sizes(sizes.clone());
        }
        if let Some(caps) = $spec.caps {
            config = config.caps_eager_batch_size(caps);
        }
        if let Some(forward) = $forward {
            config = config.capture_forward_method(forward);
        }
        Box::new(config) as Box<dyn CudaGraphConfig>
    }};
}

impl ConfigSpec {
    /// The configuration; `forward` names the forward that it captures.
    pub(crate) fn build(&self, forward: Option<&'static str>) -> Box<dyn CudaGraphConfig> {
        let walk = self.capture_walk.clone();
        match self.kind {
            Kind::Batched => {
                let mut config = BatchedCudaGraphConfig::new(walk, NodeInputs::new(self.input_seq_len));
                if let Some(multiplier) = self.multiplier {
                    config = config.total_tokens_multiplier(multiplier);
                }
                with_given!(config, self, forward)
            }
            Kind::Packed => {
                let config = PackedCudaGraphConfig::new(walk, self.token_lengths.clone(), NodeInputs::new);
                with_given!(config, self, forward)
            }
        }
    }
}

impl Key {
    /// As graph-core has it.
    pub(crate) fn info(&self) -> KeyInfo {
        match self {
            Key::Bool(b) => KeyInfo::Bool(*b),
            Key::Int(i) => KeyInfo::Int(*i),
            Key::Str(s) => KeyInfo::Str(s.clone().into()),
        }
    }
}

impl Bucket {
    /// As graph-core has it.
    pub(crate) fn key(&self) -> BucketKey {
        let walk = Cow::Owned(self.walk.clone());
        BucketKey { walk, bs: self.bs, tokens: self.tokens, key: self.key.as_ref().map(Key::info) }
    }

    /// As the vectors write it, filed under `walk`.
    pub(crate) fn of(key: &BucketKey, walk: &str) -> Bucket {
        let info = key.key.as_ref().map(|key| match key {
            KeyInfo::Bool(b) => Key::Bool(*b),
            KeyInfo::Int(i) => Key::Int(*i),
            KeyInfo::Str(s) => Key::Str(s.to_string()),
        });
        Bucket { walk: walk.into(), bs: key.bs, tokens: key.tokens, key: info }
    }
}

/// A whole-forward runner.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct WholeSpec {
    /// Slots.
    pub(crate) num_slots: usize,
    /// Configurations.
    pub(crate) configs: Vec<ConfigSpec>,
    /// Captures that fail: configuration, requests, tokens, slot.
    pub(crate) failed: Vec<(usize, usize, usize, usize)>,
    /// Where they fail; `before_buffers` matters to the reference implementation.
    #[serde(default)]
    pub(crate) fail_stage: Option<String>,
    /// Sizes where a configuration names none.
    pub(crate) default_batch_sizes: Vec<usize>,
    /// The outcome of the reference implementation.
    pub(crate) buckets: Vec<Registered>,
}

/// A bucket that the reference implementation registered.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Registered {
    /// Its key.
    #[serde(flatten)]
    pub(crate) bucket: Bucket,
    /// Configuration and slot of each of its graphs.
    pub(crate) slots: Vec<(usize, usize)>,
    /// The configuration that it is filed under.
    pub(crate) config: usize,
}

impl WholeSpec {
    /// Whether the vectors of this setup come from the newest revision of the reference runner, which is where its
    /// default sizes end at 64.
    pub(crate) fn newest(&self) -> bool {
        self.default_batch_sizes == DEFAULT_BATCH_SIZES
    }

    /// Whether a capture that fails takes larger ones of its configuration with it in the reference implementation: it
    /// sizes the buffers by the first capture that reaches them.
    pub(crate) fn cascades(&self) -> bool {
        self.fail_stage.as_deref() == Some("before_buffers")
    }

    /// Whether the capture of a bucket fails on a slot.
    pub(crate) fn fails(&self, config: usize, bs: usize, tokens: usize, slot: usize) -> bool {
        self.failed.contains(&(config, bs, tokens, slot))
    }

    /// Whether a bucket that the reference implementation registered is filed under a batched configuration.
    pub(crate) fn is_batched(&self, registered: &Registered) -> bool {
        self.configs.get(registered.config).is_some_and(|c| c.kind == Kind::Batched)
    }
}

/// A region's runner.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PiecewiseSpec {
    /// Batched or packed.
    pub(crate) kind: Kind,
    /// The length of every request (batched).
    #[serde(default)]
    pub(crate) seq_len: usize,
    /// Token totals (packed).
    #[serde(default)]
    pub(crate) total_tokens: Vec<usize>,
    /// Batch sizes to capture.
    #[serde(default)]
    pub(crate) capture_batch_sizes: Option<Vec<usize>>,
    /// Sizes where it names none.
    #[serde(default)]
    pub(crate) default_batch_sizes: Vec<usize>,
    /// Captures that fail: requests, tokens, and the slot where there are several.
    #[serde(default)]
    pub(crate) failed: Vec<Vec<usize>>,
    /// The outcome of the reference implementation: requests, tokens, and the slot where there are several.
    #[serde(default)]
    pub(crate) captured: Vec<Vec<usize>>,
    /// Slots that the engine has.
    #[serde(default)]
    pub(crate) num_slots: Option<usize>,
    /// Whether a resource of the region asks for all of them.
    #[serde(default)]
    pub(crate) force_double_buffer: bool,
    /// Whether the region declares a step.
    #[serde(default = "yes")]
    pub(crate) declares: bool,
}

fn yes() -> bool {
    true
}

impl PiecewiseSpec {
    /// Slots of this region.
    pub(crate) fn slots(&self) -> usize {
        if self.force_double_buffer { self.num_slots.unwrap_or(1) } else { 1 }
    }

    /// Whether the capture of a shape fails on a slot.
    pub(crate) fn fails(&self, bs: usize, tokens: usize, slot: usize) -> bool {
        self.failed.iter().any(|f| f[..] == [bs, tokens] || f[..] == [bs, tokens, slot])
    }

    /// Its configuration, where it is batched.
    pub(crate) fn batched(&self) -> PiecewiseBatchedConfig {
        let config = PiecewiseBatchedConfig::new(self.seq_len);
        match &self.capture_batch_sizes {
            Some(sizes) => config.capture_batch_sizes(sizes.clone()),
            None => config,
        }
    }

    /// Its configuration, where it is packed.
    pub(crate) fn packed(&self) -> PiecewisePackedConfig {
        let config = PiecewisePackedConfig::new(self.total_tokens.clone());
        match &self.capture_batch_sizes {
            Some(sizes) => config.capture_batch_sizes(sizes.clone()),
            None => config,
        }
    }

    /// Its configuration.
    pub(crate) fn config(&self) -> Box<dyn PiecewiseCudaGraphConfig> {
        match self.kind {
            Kind::Batched => Box::new(self.batched()),
            Kind::Packed => Box::new(self.packed()),
        }
    }
}
