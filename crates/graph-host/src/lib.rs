//! The CPU backend of graph-core.

pub mod codes;

mod backend;
mod capture;
mod device;
mod event;
mod graph;
mod hooks;
mod issued;
mod kernel;
mod memory;
mod operation;
mod stream;
pub mod timeline;
mod turn;

pub use capture::Captured;
pub use device::{Host, Live};
pub use event::Event;
pub use graph::Graph;
pub use hooks::Call;
pub use kernel::{Label, ReadSlices, Reads, WriteSlices, Writes};
pub use memory::{Buffer, FREED, POISON, Pinned};
pub use stream::Stream;
pub use timeline::Interval;
