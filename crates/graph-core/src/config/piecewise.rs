//! Piecewise configurations: an inner callable captured on its own, while the code around it stays eager.

use std::fmt;

use super::checked_sizes;
use crate::{Dims, ErrorKind, Result, Shape, shape::tokens_of};

/// The type of a piecewise configuration; the strings are mstar's.
///
/// ```
/// use graph_core::*;
///
/// let (digits, mlp) = (PiecewiseBatchedConfig::new(16), PiecewisePackedConfig::new([64]));
/// // Batched: two requests are two times sixteen tokens, whatever their lengths.
/// assert_eq!(digits.config_type(), PiecewiseConfigType::Batched);
/// assert_eq!(digits.real_dims(&[3, 4]), Dims { bs: 2, tokens: 32 });
/// // Packed: their lengths count.
/// assert_eq!(mlp.config_type(), PiecewiseConfigType::Packed);
/// assert_eq!(mlp.real_dims(&[3, 4]), Dims { bs: 2, tokens: 7 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PiecewiseConfigType {
    /// Every request has the same length.
    Batched,
    /// Requests of different lengths share a token budget.
    Packed,
}

impl PiecewiseConfigType {
    /// mstar's string for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            PiecewiseConfigType::Batched => "batched",
            PiecewiseConfigType::Packed => "packed",
        }
    }
}

/// A named value that a forward gets beside its tensors; it is part of the capture.
///
/// ```
#[doc = include_str!("../doc/region.md")]
/// fn forward(cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
///     let by = match call.kwargs[..] {
///         [("by", Kwarg::Float(by))] => by as f32, // recorded with the kernel: a replay has the value of the capture
///         _ => 1.0,
///     };
///     let (x, y) = (call.inputs.get::<f32, 1>("x")?, call.outputs.get::<f32, 1>("y")?);
///     cx.stream().kernel("scale", (x,), (y,), move |(x,), (y,)| y[0] = by * x[0])
/// }
/// let config = PiecewiseBatchedConfig::new(1).capture_batch_sizes([1]);
/// let config = config.forward_kwargs(vec![("by", Kwarg::Float(0.5))]);
/// let mut engine = Engine::builder(Host::new()).region_config("toy.region", config).build(&registry)?;
/// # let mut region = engine.runners().take_named::<HandWritten<Host>>("toy.region")?.remove(0);
/// # let x = [("x", Source::slice(&[4.0_f32]))];
/// let y = region.run(NamedArgs(&x), &[1])?.into_out().take::<f32, 1>("y")?;
/// assert_eq!(y.to_vec(engine.stream())?, [2.0]);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Kwarg {
    /// A flag.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A word.
    Str(String),
}

/// `forward_kwargs`: named values of a configuration, in order.
pub type Kwargs = Vec<(&'static str, Kwarg)>;

/// At which sizes a region is captured, and which lengths a call has at replay.
///
/// The executor reads every answer. The derive yields a region's default; a builder or a bucket file replaces it.
///
/// ```
/// use graph_core::{PiecewiseCudaGraphConfig, PiecewisePackedConfig};
///
/// let mlp: &dyn PiecewiseCudaGraphConfig = &PiecewisePackedConfig::new([16, 64]);
/// // A region whose dimensions do not name `bs`: one capture per total, largest first.
/// let shapes = mlp.shapes("llama.mlp", false, &[1, 2])?;
/// assert_eq!(shapes.iter().map(|s| s.total_tokens).collect::<Vec<_>>(), [64, 16]);
/// // One that names it: a capture per total and batch size.
/// assert_eq!(mlp.shapes("llama.mlp", true, &[1, 2])?.len(), 4);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub trait PiecewiseCudaGraphConfig: fmt::Debug + Send + Sync {
    /// Batched or packed.
    fn config_type(&self) -> PiecewiseConfigType;
    /// The batch sizes to capture; `None` for the default sizes.
    fn capture_batch_sizes(&self) -> Option<&[usize]>;
    /// Whether the region's `prepare` hook runs before the warm-up, once per shape.
    fn compile(&self) -> bool;
    /// Whether the region's slot is taken before the outer step is declared.
    fn lease_before_step(&self) -> bool;
    /// Named values that the forward gets.
    fn forward_kwargs(&self) -> &Kwargs;
    /// The shapes to capture at the given batch sizes, in mstar's order.
    fn capture_shapes(&self, batch_sizes: &[usize]) -> Result<Vec<Shape>>;
    /// The lengths that a call in `shape` declares: one per row of the shape.
    fn replay_seq_lens(
        &self,
        shape: &Shape,
        seq_lens: Option<&[usize]>,
        real_bs: usize,
    ) -> Result<Vec<usize>>;
    /// The size of a call with these lengths. Batched: the lengths count, their values do not.
    fn real_dims(&self, seq_lens: &[usize]) -> Dims;
    /// Replaces the sizes, from a builder or a bucket file. `name` is for messages.
    fn set_sizes(
        &mut self,
        name: &str,
        batch_sizes: Option<Vec<usize>>,
        total_tokens: Option<Vec<usize>>,
    ) -> Result<()>;

    /// The shapes that the executor captures: sizes sorted, without duplicates, largest first. `names_bs` says
    /// whether any dimension names `bs`; where none does, a packed region is captured once per total.
    fn shapes(&self, name: &str, names_bs: bool, default_batch_sizes: &[usize]) -> Result<Vec<Shape>>;

    /// The smallest configured batch size of at least `bs`.
    fn padded_bs(&self, name: &str, bs: usize, default_batch_sizes: &[usize]) -> Result<Option<usize>> {
        let sizes = self.capture_batch_sizes().unwrap_or(default_batch_sizes);
        Ok(checked_sizes(name, "batch_sizes", sizes)?.into_iter().find(|s| *s >= bs))
    }
}

