//! Whole-forward configurations: a graph of a submodule's entire batched forward.

use std::{borrow::Cow, fmt, sync::Arc};

use super::{checked_sizes, sorted_sizes};
use crate::{
    BucketKey, Dims, ErrorKind, KeyInfo, NodeInputs, Result, Shape, distribute_tokens, tensor::elements,
};

/// The type of a whole-forward configuration; the strings are mstar's.
///
/// ```
/// use graph_core::*;
///
/// let decode = BatchedCudaGraphConfig::new("decode", NodeInputs::new(1));
/// let prefill = PackedCudaGraphConfig::new("prefill", [64, 256], NodeInputs::new);
/// assert_eq!(decode.config_type(), CudaGraphConfigType::BasicBatched);
/// assert_eq!(decode.total_tokens(8), [8]); // eight rows of the template's length
/// assert_eq!(prefill.config_type(), CudaGraphConfigType::FlashInferPacked);
/// assert_eq!(prefill.total_tokens(8), [64, 256]); // eight rows share a budget
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CudaGraphConfigType {
    /// Every request has the template's length.
    BasicBatched,
    /// Requests of different lengths share a token budget.
    FlashInferPacked,
}

impl CudaGraphConfigType {
    /// mstar's string for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            CudaGraphConfigType::BasicBatched => "basic_batched",
            CudaGraphConfigType::FlashInferPacked => "flash_infer_packed",
        }
    }
}

