//! Kernels on slices. Rows are independent: a row's result has the same bits alone and in a batch.
//!
//! Sizes come from the tensors of a model that was checked on load, so a slice of a wrong length is a mistake of the
//! caller's code, and panics.

mod attention;
mod linear;
mod rowwise;

pub use attention::{PagedRows, Rows, attend, attend_paged};
pub use linear::linear;
pub use rowwise::{add, rms_norm, silu};