#[derive(Clone, Debug, Default)]
struct Fields {
    capture_batch_sizes: Option<Vec<usize>>,
    compile: bool,
    lease_before_step: bool,
    forward_kwargs: Kwargs,
}

macro_rules! with_fields {
    ($config:ident) => {
        impl $config {
            /// The batch sizes to capture (default: the executor's).
            pub fn capture_batch_sizes(mut self, sizes: impl Into<Vec<usize>>) -> Self {
                self.fields.capture_batch_sizes = Some(sizes.into());
                self
            }

            /// Whether the region's `prepare` hook runs before the warm-up (default: false).
            pub fn compile(mut self, compile: bool) -> Self {
                self.fields.compile = compile;
                self
            }

            /// Whether the region's slot is taken before the outer step is declared (default: false).
            pub fn lease_before_step(mut self, before: bool) -> Self {
                self.fields.lease_before_step = before;
                self
            }

            /// Named values that the forward gets (default: none).
            pub fn forward_kwargs(mut self, kwargs: Kwargs) -> Self {
                self.fields.forward_kwargs = kwargs;
                self
            }
        }
    };
}

macro_rules! field_accessors {
    () => {
        fn capture_batch_sizes(&self) -> Option<&[usize]> {
            self.fields.capture_batch_sizes.as_deref()
        }
        fn compile(&self) -> bool {
            self.fields.compile
        }
        fn lease_before_step(&self) -> bool {
            self.fields.lease_before_step
        }
        fn forward_kwargs(&self) -> &Kwargs {
            &self.fields.forward_kwargs
        }
    };
}

/// Every request has `seq_len` tokens.
///
/// ```
/// use graph_core::{PiecewiseBatchedConfig, PiecewiseCudaGraphConfig};
/// let digits = PiecewiseBatchedConfig::new(16).capture_batch_sizes([1, 4]);
/// assert_eq!(digits.capture_shapes(&[1, 4]).unwrap()[1].total_tokens, 64);
/// ```
#[derive(Clone, Debug)]
pub struct PiecewiseBatchedConfig {
    fields: Fields,
    seq_len: usize,
}

impl PiecewiseBatchedConfig {
    /// `seq_len` tokens in every request.
    pub fn new(seq_len: usize) -> Self {
        PiecewiseBatchedConfig { fields: Fields::default(), seq_len }
    }

    /// Tokens of each request.
    pub fn seq_len(&self) -> usize {
        self.seq_len
    }
}
with_fields!(PiecewiseBatchedConfig);

