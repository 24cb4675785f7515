//! Regions: what the derive writes, what the author writes, and what a call gives back.

use std::{fmt, sync::Arc};

use crate::{
    AnyView, Backend, Cx, Dims, Element, In, Miss, PiecewiseCudaGraphConfig, Result, Schema, Shape, Source,
    Statics, StepRequests, SubmoduleStep, Tensor,
    arena::Place,
    lease::{Keep, RawOut},
    load::LoadCx,
};

/// A model: its weights, loaded once per engine and shared by every region and node that names it.
///
/// ```
/// use std::sync::Arc;
///
/// use graph_core::{LoadCx, Result, Submodule, Tensor};
/// use graph_host::Host;
///
/// struct Linear {
///     weight: Tensor<Host, f32, 2>,
/// }
///
/// impl Submodule<Host> for Linear {
///     fn load(cx: &LoadCx<'_, Host>) -> Result<Self> {
///         let weight = [1.0, 0.0, 0.0, 1.0]; // from a file that `cx.options` names
///         Ok(Linear { weight: Tensor::from_slice(cx.device, cx.stream, &weight, [2, 2])? })
///     }
/// }
/// # use graph_core::{Backend, Options};
/// # let (host, options) = (Host::new(), Options::default());
/// # let cx = LoadCx { device: &host, stream: &host.stream()?, options: &options, node: "toy" };
/// let model = Arc::new(Linear::load(&cx)?); // the engine does this once per node
/// assert_eq!(model.weight.dims(), [2, 2]);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub trait Submodule<B: Backend>: Sized + Send + Sync + 'static {
    /// Reads the weights and puts them on the device.
    fn load(cx: &LoadCx<'_, B>) -> Result<Self>;
}

