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
pub trait Submodule<B: Backend>: Sized + Send + Sync + 'static {
    /// Reads the weights and puts them on the device.
    fn load(cx: &LoadCx<'_, B>) -> Result<Self>;
}

/// What `#[derive(PiecewiseRegion)]` writes: declarations, sizes, and the typed structs. It can be written by hand.
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
    pub fn detach(&self, device: &B, stream: &B::Stream) -> Result<Tensor<B, T, R>> {
        let copy = Tensor::alloc(device, self.dims)?;
        copy.view_mut().copy_from(stream, self.view())?;
        Ok(copy)
    }

    /// Copies it to the host; waits for the stream.
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
