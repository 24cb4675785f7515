//! Each kernel against the kernel on slices that defines it.

mod bf16;
mod digits;
mod llama;
mod pad;
mod paged;
mod sample_units;
mod shared;

pub use bf16::ELEMENTS;
use graph_cuda::KernelSource;
use model_support::{Activation, Activations, Stored};

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
pub const CASES: &[&[Case]] =
    &[bf16::CASES, shared::CASES, digits::CASES, llama::CASES, paged::CASES, pad::CASES];

const fn edit(from: &'static str, to: &'static str) -> Edit {
    Edit { from, to }
}

fn narrowed<A: Activation>(values: &[f32]) -> Vec<A> {
    values.iter().map(|value| A::narrow(*value)).collect()
}

/// Weights as a file of their element has them.
fn stored<W: Activation>(values: &[W]) -> Stored {
    match W::ACTIVATIONS {
        Activations::F32 => Stored::F32(W::widen(values).into_owned()),
        Activations::Bf16 => Stored::Bf16(narrowed(&W::widen(values))),
    }
}