/// Which whole forward of a node is captured, for which walks, at which sizes.
///
/// The executor reads every answer: nothing here is decoration. Two structs implement it,
/// [`BatchedCudaGraphConfig`] and [`PackedCudaGraphConfig`]; an engine may bring its own.
///
/// ```
/// use graph_core::{BatchedCudaGraphConfig, BucketKey, CudaGraphConfig, NodeInputs};
///
/// let decode = BatchedCudaGraphConfig::new("decode", NodeInputs::new(1).with("token", &[0_i32]));
/// let decode: &dyn CudaGraphConfig = &decode.capture_batch_sizes([4, 1, 4]);
/// let sizes: Vec<usize> = decode.shapes(&[])?.iter().map(|d| d.bs).collect();
/// assert_eq!(sizes, [1, 4]);
///
/// // A step of three in the bucket of four: the fourth row is the template's.
/// let bucket = BucketKey { walk: "decode".into(), bs: 4, tokens: 4, key: None };
/// let rows = vec![NodeInputs::new(1).with("token", &[17_i32]); 3];
/// assert_eq!(decode.pad_inputs(&bucket, rows)?[3], NodeInputs::new(1).with("token", &[0_i32]));
/// # Ok::<(), graph_core::Error>(())
/// ```
pub trait CudaGraphConfig: fmt::Debug + Send + Sync {
    /// Batched or packed.
    fn config_type(&self) -> CudaGraphConfigType;
    /// The walk that the capture runs as; always selectable (difference 12).
    fn capture_graph_walk(&self) -> &Cow<'static, str>;
    /// The walks that may replay it; the capture walk where none is named.
    fn replay_graph_walks(&self) -> &[Cow<'static, str>];
    /// More to tell it apart from other captures of its walk.
    fn additional_key_info(&self) -> Option<&KeyInfo>;
    /// Whether the node's `prepare` hook runs before the warm-up, once per shape.
    fn compile(&self) -> bool;
    /// The batch sizes to capture; `None` for the default sizes.
    fn capture_batch_sizes(&self) -> Option<&[usize]>;
    /// The named forward of the node that is captured.
    fn capture_forward_method(&self) -> &str;
    /// Whether a scheduler should form no batch of these walks larger than the largest captured one. Where it is
    /// false, larger batches run eagerly.
    fn caps_eager_batch_size(&self) -> bool;
    /// The token totals to capture at a batch size.
    fn total_tokens(&self, bs: usize) -> Vec<usize>;
    /// The rows of a capture: `bs` requests that share `num_tokens` tokens.
    fn node_inputs(&self, bs: usize, num_tokens: usize) -> Result<Vec<NodeInputs>>;
    /// Replaces the sizes, from a builder or a bucket file. `name` is for messages.
    fn set_sizes(
        &mut self,
        name: &str,
        batch_sizes: Option<Vec<usize>>,
        total_tokens: Option<Vec<usize>>,
    ) -> Result<()>;

    /// The sizes of this configuration, sorted and without duplicates. A total of a batched configuration may be zero:
    /// the rows of a forward over requests alone have no tokens.
    fn shapes(&self, default_batch_sizes: &[usize]) -> Result<Vec<Dims>> {
        let name = self.capture_graph_walk();
        let sizes = self.capture_batch_sizes().unwrap_or(default_batch_sizes);
        let mut shapes = Vec::new();
        for bs in checked_sizes(name, "capture_batch_sizes", sizes)? {
            let totals = match (self.config_type(), self.total_tokens(bs)) {
                (CudaGraphConfigType::BasicBatched, totals) => sorted_sizes(name, "total_tokens", &totals)?,
                (CudaGraphConfigType::FlashInferPacked, totals) => {
                    checked_sizes(name, "total_tokens", &totals)?
                }
            };
            shapes.extend(totals.into_iter().map(|tokens| Dims { bs, tokens }));
        }
        Ok(shapes)
    }

    /// The rows of a step in `bucket`: the real ones, then padding rows up to the bucket's size. Packed padding
    /// rows have no tokens; batched ones have the template's length.
    fn pad_inputs(&self, bucket: &BucketKey, mut rows: Vec<NodeInputs>) -> Result<Vec<NodeInputs>> {
        if rows.len() > bucket.bs {
            let owner = self.capture_graph_walk().to_string();
            return Err(ErrorKind::BeyondBucket {
                owner,
                what: "requests",
                got: rows.len(),
                most: bucket.bs,
            }
            .into());
        }
        let missing = bucket.bs - rows.len();
        if missing > 0 {
            rows.extend(self.node_inputs(missing, 0)?);
        }
        Ok(rows)
    }
}

/// The fields that both whole-forward configurations have, with mstar's defaults.
#[derive(Clone, Debug)]
struct Fields {
    capture_graph_walk: Cow<'static, str>,
    /// Never empty.
    replay_graph_walks: Vec<Cow<'static, str>>,
    additional_key_info: Option<KeyInfo>,
    compile: bool,
    capture_batch_sizes: Option<Vec<usize>>,
    capture_forward_method: Cow<'static, str>,
    caps_eager_batch_size: bool,
}

impl Fields {
    fn new(walk: Cow<'static, str>) -> Self {
        Fields {
            replay_graph_walks: vec![walk.clone()],
            capture_graph_walk: walk,
            additional_key_info: None,
            compile: true,
            capture_batch_sizes: None,
            capture_forward_method: "forward_batched".into(),
            caps_eager_batch_size: true,
        }
    }
}

/// The builder methods and the accessors of [`Fields`], once for both configurations.
macro_rules! with_fields {
    ($config:ident) => {
        impl $config {
            /// The walks that may replay it; none means the capture walk.
            pub fn replay_graph_walks<W: Into<Cow<'static, str>>>(
                mut self,
                walks: impl IntoIterator<Item = W>,
            ) -> Self {
                let walks: Vec<_> = walks.into_iter().map(Into::into).collect();
                self.fields.replay_graph_walks =
                    if walks.is_empty() { vec![self.fields.capture_graph_walk.clone()] } else { walks };
                self
            }

            /// More to tell it apart from other captures of its walk.
            pub fn additional_key_info(mut self, key: KeyInfo) -> Self {
                self.fields.additional_key_info = Some(key);
                self
            }

            /// Whether the node's `prepare` hook runs before the warm-up (default: true).
            pub fn compile(mut self, compile: bool) -> Self {
                self.fields.compile = compile;
                self
            }

            /// The batch sizes to capture (default: the executor's).
            pub fn capture_batch_sizes(mut self, sizes: impl Into<Vec<usize>>) -> Self {
                self.fields.capture_batch_sizes = Some(sizes.into());
                self
            }

            /// The named forward that is captured (default: `forward_batched`).
            pub fn capture_forward_method(mut self, name: impl Into<Cow<'static, str>>) -> Self {
                self.fields.capture_forward_method = name.into();
                self
            }

            /// Whether batches of these walks are capped at the largest captured size (default: true).
            pub fn caps_eager_batch_size(mut self, caps: bool) -> Self {
                self.fields.caps_eager_batch_size = caps;
                self
            }
        }
    };
}

macro_rules! field_accessors {
    () => {
        fn capture_graph_walk(&self) -> &Cow<'static, str> {
            &self.fields.capture_graph_walk
        }
        fn replay_graph_walks(&self) -> &[Cow<'static, str>] {
            &self.fields.replay_graph_walks
        }
        fn additional_key_info(&self) -> Option<&KeyInfo> {
            self.fields.additional_key_info.as_ref()
        }
        fn compile(&self) -> bool {
            self.fields.compile
        }
        fn capture_batch_sizes(&self) -> Option<&[usize]> {
            self.fields.capture_batch_sizes.as_deref()
        }
        fn capture_forward_method(&self) -> &str {
            &self.fields.capture_forward_method
        }
        fn caps_eager_batch_size(&self) -> bool {
            self.fields.caps_eager_batch_size
        }
    };
}

/// Every request has the template's length, as in a decode step.
///
/// ```
/// use graph_core::{BatchedCudaGraphConfig, CudaGraphConfig, NodeInputs};
/// let decode = BatchedCudaGraphConfig::new("decode", NodeInputs::new(1)).capture_batch_sizes([1, 8]);
/// assert_eq!(decode.total_tokens(8), [8]);
/// assert_eq!(decode.node_inputs(2, 0).unwrap().len(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct BatchedCudaGraphConfig {
    fields: Fields,
    single_request_inputs: NodeInputs,
    total_tokens_multiplier: usize,
}

