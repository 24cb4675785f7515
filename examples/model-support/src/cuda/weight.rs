//! Weights on a device.

use graph_core::{Result, Tensor, bf16};
use graph_cuda::{Cuda, Stream};

use crate::Stored;

/// A matrix `[out, in]` in the element that its file has. Clones share the memory.
#[derive(Clone)]
pub enum Weight {
    /// From f32 or f16.
    F32(Tensor<Cuda, f32, 2>),
    /// From bf16.
    Bf16(Tensor<Cuda, bf16, 2>),
}

impl Weight {
    /// A copy on the device, of these dimensions.
    ///
    /// # Errors
    /// As [`Tensor::from_slice`].
    pub fn upload(device: &Cuda, stream: &Stream, stored: &Stored, dims: [usize; 2]) -> Result<Self> {
        match stored {
            Stored::F32(values) => Tensor::from_slice(device, stream, values, dims).map(Weight::F32),
            Stored::Bf16(values) => Tensor::from_slice(device, stream, values, dims).map(Weight::Bf16),
        }
    }
}