/// What `#[derive(PiecewiseRegion)]` writes: declarations, sizes, and the typed structs. It can be written by hand.
///
/// By hand, for one input and one output:
///
/// ```
/// use graph_core::*;
/// use graph_host::Host;
///
/// # static SCHEMA: Schema = Schema::new(
/// #     "toy",
/// #     "double",
/// #     "batched(seq_len = 1), batch_sizes = [4]",
/// #     &[IoSchema::host("x", Elem::F32, 1, "[bs]")],
/// #     &[IoSchema::device("y", Elem::F32, 1, "[bs]")],
/// # );
/// struct Double;
///
/// impl RegionSpec for Double {
///     type Backend = Host;
///     type Inputs<'a> = In<'a, Host, f32, 1>;
///     type Outputs<'a> = Out<'a, Host, f32, 1>;
///     type Results<'r> = OutTensor<'r, Host, f32, 1>;
///     type InRows = [usize; 1];
///     type OutRows = [usize; 1];
///
///     fn schema(&self) -> &'static Schema {
///         &SCHEMA
///     }
///     fn config(&self) -> Box<dyn PiecewiseCudaGraphConfig> {
///         Box::new(PiecewiseBatchedConfig::new(1).capture_batch_sizes([4]))
///     }
///     fn make_static_inputs(&self, shape: &Shape, statics: &mut Statics) {
///         statics.input("x", [shape.bs]).output("y", [shape.bs]);
///     }
///     fn in_rows(&self, dims: Dims) -> [usize; 1] {
///         [dims.bs]
///     }
///     fn out_rows(&self, dims: Dims) -> [usize; 1] {
///         [dims.bs]
///     }
///     fn inputs<'a>(&self, views: &'a [AnyView<'a, Host>]) -> In<'a, Host, f32, 1> {
///         views[0].typed().expect("as the schema says")
///     }
///     fn outputs<'a>(&self, views: &'a [AnyView<'a, Host>]) -> Out<'a, Host, f32, 1> {
///         views[0].typed_mut().expect("as the schema says")
///     }
///     fn results<'r>(
///         &self,
///         take: &mut dyn FnMut(usize) -> Result<RawOut<'r, Host>>,
///     ) -> Result<OutTensor<'r, Host, f32, 1>> {
///         OutTensor::from_raw(take(0)?).map_err(|_| Error::plugin("`y` is f32 of rank 1"))
///     }
///     fn hold(y: OutTensor<'_, Host, f32, 1>) -> OutTensor<'static, Host, f32, 1> {
///         y.hold()
///     }
/// }
///
/// // What a caller passes.
/// struct DoubleArgs<'x>(&'x [f32]);
///
/// impl Args<Double> for DoubleArgs<'_> {
///     type Sources<'a>
///         = [Source<'a, Host>; 1]
///     where
///         Self: 'a;
///     fn sources(&self) -> [Source<'_, Host>; 1] {
///         [Source::slice(self.0)]
///     }
/// }
/// # impl Region for Double {
/// #     type Submodule = NoModel;
/// #     fn instances(_: &std::sync::Arc<NoModel>) -> Vec<std::sync::Arc<Self>> {
/// #         vec![std::sync::Arc::new(Double)]
/// #     }
/// #     fn forward(
/// #         &self,
/// #         cx: &mut Cx<'_, Host>,
/// #         x: &In<'_, Host, f32, 1>,
/// #         y: &Out<'_, Host, f32, 1>,
/// #     ) -> Result<()> {
/// #         cx.stream().kernel("double", (*x,), (*y,), |(x,), (y,)| {
/// #             y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
/// #         })
/// #     }
/// # }
/// # static ENTRY: RegionEntry = RegionEntry {
/// #     schema: &SCHEMA,
/// #     at: Location { krate: "toy", file: "lib.rs", line: 1 },
/// #     on: &[On::region::<Double>()],
/// # };
/// # let registry = Registry::from_entries(vec![&ENTRY], vec![], vec![])?;
/// # let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// # let mut double = engine.runners().take_one::<Double>()?;
/// let y = double.run(DoubleArgs(&[1.0, 2.0, 3.0]), &[1; 3])?.into_out();
/// assert_eq!(y.to_vec(engine.stream())?, [2.0, 4.0, 6.0]);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub trait RegionSpec: Sized + Send + Sync + 'static {
    /// The backend it runs on.
    type Backend: Backend;
    /// What the forward reads.
    type Inputs<'a>;
    /// What the forward writes.
    type Outputs<'a>;
    /// What the caller gets.
    type Results<'r>;
    /// One length per input.
    type InRows: AsRef<[usize]>;
    /// One length per output.
    type OutRows: AsRef<[usize]>;

    /// Name, inputs, outputs, padding.
    fn schema(&self) -> &'static Schema;
    /// The default sizes; a builder or a bucket file may replace them.
    fn config(&self) -> Box<dyn PiecewiseCudaGraphConfig>;
    /// The static-input factory: the size of every buffer at a shape.
    fn make_static_inputs(&self, shape: &Shape, statics: &mut Statics);
    /// The varying axis of each input at a size; evaluated at every run.
    fn in_rows(&self, dims: Dims) -> Self::InRows;
    /// The varying axis of each output at a size; evaluated at every run.
    fn out_rows(&self, dims: Dims) -> Self::OutRows;
    /// Typed views of the inputs, given in declared order.
    fn inputs<'a>(&self, views: &'a [AnyView<'a, Self::Backend>]) -> Self::Inputs<'a>;
    /// Typed views of the outputs, given in declared order.
    fn outputs<'a>(&self, views: &'a [AnyView<'a, Self::Backend>]) -> Self::Outputs<'a>;
    /// Typed results; `take` gives output `i`, once.
    fn results<'r>(
        &self,
        take: &mut dyn FnMut(usize) -> Result<RawOut<'r, Self::Backend>>,
    ) -> Result<Self::Results<'r>>;
    /// Gives up the borrow of the runner and keeps the counts.
    fn hold(results: Self::Results<'_>) -> Self::Results<'static>;
}

/// What the author writes.
///
/// ```
/// use std::sync::Arc;
///
/// use graph_core::*;
/// use graph_host::Host;
///
/// #[derive(PiecewiseRegion)]
/// #[region(node = "toy", name = "scale", batched(seq_len = 1), batch_sizes = [1, 2, 4], backend = Host)]
/// #[input(x: f32 [bs], host, pad = zero)]
/// #[output(y: f32 [bs])]
/// struct Scale {
///     by: f32,
/// }
///
/// impl Submodule<Host> for Scale {
///     fn load(_: &LoadCx<'_, Host>) -> Result<Self> {
///         Ok(Scale { by: 3.0 })
///     }
/// }
///
/// impl Region for Scale {
///     type Submodule = Self; // the struct is its own model
///
///     fn instances(model: &Arc<Self>) -> Vec<Arc<Self>> {
///         vec![model.clone()]
///     }
///
///     fn forward(&self, cx: &mut Cx<'_, Host>, x: &ScaleInputs<'_>, y: &ScaleOutputs<'_>) -> Result<()> {
///         let by = self.by;
///         cx.stream().kernel("scale", (x.x,), (y.y,), move |(x,), (y,)| {
///             y.iter_mut().zip(x).for_each(|(y, x)| *y = x * by);
///         })
///     }
/// }
/// # static ON: [On; 1] = [On::region::<Scale>()];
/// # let at = Location { krate: "toy", file: "lib.rs", line: 1 };
/// # let entry: &'static RegionEntry =
/// #     Box::leak(Box::new(RegionEntry { schema: Scale { by: 3.0 }.schema(), at, on: &ON }));
/// # let registry = Registry::from_entries(vec![entry], vec![], vec![])?;
/// # let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// let mut scale = engine.runners().take_one::<Scale>()?;
/// let y = scale.run(ScaleArgs { x: &[1.0, 2.0] }, &[1, 1])?.into_out().y;
/// assert_eq!(y.to_vec(engine.stream())?, [3.0, 6.0]);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub trait Region: RegionSpec {
    /// The model that it is a part of; `Self` where the struct is the model.
    type Submodule: Submodule<Self::Backend>;

    /// One per layer, say, or just one.
    fn instances(model: &Arc<Self::Submodule>) -> Vec<Arc<Self>>;

    /// The computation: eager and captured alike. It writes the outputs and allocates nothing but scratch.
    fn forward(
        &self,
        cx: &mut Cx<'_, Self::Backend>,
        x: &Self::Inputs<'_>,
        y: &Self::Outputs<'_>,
    ) -> Result<()>;

    /// The resources whose planned inputs the forward reads, with a step of the region's own.
    fn resources(&self) -> &'static [&'static str] {
        &[]
    }

    /// Declares the region's own step; by default every request's tokens continue its main stream in each resource.
    fn declare_step(&self, call: &StepRequests<'_>, step: &mut SubmoduleStep) -> Result<()> {
        self.resources().iter().for_each(|resource| call.append(resource, step));
        Ok(())
    }

    /// Runs once per shape before the warm-up where the configuration's `compile` is on: the place for JIT work.
    fn prepare(&self, _cx: &mut Cx<'_, Self::Backend>) -> Result<()> {
        Ok(())
    }
}

