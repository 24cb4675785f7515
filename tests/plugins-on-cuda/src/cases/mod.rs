//! Each kernel against the kernel on slices that defines it.

mod digits;
mod llama;
mod pad;
mod paged;
mod sample_units;
mod shared;

use graph_cuda::KernelSource;

use crate::{Edit, Rig};

/// A kernel, how to check it, and changes of its source that the check must notice.
pub struct Case {
    /// The kernel's name.
    pub kernel: &'static str,
    /// Where it is.
    pub source: &'static KernelSource,
    /// Compares it with the kernel on slices.
    pub check: fn(&Rig) -> Result<(), String>,
    /// Each changes one constant, or the one operator of a kernel without constants.
    pub edits: &'static [Edit],
}

/// All kernels, by source.
pub const CASES: &[&[Case]] = &[shared::CASES, digits::CASES, llama::CASES, paged::CASES, pad::CASES];

const fn edit(from: &'static str, to: &'static str) -> Edit {
    Edit { from, to }
}
