//! What is captured, and at which sizes.
//!
//! The names and defaults are mstar's; see `docs/differences.md` for what differs on purpose.

mod file;
mod piecewise;
mod plan;
mod whole;

pub use file::{BucketLists, SizeList};
pub use piecewise::{
    Kwarg, Kwargs, PiecewiseBatchedConfig, PiecewiseConfigType, PiecewiseCudaGraphConfig,
    PiecewisePackedConfig,
};
pub use plan::{PlannedBucket, plan_captures};
pub(crate) use whole::shape_of;
pub use whole::{BatchedCudaGraphConfig, CudaGraphConfig, CudaGraphConfigType, PackedCudaGraphConfig};

use crate::{ErrorKind, Result};

/// Sizes that are captured where a configuration names none: mstar's newest list.
pub const DEFAULT_BATCH_SIZES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The largest size of a bucket: a shape has one length per request, so that a mistyped size would take all memory.
const MOST: usize = 1 << 24;

/// Sorted, without duplicates; an empty list or a zero is an error (difference 14).
pub(crate) fn checked_sizes(name: &str, list: &'static str, sizes: &[usize]) -> Result<Vec<usize>> {
    if sizes.contains(&0) {
        return Err(ErrorKind::ZeroSize { name: name.into(), list }.into());
    }
    sorted_sizes(name, list, sizes)
}

/// The same for sizes that may be zero.
pub(crate) fn sorted_sizes(name: &str, list: &'static str, sizes: &[usize]) -> Result<Vec<usize>> {
    if sizes.is_empty() {
        return Err(ErrorKind::EmptySizes { name: name.into(), list }.into());
    }
    if let Some(size) = sizes.iter().copied().find(|size| *size > MOST) {
        return Err(ErrorKind::SizeTooLarge { name: name.into(), list, size, most: MOST }.into());
    }
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}
