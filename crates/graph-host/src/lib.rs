//! The CPU backend of graph-core: it runs everywhere, records and replays, and checks every rule of capture.
//!
//! It is the embedded default of an engine and the bench that the framework is tested on. It behaves as a CUDA device
//! does where that matters to a program: a stream runs its operations or records them, a graph replays what was
//! recorded on the very same memory, and what CUDA refuses inside a capture is refused here, with CUDA's numbers and
//! names. What it adds is that mistakes show: fresh memory is poison, every range is checked before it is used, and a
//! failing call can be ordered.
//!
//! # Kernels
//!
//! A kernel is a Rust closure over slices. [`Stream::kernel`] takes what it reads and what it writes as tuples of
//! graph-core's views, up to eight each; the body gets `&[T]` and `&mut [T]`. No `unsafe`, and no backend type but the
//! stream:
//!
//! ```
//! use graph_core::{Backend, In, Out, Result, Tensor};
//! use graph_host::{Host, Stream};
//!
//! fn rms_norm(
//!     stream: &Stream,
//!     x: In<'_, Host, f32, 2>,
//!     w: In<'_, Host, f32, 1>,
//!     y: Out<'_, Host, f32, 2>,
//! ) -> Result<()> {
//!     stream.kernel("rms_norm", (x, w), (y,), |(x, w), (y,)| {
//!         let n = w.len();
//!         for (y, x) in y.chunks_mut(n).zip(x.chunks(n)) {
//!             let scale = 1.0 / (x.iter().map(|x| x * x).sum::<f32>() / n as f32).sqrt();
//!             y.iter_mut().zip(x.iter().zip(w)).for_each(|(y, (x, w))| *y = x * scale * w);
//!         }
//!     })
//! }
//!
//! let host = Host::new();
//! let stream = host.stream()?;
//! let x = Tensor::from_slice(&host, &stream, &[3.0, 4.0], [1, 2])?;
//! let w = Tensor::from_slice(&host, &stream, &[1.0, 1.0], [2])?;
//! let y = Tensor::alloc(&host, [1, 2])?;
//! rms_norm(&stream, x.view(), w.view(), y.view_mut())?;
//! assert_eq!(y.to_vec(&stream)?, [3.0 / 12.5_f32.sqrt(), 4.0 / 12.5_f32.sqrt()]);
//! # Ok::<(), graph_core::Error>(())
//! ```
//!
//! A range that a launch writes may overlap no other range of it; to work in place, name the range once, as a write.
//! A body that panics makes the call that ran it return [`Panicked`](graph_core::ErrorKind::Panicked); the device works
//! on. A body may not call the backend (800), nor wait for another thread that does: it runs while it has the device
//! to itself.
//!
//! # Captures
//!
//! Between `begin_capture` and `end_capture` a stream records. Another stream that waits for an event of the capture
//! joins it, and has to be waited for before the end. [`Host::instantiate`](graph_core::Backend::instantiate) makes a
//! [`Graph`], which keeps alive, at its address, all memory that it recorded. A replay allocates nothing.
//!
//! Captures are `THREAD_LOCAL`: other threads may allocate and wait on streams of their own meanwhile. A buffer or a
//! graph that is dropped while any capture of the device runs is put aside, and destroyed after it ([`Host::live`]).
//!
//! | code | what provokes it | the capture |
//! |---|---|---|
//! | 900 | synchronise, download, upload or launch on a stream that captures; the first three, an allocation or a host-side event call on the thread that captures | breaks |
//! | 901 | whatever is done in a capture that broke, its end included; the end makes its streams usable again | |
//! | 902 | a wait for an event of another capture | both break |
//! | 903 | an end without a begin on that stream | goes on |
//! | 903 | a second begin | breaks |
//! | 904 | the end, where operations of a forked stream were not waited for | ends |
//! | 905 | a wait, inside the capture, for an event recorded outside it | breaks |
//! | 906 | nothing: there is no legacy stream here | |
//! | 907 | a host-side question about an event of a capture | breaks |
//! | 907 | a wait, outside, for an event of a capture that is over | |
//! | 908 | the end on another thread than the begin | goes on |
//!
//! # For tests
//!
//! [`Host::fail_next`] and [`Host::fail_after`] make a call fail, [`Host::corrupt_operation`] makes a recorded
//! operation do nothing, [`Host::live`] counts what exists, and [`Host::timeline`] says what would overlap on a device
//! whose streams do run side by side.
//!
//! # Threads
//!
//! Every handle may be used from any thread. One operation of a device runs at a time, and the replay of a graph is
//! one turn: streams of one device do not speed each other up here. Kernels may use threads of their own inside.

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
