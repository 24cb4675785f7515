//! The example plugins on the CUDA backend, over the stand-in driver: what the tests share.
//!
//! The stand-in runs the kernels' own `.cu` source, compiled by the machine's C++ compiler. What passes here is not a GPU
//! result.

use graph_core::Registry;
use model_support::Activation;

mod cases;
mod compare;
pub mod constants;
pub mod models;
mod rig;

pub use cases::{CASES, Case, ELEMENTS};
pub use compare::{close, near, rounded, same};
pub use rig::{Edit, Rig, open, session};

/// One linked node with its regions.
///
/// # Panics
/// Two linked entries of one name.
pub fn registry(node: &str) -> Registry {
    let linked = Registry::collect().expect("no duplicates");
    let regions = linked.regions().iter().copied().filter(|entry| entry.schema.node == node);
    let nodes = linked.nodes().iter().copied().filter(|entry| entry.name == node);
    Registry::from_entries(regions.collect(), nodes.collect(), Vec::new()).expect("no duplicates")
}

/// Numbers between -1.5 and 1.5 that look random and are the same in every run, in any element.
pub fn numbers<A: Activation>(count: usize, seed: u64) -> Vec<A> {
    let hash = |i: usize| {
        let x = (i as u64 + 1).wrapping_add(seed << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ x >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (x ^ x >> 29) >> 40
    };
    (0..count).map(|i| A::narrow(hash(i) as f32 / (1 << 24) as f32 * 3.0 - 1.5)).collect()
}
