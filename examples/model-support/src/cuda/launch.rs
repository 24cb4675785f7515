//! What every launch needs: the kernel, sizes in 32 bits, and checked dimensions.

use graph_core::{Error, Result};
use graph_cuda::{Function, KernelSource, Stream};

/// Threads of a block that works element by element.
pub const THREADS: u32 = 256;

/// The widest head of `attention.cuh`.
pub const MOST_HEAD_DIM: usize = 128;

/// A kernel of a loaded source, on the stream's device.
///
/// # Errors
/// A source that nobody has loaded, a kernel that it does not have.
pub fn kernel(stream: &Stream, source: &'static KernelSource, name: &str) -> Result<Function> {
    stream.device().loaded(source)?.function(name)
}

/// A size as kernels have it.
///
/// # Errors
/// More than 32 bits.
pub fn size(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::plugin(format!("{n} elements are more than a kernel counts")))
}

/// Blocks of [`THREADS`] for so many elements: at least one, as a launch must have.
pub fn blocks(elements: u32) -> [u32; 3] {
    [elements.div_ceil(THREADS).max(1), 1, 1]
}

/// Dimensions that an operation relies on: a kernel would go beyond its views.
///
/// # Errors
/// `holds` is false; the message has the dimensions.
pub fn check(op: &str, holds: bool, dims: &[&[usize]]) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(Error::plugin(format!("{op}: dimensions that do not fit together: {dims:?}"))),
    }
}
