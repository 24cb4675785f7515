//! Weights on a device.

use graph_core::{Result, Tensor, bf16};
use graph_cuda::{Cuda, Stream};

use super::Kernels;
use crate::Stored;

/// A matrix of weights, `[out, in]`. Clones share the memory.
#[derive(Clone)]
pub struct Weight {
    matrix: Matrix,
    #[cfg(feature = "cublas")]
    pub(super) blas: std::sync::Arc<super::Blas>,
}

/// A matrix in the element that its file has.
#[derive(Clone)]
pub enum Matrix {
    /// From f32 or f16.
    F32(Tensor<Cuda, f32, 2>),
    /// From bf16.
    Bf16(Tensor<Cuda, bf16, 2>),
}

impl Kernels {
    /// A copy of weights on the device, of these dimensions.
    ///
    /// # Errors
    /// As [`Tensor::from_slice`].
    pub fn weight(
        &self,
        device: &Cuda,
        stream: &Stream,
        stored: &Stored,
        dims: [usize; 2],
    ) -> Result<Weight> {
        let matrix = match stored {
            Stored::F32(values) => Matrix::F32(Tensor::from_slice(device, stream, values, dims)?),
            Stored::Bf16(values) => Matrix::Bf16(Tensor::from_slice(device, stream, values, dims)?),
        };
        Ok(Weight {
            matrix,
            #[cfg(feature = "cublas")]
            blas: self.blas.clone(),
        })
    }
}

impl Weight {
    /// The matrix.
    pub fn matrix(&self) -> &Matrix {
        &self.matrix
    }
}
