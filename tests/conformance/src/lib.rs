//! The conformance test: every vector passes, or belongs to a numbered difference whose own answer is pinned.
//!
//! `answers` asks graph-core, `differences` says from a vector's inputs alone whether the two must differ and what
//! graph-core answers instead, `harness` compares.

mod answers;
mod args;
mod differences;
mod errors;
mod harness;
mod setups;
mod table;
mod vectors;

pub use harness::{Report, run};
pub use table::Table;
