//! The CUDA backend of graph-core.

pub mod codes;

mod audit;
mod backend;
mod calls;
mod capture;
mod control;
mod device;
mod graph;
mod handle;
mod issued;
mod launch;
mod loaded;
mod loading;
mod memory;
mod module;
mod nvrtc;
mod operations;
mod options;
mod pad;
mod raw;
mod source;
mod stream;

pub use control::{Leak, lost};
pub use cudarc;
pub use device::Cuda;
pub use graph::{Captured, Graph};
pub use launch::{Launch, LaunchArg};
pub use memory::{Buffer, Pinned};
pub use module::{Function, Module};
pub use options::{CudaOptions, MemoryNodes};
pub use pad::PAD_SOURCE;
pub use raw::RawError;
pub use source::{Arg, Kernel, KernelSource};
pub use stream::{Event, Stream};
