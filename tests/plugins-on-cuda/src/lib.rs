//! The kernels of the example plugins against the kernels on slices that define them, and both models in bf16.
//!
//! The stand-in runs the kernels' own `.cu` source, compiled by the machine's C++ compiler. What passes here is not a GPU
//! result.

use model_support::Activation;

mod cases;
pub mod constants;
mod rig;

pub use backend_suite::{close, models, near, registry, rounded, same, stand_in::session};
pub use cases::{CASES, Case, ELEMENTS};
pub use rig::{Edit, Rig, open};

/// Numbers between -1.5 and 1.5 that look random and are the same in every run, in any element.
pub fn numbers<A: Activation>(count: usize, seed: u64) -> Vec<A> {
    let hash = |i: usize| {
        let x = (i as u64 + 1).wrapping_add(seed << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (x ^ x >> 29) >> 40
    };
    (0..count).map(|i| A::narrow(hash(i) as f32 / (1 << 24) as f32 * 3.0 - 1.5)).collect()
}