/// The arguments of region `R`: the derive writes a struct with one type parameter per input, so that a literal takes
/// plain references.
///
/// ```
#[doc = include_str!("doc/scale.md")]
#[doc = include_str!("doc/scaler.md")]
/// // Whatever the region, and whatever its arguments are made of.
/// fn is_replayed<R: Region>(runner: &mut Runner<R>, args: impl Args<R>, lens: &[usize]) -> Result<bool> {
///     Ok(runner.run(args, lens)?.reason().is_none())
/// }
/// assert!(is_replayed(&mut scale, ScaleArgs { x: &[1.0, 2.0] }, &[1; 2])?);
/// let rows: Vec<f32> = vec![1.0; 5];
/// assert!(!is_replayed(&mut scale, ScaleArgs { x: &rows }, &[1; 5])?, "the largest bucket holds four");
/// # Ok::<(), graph_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(message = "`{Self}` is not the argument struct of `{R}`")]
pub trait Args<R: RegionSpec> {
    /// One source per input, in declared order.
    type Sources<'a>: AsRef<[Source<'a, R::Backend>]>
    where
        Self: 'a;
    /// The sources.
    fn sources(&self) -> Self::Sources<'_>;
    /// Checks what the types do not, before anything else happens: names, where they are data.
    #[inline]
    fn check(&self, _schema: &'static Schema) -> Result<()> {
        Ok(())
    }
}

/// An output of a call: a lease on the slot's memory, the same held at run time, or memory of its own.
///
/// While it lives, nobody writes that memory. [`hold`](OutTensor::hold) gives up the borrow of the runner,
/// [`detach`](OutTensor::detach) copies.
///
/// ```
#[doc = include_str!("doc/scale.md")]
#[doc = include_str!("doc/scaler.md")]
/// let y = scale.run(ScaleArgs { x: &[1.0] }, &[1])?.into_out().y.hold();
/// // It is ours, so the next replay on this slot is refused; the memory is as it was.
/// let error = scale.run(ScaleArgs { x: &[2.0] }, &[1]).expect_err("`y` is held");
/// assert!(matches!(error.kind(), ErrorKind::OutputHeld { output: "y", .. }));
///
/// let copy = y.detach(engine.device(), engine.stream())?;
/// drop(y);
/// drop(scale.run(ScaleArgs { x: &[2.0] }, &[1])?);
/// assert_eq!(copy.to_vec(engine.stream())?, [3.0]);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct OutTensor<'r, B: Backend, T, const R: usize> {
    keep: Keep<'r, B>,
    dims: [usize; R],
    element: std::marker::PhantomData<T>,
}

