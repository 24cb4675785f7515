//! The shared kernels on a device: their sources, and a checked launch for each.
//!
//! The launches are for plugins' operations: they find the modules that [`load`] has loaded by the stream's device.

mod dense;
mod launch;

use graph_core::{Elem::F32, Result};
use graph_cuda::{Arg, Cuda, Kernel, KernelSource, Module};

pub use dense::{add, linear, rms_norm};
pub use launch::{MOST_HEAD_DIM, THREADS, blocks, check, kernel, size};

/// Headers of kernels, by the names in their `#include` lines.
pub const HEADERS: &[(&str, &str)] = &[
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
    kernels: &[Kernel::new(
        "linear",
        &[Arg::Out(F32), Arg::In(F32), Arg::In(F32), Arg::U32, Arg::U32, Arg::U32],
    )],
};

/// Norms and sums.
pub static ROWWISE: KernelSource = KernelSource {
    name: "rowwise.cu",
    text: include_str!("../../kernels/rowwise.cu"),
    headers: HEADERS,
    options: OPTIONS,
    kernels: &[
        Kernel::new("rms_norm", &[Arg::Out(F32), Arg::In(F32), Arg::In(F32), Arg::F32, Arg::U32]),
        Kernel::new("add", &[Arg::Out(F32), Arg::In(F32), Arg::In(F32), Arg::U32, Arg::U32]),
    ],
};

/// Compiled kernels, for as long as this lives.
#[derive(Debug)]
pub struct Kernels {
    _modules: Vec<Module>,
}

/// Loads the shared kernels and a plugin's own.
///
/// # Errors
/// As [`Cuda::load`].
pub fn load(device: &Cuda, own: &[&'static KernelSource]) -> Result<Kernels> {
    let sources = [&LINEAR, &ROWWISE].into_iter().chain(own.iter().copied());
    Ok(Kernels { _modules: sources.map(|source| device.load_once(source)).collect::<Result<_>>()? })
}
