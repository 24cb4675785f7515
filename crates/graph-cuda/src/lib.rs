//! The CUDA backend of graph-core, on [`cudarc`].
//!
//! ```no_run
//! use graph_core::{Backend, Elem, Tensor};
//! use graph_cuda::{Arg, Cuda, Kernel, KernelSource};
//!
//! static SCALE: KernelSource = KernelSource {
//!     name: "scale.cu",
//!     text: r#"
//!         extern "C" __global__ void scale(float* y, const float* x, float by, unsigned int n) {
//!             unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
//!             if (i < n) y[i] = by * x[i];
//!         }
//!     "#,
//!     headers: &[],
//!     options: &[],
//!     kernels: &[Kernel::new("scale", &[Arg::Out(Elem::F32), Arg::In(Elem::F32), Arg::F32, Arg::U32])],
//! };
//!
//! let cuda = Cuda::new(0)?;
//! let stream = cuda.stream()?;
//! let scale = cuda.load(&SCALE)?.function("scale")?; // once, when a model is loaded
//! let x = Tensor::<Cuda, f32, 1>::from_slice(&cuda, &stream, &[1.0, 2.0, 3.0], [3])?;
//! let y = Tensor::<Cuda, f32, 1>::alloc(&cuda, [3])?;
//!
//! Cuda::begin_capture(&stream)?;
//! let launch = scale.on(&stream).block([32, 1, 1]).arg(y.view_mut()).arg(x.view()).arg(2.0_f32).arg(3_u32);
//! // SAFETY: the kernel touches three elements of each view.
//! unsafe { launch.launch()? };
//! let graph = cuda.instantiate(Cuda::end_capture(&stream)?)?;
//!
//! Cuda::launch(&graph, &stream)?;
//! assert_eq!(y.to_vec(&stream)?, [2.0, 4.0, 6.0]);
//! # Ok::<(), graph_core::Error>(())
//! ```
//!
//! # What it needs
//!
//! To build: nothing of CUDA. To run: a driver of CUDA 12.3 or newer, found at run time, and NVRTC or images of the
//! kernels ([`CudaOptions::images`]). What is missing is an error of [`Cuda::new`] that names it, and
//! [`Cuda::available`] asks without opening anything. If the machine that builds has `nvcc`, the bindings are of its
//! version, which must be 12.3 or newer then. The features of cudarc are those that a library may set: the binary
//! chooses a CUDA version or a way of linking, if it wants to.
//!
//! # How it keeps graph-core's promises
//!
//! - **Capture.** Streams are non-blocking ones of its own; cudarc's event tracking is off; the mode is THREAD_LOCAL,
//!   so that other threads allocate, wait and free while one captures. A call that a capture cannot contain is refused
//!   by name before the driver sees it, and breaks the capture: an author who drops the error gets no graph. The end
//!   comes on every path, on the thread of the begin, and is asked for again where the driver refuses it.
//! - **Audit.** After a capture the driver's graph is read node by node, in the order of its edges. Allocations are
//!   refused by name, or allowed by [`CudaOptions::memory_nodes`]; calls of host functions and copies from or to memory
//!   of the host are refused, except the framework's own head and tail. graph-core compares the rest with what the
//!   warm-up issued.
//! - **Lifetimes.** Every handle keeps the device; a graph keeps the memory and the modules that checked operations
//!   recorded. What is dropped while a capture runs, on any thread, is destroyed after it. Pinned memory, graphs,
//!   modules and streams are destroyed when the streams have been waited for.
//! - **Failures.** Errors have the driver's number and name, from a table of this crate ([`codes`]). A free that fails is
//!   tried again, then again later, and listed meanwhile ([`Cuda::leaked`], [`lost`]). An error that leaves the context
//!   unusable ends the device: every later call says which call reported it, without asking the driver.
//! - **Memory.** Dropped device memory is kept for later allocations, up to a limit ([`CudaOptions::keep_memory`]), while
//!   the device has one stream, whose order makes that safe: an eager forward allocates without waiting for the device.
//! - **Uploads.** What an upload is given is copied to pinned memory of the stream, which is leased until the device has
//!   read it: uploads up to 64 KiB do not wait. Longer ones do.
//! - **Cost.** A replay is one call, `cuGraphLaunch`, and allocates nothing. The context is bound once per thread: code
//!   that makes another context current on that thread puts ours back, as NVIDIA's libraries do. (A launch that fails for
//!   want of it binds and tries again; calls that allocate ask first.)
//!
//! # What is checked, and what is not
//!
//! Sizes, devices and the state of captures are checked before each call, so safe code cannot make the driver write
//! outside a buffer. Three things are their authors' word, and `unsafe` to say:
//!
//! - [`Launch::launch`]: that a kernel stays within its views. The number, elements and types of its arguments are
//!   checked against its declaration, and the declaration against the compiled kernel.
//! - [`Stream::raw`]: everything in the block. Each graph lists its raw blocks ([`Graph::unchecked`]).
//! - [`Buffer::device_ptr`] is a number; whoever passes it on keeps the buffer until the work on it is done: the memory
//!   of a dropped one may belong to somebody else at once.
//!
//! And some things are assumed, about the driver or by the bindings:
//!
//! - `cuMemFree` waits for all work of the device (NVIDIA documents that it may; everybody relies on it). An aligned copy
//!   of four bytes to pinned memory arrives as one store, behind what the stream or graph did before it.
//! - Two streams that use one buffer without an event between them race on the device. That gives wrong numbers, never
//!   a write to memory of the host.
//! - cudarc's bindings take the driver's results as a Rust enum: a result that these bindings do not know would be
//!   undefined behaviour. Kinds of nodes, states of captures and types of memory are read as plain numbers.
//!
//! # Tests
//!
//! They run over a stand-in driver, which the real cudarc drives and which runs the kernels' own source on the host. It
//! shows mistakes; it says nothing about a GPU, where nothing of this crate has been run yet.
//! `cargo test -p graph-cuda --test fault_sweep -- --nocapture` fails every driver call of a scenario once.

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
mod kept;
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
mod staging;
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
