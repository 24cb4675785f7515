//! A device over the stand-in driver, with kernels compiled from their source or from an edited copy of it.

use backend_suite::stand_in;
use graph_core::{Backend, Element, Tensor};
use graph_cuda::{Cuda, CudaOptions, KernelSource, Stream};
use model_support::cuda::Kernels;

/// One change of a source's text, headers included: `from` must be there.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    /// What is replaced, wherever it is.
    pub from: &'static str,
    /// What with.
    pub to: &'static str,
}

impl Edit {
    /// The image of a source with this change, compiled once per process; `None` without a compiler.
    ///
    /// # Panics
    /// The compiler refuses it, or it changes nothing.
    pub fn compile(&self, source: &KernelSource) -> Option<Vec<u8>> {
        let (Edit { from, to }, text) = (self, source.expanded());
        assert!(text.contains(from), "{} has no `{from}`", source.name);
        stand_in::image(source.name, &text.replace(from, to))
    }
}

/// A device whose kernels are compiled by the C++ compiler; those of `source` with the edit. Memory that is dropped is
/// freed at once, so that use after it is noticed.
///
/// # Panics
/// The compiler refuses a source, or the edit changes nothing.
pub fn open(edited: Option<(&'static KernelSource, Edit)>) -> Cuda {
    let Some((edited, edit)) = edited else {
        return stand_in::open().expect("the stand-in's device");
    };
    let image = move |source: &KernelSource| match std::ptr::eq(edited, source) {
        true => edit.compile(source),
        false => stand_in::image(source.name, &source.expanded()),
    };
    Cuda::with_options(0, CudaOptions::default().images(image).keep_memory(0)).expect("the stand-in's device")
}

/// A device and a stream, with kernels loaded.
pub struct Rig {
    /// The device.
    pub device: Cuda,
    /// A stream of it.
    pub stream: Stream,
    /// What is loaded.
    pub kernels: Kernels,
}

impl Rig {
    /// On the stand-in: loads the shared kernels and those of `source`, the latter with the edit.
    ///
    /// # Panics
    /// As [`open`]; what the stand-in reports.
    pub fn new(source: &'static KernelSource, edit: Option<Edit>) -> Self {
        Self::on(open(edit.map(|edit| (source, edit))), source).expect("the kernels")
    }

    /// On any device: loads the shared kernels and those of `source`.
    ///
    /// # Errors
    /// What the device reports.
    pub fn on(device: Cuda, source: &'static KernelSource) -> graph_core::Result<Self> {
        let (stream, kernels) = (device.stream()?, model_support::cuda::load(&device, &[source])?);
        Ok(Rig { device, stream, kernels })
    }

    /// A tensor of these numbers.
    pub fn up<T: Element, const R: usize>(&self, data: &[T], dims: [usize; R]) -> Tensor<Cuda, T, R> {
        Tensor::from_slice(&self.device, &self.stream, data, dims).expect("a tensor")
    }

    /// A tensor to write to.
    pub fn out<T: Element, const R: usize>(&self, dims: [usize; R]) -> Tensor<Cuda, T, R> {
        Tensor::alloc(&self.device, dims).expect("a tensor")
    }

    /// What is in a tensor.
    pub fn down<T: Element, const R: usize>(&self, tensor: &Tensor<Cuda, T, R>) -> Result<Vec<T>, String> {
        tensor.to_vec(&self.stream).map_err(|error| error.to_string())
    }
}