impl PiecewiseCudaGraphConfig for PiecewiseBatchedConfig {
    field_accessors!();
    fn config_type(&self) -> PiecewiseConfigType {
        PiecewiseConfigType::Batched
    }
    fn capture_shapes(&self, batch_sizes: &[usize]) -> Result<Vec<Shape>> {
        Ok(batch_sizes.iter().map(|bs| Shape::batched(*bs, self.seq_len)).collect())
    }
    fn replay_seq_lens(
        &self,
        shape: &Shape,
        seq_lens: Option<&[usize]>,
        real_bs: usize,
    ) -> Result<Vec<usize>> {
        check_rows(shape, seq_lens, real_bs)?;
        Ok(shape.seq_lens.clone())
    }
    fn real_dims(&self, seq_lens: &[usize]) -> Dims {
        Dims { bs: seq_lens.len(), tokens: seq_lens.len().saturating_mul(self.seq_len) }
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
    fn shapes(&self, name: &str, _names_bs: bool, default_batch_sizes: &[usize]) -> Result<Vec<Shape>> {
        let sizes = self.capture_batch_sizes().unwrap_or(default_batch_sizes);
        let mut shapes = self.capture_shapes(&checked_sizes(name, "batch_sizes", sizes)?)?;
        shapes.reverse();
        Ok(shapes)
    }
}

/// Requests of different lengths share `total_tokens`.
///
/// ```
/// use graph_core::{PiecewiseCudaGraphConfig, PiecewisePackedConfig};
/// let mlp = PiecewisePackedConfig::new([16, 64]);
/// let shape = &mlp.capture_shapes(&[4]).unwrap()[0];
/// assert_eq!(mlp.replay_seq_lens(shape, Some(&[5, 3]), 2).unwrap(), [5, 3, 0, 0]);
/// ```
#[derive(Clone, Debug)]
pub struct PiecewisePackedConfig {
    fields: Fields,
    total_tokens: Vec<usize>,
}

impl PiecewisePackedConfig {
    /// The token totals to capture.
    pub fn new(total_tokens: impl Into<Vec<usize>>) -> Self {
        PiecewisePackedConfig { fields: Fields::default(), total_tokens: total_tokens.into() }
    }

    /// The token totals to capture.
    pub fn total_tokens(&self) -> &[usize] {
        &self.total_tokens
    }
}
with_fields!(PiecewisePackedConfig);

impl PiecewiseCudaGraphConfig for PiecewisePackedConfig {
    field_accessors!();
    fn config_type(&self) -> PiecewiseConfigType {
        PiecewiseConfigType::Packed
    }
    fn capture_shapes(&self, batch_sizes: &[usize]) -> Result<Vec<Shape>> {
        let pairs = batch_sizes.iter().flat_map(|bs| self.total_tokens.iter().map(move |t| (*t, *bs)));
        pairs.map(|(total, bs)| Shape::packed(total, bs)).collect()
    }
    fn replay_seq_lens(
        &self,
        shape: &Shape,
        seq_lens: Option<&[usize]>,
        real_bs: usize,
    ) -> Result<Vec<usize>> {
        check_rows(shape, seq_lens, real_bs)?;
        let Some(lens) = seq_lens else {
            return Err(ErrorKind::LengthsMissing { owner: "packed region".into() }.into());
        };
        let tokens = tokens_of(lens);
        if tokens > shape.total_tokens {
            return Err(beyond("tokens", tokens, shape.total_tokens));
        }
        let mut lens = lens.to_vec();
        lens.resize(shape.bs, 0);
        Ok(lens)
    }
    fn real_dims(&self, seq_lens: &[usize]) -> Dims {
        Dims { bs: seq_lens.len(), tokens: tokens_of(seq_lens) }
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
        if let Some(totals) = total_tokens {
            self.total_tokens = totals;
        }
        Ok(())
    }
    fn shapes(&self, name: &str, names_bs: bool, default_batch_sizes: &[usize]) -> Result<Vec<Shape>> {
        let totals = checked_sizes(name, "total_tokens", &self.total_tokens)?;
        let mut shapes = match (self.capture_batch_sizes(), names_bs) {
            // A bucket of n tokens holds at most n requests that have any.
            (None, false) => totals.iter().map(|t| Shape::packed(*t, *t)).collect::<Result<Vec<_>>>()?,
            (sizes, _) => {
                let sizes = checked_sizes(name, "batch_sizes", sizes.unwrap_or(default_batch_sizes))?;
                PiecewisePackedConfig { total_tokens: totals, ..self.clone() }.capture_shapes(&sizes)?
            }
        };
        shapes.sort_by_key(|s| std::cmp::Reverse(s.dims()));
        Ok(shapes)
    }
}

/// Differences 4 and 16: more rows than the shape, or lengths that disagree with the batch, are errors.
fn check_rows(shape: &Shape, seq_lens: Option<&[usize]>, real_bs: usize) -> Result<()> {
    let owner = || "replay_seq_lens".to_string();
    if real_bs == 0 {
        return Err(ErrorKind::EmptyBatch { owner: owner() }.into());
    }
    if real_bs > shape.bs {
        return Err(beyond("requests", real_bs, shape.bs));
    }
    match seq_lens {
        Some(lens) if lens.len() != real_bs => {
            Err(ErrorKind::LengthsDisagree { owner: owner(), lens: lens.len(), bs: real_bs }.into())
        }
        _ => Ok(()),
    }
}

fn beyond(what: &'static str, got: usize, most: usize) -> crate::Error {
    ErrorKind::BeyondBucket { owner: "replay_seq_lens".into(), what, got, most }.into()
}
