//! Toy regions and nodes, written by hand, for any backend.

mod chain;
mod columns;
mod echo;
mod mix;
mod paged;
mod region;
mod three;

pub(crate) use chain::{chain, layers, run_layer};
pub(crate) use columns::columns;
pub(crate) use echo::Echo;
pub(crate) use mix::{Inputs, Rig, Script};
pub(crate) use paged::{PagedToy, Toy, sum_of, value};
pub(crate) use region::{ByHand, Toys, one_region, packed_region};
pub use three::ThreeInputs;
