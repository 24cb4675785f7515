//! Products by cuBLAS.
//!
//! **This has run nowhere**: no machine of this project has a GPU, and the stand-in driver has no cuBLAS. It compiles.
//!
//! A row's result may have other bits in a batch than alone, since cuBLAS chooses its kernels by the sizes; replays and
//! eager calls of the same sizes agree.

use std::{
    ffi::{c_int, c_void},
    ptr::null_mut,
    sync::{Mutex, PoisonError},
};

use graph_core::{Backend, Element, Error, In, Out, Result};
use graph_cuda::{
    Buffer, Cuda, Stream,
    cudarc::cublas::{result, sys},
};

use super::{Matrix, launch::check};
use crate::{
    Activation,
    Activations::{Bf16, F32},
};

/// What NVIDIA recommends for its newest devices. cuBLAS would allocate its own otherwise, which a graph does not keep.
const WORKSPACE: usize = 32 << 20;

/// A handle of cuBLAS with its workspace. A model has its own: two engines' streams would share the workspace.
#[derive(Debug)]
pub struct Blas {
    device: Cuda,
    workspace: Buffer,
    handle: Mutex<Handle>,
}

/// Why cuBLAS does not compute.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlasError {
    /// No library.
    #[error(
        "there is no cuBLAS (libcublas.so) on this machine; install it, or build without the feature `cublas`"
    )]
    Missing,
    /// What a call reports.
    #[error("{call}: {status:?}")]
    Call {
        /// The function.
        call: &'static str,
        /// Its status.
        status: sys::cublasStatus_t,
    },
    /// A size that cuBLAS does not take.
    #[error("a matrix of {0} rows or columns is beyond cuBLAS's 32 bits")]
    Size(usize),
}

#[derive(Debug)]
struct Handle(sys::cublasHandle_t);

// SAFETY: cuBLAS lets any thread use a handle, one at a time, which the mutex sees to.
unsafe impl Send for Handle {}

impl Blas {
    /// Opens cuBLAS, and allocates the workspace.
    ///
    /// # Errors
    /// No library; what it and the device report; a call inside a capture.
    pub fn new(device: &Cuda) -> Result<Blas> {
        present().map_err(Error::plugin)?;
        let workspace = device.alloc(WORKSPACE)?;
        // A second stream that lives on would keep the device from using dropped memory again.
        let stream = device.stream()?;
        // SAFETY: the block enqueues nothing.
        let handle = unsafe {
            stream.raw("cublasCreate", |_| result::create_handle().map_err(failed("cublasCreate")))
        }?;
        Ok(Blas { device: device.clone(), workspace, handle: Mutex::new(Handle(handle)) })
    }

    /// `y = x W^T`, of views on the stream's device. `None` for elements that cuBLAS does not take: those of `x` and of
    /// the weights must be the same, and that of `y` the same or `f32`. Sums are in `f32`.
    ///
    /// # Errors
    /// Dimensions that do not fit together; what cuBLAS reports.
    pub fn linear<X: Activation, Y: Activation>(
        &self,
        stream: &Stream,
        x: In<'_, Cuda, X, 2>,
        matrix: &Matrix,
        y: Out<'_, Cuda, Y, 2>,
    ) -> Option<Result<()>> {
        match (matrix, X::ACTIVATIONS, Y::ACTIVATIONS) {
            (Matrix::F32(w), F32, F32) => Some(self.product(stream, x, w.view(), y)),
            (Matrix::Bf16(w), Bf16, F32 | Bf16) => Some(self.product(stream, x, w.view(), y)),
            _ => None,
        }
    }

