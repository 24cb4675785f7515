//! A stand-in for the CUDA driver, for tests on a machine without a GPU.
//!
//! The crate is two things at once. As a **cdylib** it exports the functions of the CUDA driver API that the
//! real [`cudarc`](https://docs.rs/cudarc) calls, so that code written on cudarc runs unchanged: contexts,
//! memory, streams, events, captures, graphs, modules, launches. As an **rlib** it is what a test links to
//! load that library and to steer it: count calls, make one fail, ask what is alive, compile kernels.
//!
//! ```no_run
//! let driver = stand_in_driver::load().expect("the stand-in driver");
//! let session = driver.session();              // this test's turn, with everything reset
//! session.fail_once("cuGraphLaunch", 2, 719);  // the second launch from now
//! // ... drive cudarc ...
//! assert_eq!(session.fired().len(), 1);
//! assert!(session.live().is_zero(), "{:?}", session.live());
//! ```
//!
//! **What passes here is not a GPU result.** The stand-in was written from NVIDIA's documentation and has not
//! been compared with a real driver. It is a model with strict rules: it shows mistakes, it proves nothing
//! about a device.
//!
//! # Loading
//!
//! [`load`] opens the cdylib by its absolute path. The library carries the name `libcuda.so` inside (its
//! SONAME), and Linux's loader answers a later `dlopen("libcuda.so")` with a library that is loaded under
//! that name already. This is the first name that cudarc tries, so it gets the stand-in even where a real
//! driver is installed. `load` checks that it does, and refuses if a real driver is in the process before it.
//!
//! It can never shadow a real driver by accident. The file is called `libstand_in_driver.so`, so no search
//! path turns it up as a driver, and only a call of `load` makes it answer to the other name, in that process
//! alone. Programs that link `libcuda.so.1` still get the real one. The rlib does contain the driver's
//! functions too, but an executable does not export them, and cudarc looks functions up in the library that
//! it has opened.
//!
//! A test needs no environment variable: as a dependency of the test this crate is compiled to both forms by
//! one invocation of the compiler, so the file is there whenever the test is. It is looked for beside this
//! crate's own build output (known at compile time) and beside the running program. Each candidate must carry
//! the number that the build script computes from the sources. Only if there is none, as when a program was
//! moved away from its target folder, `load` asks cargo to build the crate.
//!
//! All tests of a process share one driver. [`Driver::session`] gives them turns and resets it in between.
//!
//! # What it models
//!
//! - **Streams are queues.** Work runs when something waits for it, not before: a missing wait reads old
//!   data. Each query that says "not ready" runs one piece of work, so polling ends; an allocation that finds
//!   too little memory runs what is pending, so that frees in it count. `set_lazy(false)` runs work at once.
//!   The legacy stream and blocking streams wait for each other; cudarc's streams are non-blocking.
//! - **Memory is host memory with rules.** It starts as 0xFF (NaN, or -1) and becomes 0xDD when freed. Copies
//!   are checked against the allocation when they are enqueued (error 1) and again when they run (700).
//!   Memory of `cuMemAllocAsync` is there only once its stream has come to the allocation. Freed blocks keep
//!   their addresses for a while, and there are red zones around all: what a kernel writes there is 700, or a
//!   line of [`Driver::faults`]. A kernel's pointer parameters must point into live memory.
//! - **Capture** has its modes, threads, forks and joins, and errors 900 to 908. Where the documentation
//!   leaves a case open the stricter reading is taken: a broken rule invalidates every capture that it
//!   touches, an event recorded in a capture stays a captured event afterwards, waiting for an event that was
//!   never recorded breaks a capture, and queries of other streams and destroying an executable graph count
//!   as unsafe calls.
//! - **Graphs** hold the captured work, run it in the order of capture (or reversed where branches allow),
//!   know the memory that their nodes allocate, can be listed, cloned, updated.
//! - **Errors 700, 710 and 719 poison the context**: pending work is void and each later call returns the
//!   same error, until the context is reset or released for the last time.
//! - **Everything is counted**: live handles and bytes per kind ([`Driver::live`]), calls per function
//!   ([`Driver::counts`]). What a context still owned when it went stays counted. Any call can be made to
//!   fail once, by function or by its number ([`Driver::fail_once`], [`Driver::fail_call`]); it then does
//!   nothing but return the error, and [`Driver::fired`] says that it happened. [`Driver::faults`] says in
//!   words what was refused and why.
//!
//! # Kernels
//!
//! [`Compiler`] compiles a `.cu` file with the machine's C++ compiler against this crate's own headers, which
//! give C++ the words and functions of CUDA: a fibre per waiting thread, barriers, shuffles, votes, atomics,
//! shared memory of both kinds, bf16 and half (no CUDA header is needed). The library that comes out knows
//! each kernel's parameters. A module gets at them in two ways:
//!
//! - [`KernelLibrary::image`] is a short text to pass as a module's PTX. A real driver refuses it: it is no
//!   PTX.
//! - Real PTX, such as NVRTC's, names kernels and parameters in its `.entry` lines;
//!   [`Driver::register_kernels`] gives these names host code. The parameters must agree.
//!
//! Kernels are run strictly: a barrier that not every thread of the block reaches at the same line is 719,
//! and so is a shuffle whose mask names a thread that has returned. Shared memory starts as 0xFF in each
//! block (arrays inside templates excepted). `set_reversed_threads` runs the threads from the last to the
//! first, which shows a missing barrier. Without a compiler, [`compile_or_not_run`] prints `NOT RUN: <test>:
//! no C++ compiler` on the terminal.
//!
//! # What it does not model
//!
//! - Time, concurrency, caches, memory ordering: one piece of work runs at a time, one thread of a kernel at
//!   a time.
//! - Tensor cores, inline PTX, textures, cooperative groups, launches from kernels, clusters, managed memory,
//!   conditional nodes, external events, peer copies, cubins and fat binaries.
//! - A device's arithmetic: functions such as `__expf` are the C library's, and `a * b + c` is not fused
//!   unless the source says so. Numbers can differ from a GPU's in the last bits.
//! - What kernels read outside memory (writes are seen), and pageable memory: both are the host's own
//!   addresses.
//! - Registers, occupancy, launch bounds; the device's attributes are made up.
//!
#![doc = include_str!("../FUNCTIONS.md")]

mod control;
mod driver;
mod shared;

pub use control::{
    CompileError, Compiler, Driver, Fired, KernelLibrary, LoadError, Session, compile_or_not_run, load,
    not_run,
};
pub use shared::Live;