impl<'r, B: Backend, T: Element, const R: usize> OutTensor<'r, B, T, R> {
    /// Typed, or the raw output again where element or rank differ.
    pub fn from_raw(raw: RawOut<'r, B>) -> Result<Self, RawOut<'r, B>> {
        if (raw.elem, raw.rank) != (T::ELEM, R) {
            return Err(raw);
        }
        let mut dims = [0; R];
        dims.copy_from_slice(&raw.dims[..R]);
        Ok(OutTensor { keep: raw.keep, dims, element: std::marker::PhantomData })
    }

    /// Its dimensions: real rows only.
    pub fn dims(&self) -> [usize; R] {
        self.dims
    }

    /// A view to read.
    pub fn view(&self) -> In<'_, B, T, R> {
        let (buffer, offset) = self.keep.memory();
        In::at(buffer, offset, self.dims)
    }

    /// Gives up the borrow of the runner; the memory stays held until this is dropped.
    pub fn hold(self) -> OutTensor<'static, B, T, R> {
        OutTensor { keep: self.keep.hold(), dims: self.dims, element: self.element }
    }

    /// A copy in memory of its own.
    ///
    /// # Errors
    /// What the backend reports.
    pub fn detach(&self, device: &B, stream: &B::Stream) -> Result<Tensor<B, T, R>> {
        let copy = Tensor::alloc(device, self.dims)?;
        copy.view_mut().copy_from(stream, self.view())?;
        Ok(copy)
    }

    /// Copies it to the host; waits for the stream.
    ///
    /// # Errors
    /// What the backend reports; a stream that captures refuses.
    pub fn to_vec(&self, stream: &B::Stream) -> Result<Vec<T>> {
        self.view().to_vec(stream)
    }

    pub(crate) fn place(&self) -> Option<&Place<B>> {
        self.keep.place()
    }
}

/// A plain tensor can stand in for an output, such as the first layer's input.
impl<B: Backend, T: Element, const R: usize> From<Tensor<B, T, R>> for OutTensor<'static, B, T, R> {
    fn from(tensor: Tensor<B, T, R>) -> Self {
        let dims = tensor.dims();
        let (buffer, offset) = tensor.into_memory();
        OutTensor { keep: Keep::Owned(buffer, offset), dims, element: std::marker::PhantomData }
    }
}

impl<B: Backend, T: Element, const R: usize> fmt::Debug for OutTensor<'_, B, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutTensor<{}, {}>{:?}", B::NAME, T::ELEM.name(), self.dims)
    }
}

/// What a call returns.
///
/// ```
#[doc = include_str!("doc/scale.md")]
#[doc = include_str!("doc/scaler.md")]
/// match scale.run(ScaleArgs { x: &[1.0; 5] }, &[1; 5])? {
///     Outcome::Replayed(_) => unreachable!("the largest bucket holds four"),
///     Outcome::Eager { out, reason } => {
///         assert_eq!(reason, Miss::TooManyRequests { bs: 5, largest: 4 });
///         assert_eq!(out.y.to_vec(engine.stream())?, [3.0; 5]); // the same numbers
///     }
/// }
/// # Ok::<(), graph_core::Error>(())
/// ```
#[must_use]
pub enum Outcome<'r, R: RegionSpec> {
    /// A captured graph was replayed.
    Replayed(R::Results<'r>),
    /// The forward ran at the exact shape.
    Eager {
        /// The results, in memory of their own.
        out: R::Results<'r>,
        /// Why no bucket was used.
        reason: Miss,
    },
}

impl<'r, R: RegionSpec> Outcome<'r, R> {
    /// The results, however they came about.
    pub fn into_out(self) -> R::Results<'r> {
        match self {
            Outcome::Replayed(out) | Outcome::Eager { out, .. } => out,
        }
    }

    /// Gives up the borrow of the runner; the slot's outputs stay held until the results are dropped.
    pub fn hold(self) -> Outcome<'static, R> {
        match self {
            Outcome::Replayed(out) => Outcome::Replayed(R::hold(out)),
            Outcome::Eager { out, reason } => Outcome::Eager { out: R::hold(out), reason },
        }
    }

    /// Why the call ran eagerly, if it did.
    pub fn reason(&self) -> Option<Miss> {
        match self {
            Outcome::Replayed(_) => None,
            Outcome::Eager { reason, .. } => Some(*reason),
        }
    }
}

/// Which of the two it is, and why; the results are not shown.
impl<R: RegionSpec> fmt::Debug for Outcome<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Replayed(_) => f.write_str("Replayed(..)"),
            Outcome::Eager { reason, .. } => write!(f, "Eager({reason})"),
        }
    }
}