    fn product<X: Activation, W: Activation, Y: Activation>(
        &self,
        stream: &Stream,
        x: In<'_, Cuda, X, 2>,
        w: In<'_, Cuda, W, 2>,
        y: Out<'_, Cuda, Y, 2>,
    ) -> Result<()> {
        let ([rows, inner], [outer, depth]) = (x.dims(), w.dims());
        check("linear", depth == inner && y.dims() == [rows, outer], &[&x.dims(), &w.dims(), &y.dims()])?;
        if rows * outer == 0 {
            return Ok(());
        }
        let (rows, inner, outer) = (size(rows)?, size(inner)?, size(outer)?);
        let (one, zero) = (1.0_f32, 0.0_f32);
        let (x_at, w_at, y_at) = (address(x), address(w), address(y.read()));
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the handle is this thread's until the end of the block, and has this stream until then; setting it clears
        // the workspace. cuBLAS's matrices are column by column, so it computes y^T = W x^T with the rows as columns: the
        // sizes are those of the views, as checked. The graph keeps the three views' memory and the workspace, see below.
        unsafe {
            stream.raw("cublasGemmEx", |s| {
                let (h, workspace) = (handle.0, self.workspace.device_ptr() as *mut c_void);
                result::set_stream(h, s.cu_stream().cast()).map_err(failed("cublasSetStream"))?;
                sys::cublasSetWorkspace_v2(h, workspace, WORKSPACE)
                    .result()
                    .map_err(failed("cublasSetWorkspace"))?;
                let product = result::gemm_ex(
                    h,
                    sys::cublasOperation_t::CUBLAS_OP_T,
                    sys::cublasOperation_t::CUBLAS_OP_N,
                    outer,
                    rows,
                    inner,
                    (&raw const one).cast(),
                    w_at,
                    data_type::<W>(),
                    inner,
                    x_at,
                    data_type::<X>(),
                    inner,
                    (&raw const zero).cast(),
                    y_at,
                    data_type::<Y>(),
                    outer,
                    sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                    sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
                );
                result::set_stream(h, null_mut()).map_err(failed("cublasSetStream"))?;
                product.map_err(failed("cublasGemmEx"))
            })
        }?;
        let used = [x.buffer(), w.buffer(), y.read().buffer(), &self.workspace];
        used.into_iter().for_each(|buffer| stream.keep(buffer));
        Ok(())
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        let handle = self.handle.get_mut().unwrap_or_else(PoisonError::into_inner).0;
        let destroyed = self.device.stream().and_then(|stream| {
            // SAFETY: nobody uses the handle any more, and it has no stream. What it has launched needs its workspace
            // only, which is freed when the device is done with it.
            unsafe {
                stream
                    .raw("cublasDestroy", |_| result::destroy_handle(handle).map_err(failed("cublasDestroy")))
            }
        });
        // A handle that cannot be destroyed is cuBLAS's to keep; the device has taken note of its own errors.
        drop(destroyed);
    }
}

/// Whether the library is there: cudarc panics at the first call if it is not.
fn present() -> Result<(), BlasError> {
    // SAFETY: loading NVIDIA's library runs nothing but its initialisers.
    match unsafe { sys::is_culib_present() } {
        true => Ok(()),
        false => Err(BlasError::Missing),
    }
}

fn failed(call: &'static str) -> impl Fn(result::CublasError) -> Error {
    move |error| Error::plugin(BlasError::Call { call, status: error.0 })
}

fn size(n: usize) -> Result<c_int> {
    c_int::try_from(n).map_err(|_| Error::plugin(BlasError::Size(n)))
}

fn address<T: Element>(view: In<'_, Cuda, T, 2>) -> *mut c_void {
    (view.buffer().device_ptr() + view.offset() as u64) as *mut c_void
}

fn data_type<A: Activation>() -> sys::cudaDataType {
    A::ACTIVATIONS.pick(sys::cudaDataType_t::CUDA_R_32F, sys::cudaDataType_t::CUDA_R_16BF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_error_that_names_it() {
        if let Err(error) = present() {
            assert_eq!(error, BlasError::Missing);
            assert!(error.to_string().contains("libcublas.so"), "{error}");
        }
    }
}
