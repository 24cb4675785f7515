//! The shared kernels on a device: their sources, and a checked launch for each.
//!
//! The launches are for plugins' operations: they find the modules that [`load`] has loaded by the stream's device.

#[cfg(feature = "cublas")]
mod blas;
mod dense;
mod launch;
mod weight;

use graph_core::{
    Elem::{self, BF16, F32},
    Result,
};
use graph_cuda::{Arg, Cuda, Kernel, KernelSource, Module};

#[cfg(feature = "cublas")]
pub use blas::{Blas, BlasError};
pub use dense::{add, add_bias, add_product, linear, rms_norm};
pub use launch::{MOST_HEAD_DIM, THREADS, blocks, check, kernel, size};
pub use weight::{Matrix, Weight};

/// Headers of kernels, by the names in their `#include` lines.
pub const HEADERS: &[(&str, &str)] = &[
    ("bf16.cuh", include_str!("../../kernels/bf16.cuh")),
    ("common.cuh", include_str!("../../kernels/common.cuh")),
    ("attention.cuh", include_str!("../../kernels/attention.cuh")),
];

/// Products and sums round as their text says: the same bits on every device.
pub const OPTIONS: &[&str] = &["--fmad=false"];

/// Products with weights.
pub static LINEAR: KernelSource = KernelSource {
    name: "linear.cu",
    text: include_str!("../../kernels/linear.cu"),
    headers: HEADERS,
    options: OPTIONS,
    kernels: &[
        Kernel::new("linear_f32_f32", &product(F32, F32, F32)),
        Kernel::new("linear_f32_bf16", &product(F32, BF16, F32)),
        Kernel::new("linear_bf16_f32", &product(BF16, F32, BF16)),
        Kernel::new("linear_bf16_bf16", &product(BF16, BF16, BF16)),
        Kernel::new("linear_bf16_f32_f32", &product(BF16, F32, F32)),
        Kernel::new("linear_bf16_bf16_f32", &product(BF16, BF16, F32)),
        Kernel::new("linear_f32_f32_bf16", &product(F32, F32, BF16)),
        Kernel::new("linear_f32_bf16_bf16", &product(F32, BF16, BF16)),
    ],
};

/// `x`, the weight and `y`.
const fn product(x: Elem, weight: Elem, y: Elem) -> [Arg; 6] {
    [Arg::Out(y), Arg::In(x), Arg::In(weight), Arg::U32, Arg::U32, Arg::U32]
}

/// Norms and sums.
pub static ROWWISE: KernelSource = KernelSource {
    name: "rowwise.cu",
    text: include_str!("../../kernels/rowwise.cu"),
    headers: HEADERS,
    options: OPTIONS,
    kernels: &[
        Kernel::new("rms_norm_f32", &norm(F32, F32)),
        Kernel::new("rms_norm_bf16", &norm(BF16, BF16)),
        Kernel::new("rms_norm_f32_bf16", &norm(F32, BF16)),
        Kernel::new("rms_norm_bf16_f32", &norm(BF16, F32)),
        Kernel::new("add_f32_f32", &sum(F32, F32, F32)),
        Kernel::new("add_bf16_f32", &sum(BF16, F32, BF16)),
        Kernel::new("add_bf16_bf16", &sum(BF16, BF16, BF16)),
        Kernel::new("add_bf16_f32_f32", &sum(BF16, F32, F32)),
        Kernel::new("add_f32_f32_bf16", &sum(F32, F32, BF16)),
    ],
};

const fn norm(x: Elem, y: Elem) -> [Arg; 5] {
    [Arg::Out(y), Arg::In(x), Arg::In(F32), Arg::F32, Arg::U32]
}

const fn sum(a: Elem, b: Elem, y: Elem) -> [Arg; 5] {
    [Arg::Out(y), Arg::In(a), Arg::In(b), Arg::U32, Arg::U32]
}

/// Compiled kernels, for as long as this lives.
#[derive(Debug)]
pub struct Kernels {
    _modules: Vec<Module>,
    #[cfg(feature = "cublas")]
    pub(crate) blas: std::sync::Arc<Blas>,
}

/// Loads the shared kernels and a plugin's own.
///
/// # Errors
/// As [`Cuda::load`]; with the feature `cublas` also that there is no cuBLAS, and what it reports.
pub fn load(device: &Cuda, own: &[&'static KernelSource]) -> Result<Kernels> {
    let sources = [&LINEAR, &ROWWISE].into_iter().chain(own.iter().copied());
    Ok(Kernels {
        _modules: sources.map(|source| device.load_once(source)).collect::<Result<_>>()?,
        #[cfg(feature = "cublas")]
        blas: std::sync::Arc::new(Blas::new(device)?),
    })
}