impl BatchedCudaGraphConfig {
    /// A configuration of a walk; `single_request_inputs` is the template of a row.
    pub fn new(capture_graph_walk: impl Into<Cow<'static, str>>, single_request_inputs: NodeInputs) -> Self {
        BatchedCudaGraphConfig {
            fields: Fields::new(capture_graph_walk.into()),
            single_request_inputs,
            total_tokens_multiplier: 1,
        }
    }

    /// Sequences that each request packs into the step, such as two under guidance (default: 1).
    pub fn total_tokens_multiplier(mut self, multiplier: usize) -> Self {
        self.total_tokens_multiplier = multiplier;
        self
    }
}
with_fields!(BatchedCudaGraphConfig);

impl CudaGraphConfig for BatchedCudaGraphConfig {
    field_accessors!();
    fn config_type(&self) -> CudaGraphConfigType {
        CudaGraphConfigType::BasicBatched
    }
    fn total_tokens(&self, bs: usize) -> Vec<usize> {
        vec![elements(&[self.single_request_inputs.input_seq_len, bs, self.total_tokens_multiplier])]
    }
    fn node_inputs(&self, bs: usize, _num_tokens: usize) -> Result<Vec<NodeInputs>> {
        Ok(vec![self.single_request_inputs.clone(); bs])
    }
    fn set_sizes(
        &mut self,
        name: &str,
        batch_sizes: Option<Vec<usize>>,
        total_tokens: Option<Vec<usize>>,
    ) -> Result<()> {
        if total_tokens.is_some() {
            return Err(ErrorKind::WrongList {
                name: name.into(),
                list: "total_tokens",
                kind: self.config_type().as_str(),
                use_instead: "batch_sizes",
            }
            .into());
        }
        if let Some(sizes) = batch_sizes {
            self.fields.capture_batch_sizes = Some(sizes);
        }
        Ok(())
    }
}

/// Requests of different lengths share a token budget, as in a packed prefill.
///
/// ```
/// use graph_core::{CudaGraphConfig, NodeInputs, PackedCudaGraphConfig};
/// let prefill = PackedCudaGraphConfig::new("prefill", [64, 256], NodeInputs::new);
/// assert_eq!(prefill.total_tokens(4), [64, 256]);
/// let lens: Vec<_> = prefill.node_inputs(3, 10).unwrap().iter().map(|r| r.input_seq_len).collect();
/// assert_eq!(lens, [4, 3, 3]);
/// ```
#[derive(Clone)]
pub struct PackedCudaGraphConfig {
    fields: Fields,
    capture_token_lengths: Vec<usize>,
    make_node_input: Arc<dyn Fn(usize) -> NodeInputs + Send + Sync>,
}

impl PackedCudaGraphConfig {
    /// A configuration of a walk; `make_node_input` makes the row of a request of the given length.
    pub fn new(
        capture_graph_walk: impl Into<Cow<'static, str>>,
        capture_token_lengths: impl Into<Vec<usize>>,
        make_node_input: impl Fn(usize) -> NodeInputs + Send + Sync + 'static,
    ) -> Self {
        PackedCudaGraphConfig {
            fields: Fields::new(capture_graph_walk.into()),
            capture_token_lengths: capture_token_lengths.into(),
            make_node_input: Arc::new(make_node_input),
        }
    }
}
with_fields!(PackedCudaGraphConfig);

impl CudaGraphConfig for PackedCudaGraphConfig {
    field_accessors!();
    fn config_type(&self) -> CudaGraphConfigType {
        CudaGraphConfigType::FlashInferPacked
    }
    fn total_tokens(&self, _bs: usize) -> Vec<usize> {
        self.capture_token_lengths.clone()
    }
    fn node_inputs(&self, bs: usize, num_tokens: usize) -> Result<Vec<NodeInputs>> {
        Ok(distribute_tokens(num_tokens, bs)?.into_iter().map(|len| (self.make_node_input)(len)).collect())
    }
    fn set_sizes(
        &mut self,
        _name: &str,
        batch_sizes: Option<Vec<usize>>,
        total_tokens: Option<Vec<usize>>,
    ) -> Result<()> {
        if let Some(sizes) = batch_sizes {
            self.fields.capture_batch_sizes = Some(sizes);
        }
        if let Some(lengths) = total_tokens {
            self.capture_token_lengths = lengths;
        }
        Ok(())
    }
}

impl fmt::Debug for PackedCudaGraphConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedCudaGraphConfig")
            .field("fields", &self.fields)
            .field("capture_token_lengths", &self.capture_token_lengths)
            .finish_non_exhaustive()
    }
}

/// The shape that a configuration's rows make.
pub(crate) fn shape_of(config: &dyn CudaGraphConfig, d: Dims) -> Result<Shape> {
    let seq_lens = config.node_inputs(d.bs, d.tokens)?.iter().map(|r| r.input_seq_len).collect();
    Ok(Shape { bs: d.bs, seq_lens, total_tokens: d.tokens })
}
