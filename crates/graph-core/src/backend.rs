//! What a backend supplies: calls. Their order lives in this crate, once.

use std::ptr::NonNull;

use crate::{Pad, Result};

/// A device: memory, streams, capture and graphs.
///
/// The value is the device handle; handles of every kind are cheap to clone and share what they name. Memory is freed
/// when the last handle of it **and** the last graph that recorded it are gone. A handle dropped while a capture runs
/// is put aside and destroyed after the capture (invariant 14).
///
/// Every call that fails says so with [`Driver`](crate::ErrorKind::Driver), which has the driver's number and name, or
/// with [`OutOfBounds`](crate::ErrorKind::OutOfBounds) for bytes that a buffer does not have. A call that a capture
/// cannot contain is refused, and breaks the capture: its end is an error, even if the author dropped that of the call.
///
/// The split follows cubecl's capture (one state machine, drivers supply calls) and wgpu-hal (associated types).
///
/// How to write one: the calls below, each a few lines over the driver, and nothing else; `graph_host` is the smallest
/// example. Which call comes when is this crate's business:
///
/// ```
/// use graph_core::{Backend, Result};
/// use graph_host::Host;
///
/// fn replay_a_copy<B: Backend>(device: &B) -> Result<[u8; 4]> {
///     let (stream, from, to) = (device.stream()?, device.alloc(4)?, device.alloc(4)?);
///     B::begin_capture(&stream)?;
///     B::copy(&stream, (&from, 0), (&to, 0), 4)?; // recorded, not run
///     let graph = device.instantiate(B::end_capture(&stream)?)?;
///
///     B::upload(&stream, b"word", &from, 0)?;
///     B::launch(&graph, &stream)?;
///     let mut got = [0; 4];
///     B::download(&stream, &to, 0, &mut got)?;
///     Ok(got)
/// }
/// assert_eq!(&replay_a_copy(&Host::new())?, b"word");
/// # Ok::<(), graph_core::Error>(())
/// ```
///
/// # Safety
/// This crate writes pinned memory while other handles of it exist, and decides from what it reads there that the
/// device is done with it. So an implementation promises:
/// - [`pinned_bytes`](Backend::pinned_bytes) gives memory that is initialised, aligned to 16 bytes, and valid for reads
///   and writes as long as a handle of it, or a graph or an operation in flight that uses it, lives. Different
///   allocations never overlap.
/// - Operations touch host memory only as they say: [`upload`](Backend::upload) is done with `src`, and
///   [`download`](Backend::download) with `dst`, on return; [`upload_block`](Backend::upload_block) reads the first
///   `bytes` bytes of `src`, and [`signal`](Backend::signal) writes exactly the four bytes at the given place, as one
///   atomic store that comes after everything before it in the stream or the graph.
/// - [`synchronize`](Backend::synchronize) returns `Ok` only when nothing that was issued on the stream runs any more.
/// - A graph touches no other memory than its capture recorded, and keeps that memory alive.
pub unsafe trait Backend: Clone + Send + Sync + 'static {
    /// The name that registrations, tables and messages use.
    const NAME: &'static str;
    /// Device memory.
    type Buffer: Clone + Send + Sync + 'static;
    /// Host memory that the device may read and write while a graph runs.
    type Pinned: Clone + Send + Sync + 'static;
    /// A queue of operations.
    type Stream: Clone + Send + Sync + 'static;
    /// A point in a stream.
    type Event: Send + 'static;
    /// What a capture recorded, before it can run.
    type Captured;
    /// An executable graph: launched by one thread at a time, so `Send` only.
    type Graph: Send + 'static;

    /// Memory of `bytes` bytes with unspecified contents.
    fn alloc(&self, bytes: usize) -> Result<Self::Buffer>;
    /// The size of a buffer.
    fn buffer_bytes(buffer: &Self::Buffer) -> usize;
    /// Pinned memory of `bytes` zero bytes.
    fn alloc_pinned(&self, bytes: usize) -> Result<Self::Pinned>;
    /// Where pinned memory lies: valid, and aligned to 16 bytes, as long as a handle of it lives.
    fn pinned_bytes(pinned: &Self::Pinned) -> NonNull<[u8]>;

    /// A new stream that captures may run on.
    fn stream(&self) -> Result<Self::Stream>;
    /// Waits until everything on the stream is done, and reports what failed.
    fn synchronize(stream: &Self::Stream) -> Result<()>;
    /// Marks the present end of the stream.
    fn record_event(stream: &Self::Stream) -> Result<Self::Event>;
    /// Lets the stream wait for the event. Inside a capture this forks and joins.
    fn wait_event(stream: &Self::Stream, event: &Self::Event) -> Result<()>;

    /// Host to device, to byte `at` and those behind it; `src` may be reused on return. Refused while the stream
    /// captures.
    fn upload(stream: &Self::Stream, src: &[u8], dst: &Self::Buffer, at: usize) -> Result<()>;
    /// Device to host, from byte `at` on, as many as `dst` has; waits. Refused while the stream captures.
    fn download(stream: &Self::Stream, src: &Self::Buffer, at: usize, dst: &mut [u8]) -> Result<()>;
    /// Device to device: `bytes` bytes, from byte `src.1` on to byte `dst.1` on. The ranges must not overlap.
    fn copy(
        stream: &Self::Stream,
        src: (&Self::Buffer, usize),
        dst: (&Self::Buffer, usize),
        bytes: usize,
    ) -> Result<()>;
    /// Makes `bytes` bytes zero, from byte `at` on.
    fn zero(stream: &Self::Stream, dst: &Self::Buffer, at: usize, bytes: usize) -> Result<()>;

    /// The head of a graph: the first `bytes` bytes of the slot's block.
    fn upload_block(
        stream: &Self::Stream,
        src: &Self::Pinned,
        dst: &Self::Buffer,
        bytes: usize,
    ) -> Result<()>;
    /// The head of a graph: pads one device-side input by the real row count in the block's header.
    fn pad_rows(stream: &Self::Stream, pad: PadRows<'_, Self>) -> Result<()>;
    /// The tail of a graph: copies the sequence word at byte `src.1` of the block to byte `dst.1` of pinned memory,
    /// where the host reads it as an atomic `u32` to see that the graph is done.
    fn signal(stream: &Self::Stream, src: (&Self::Buffer, usize), dst: (&Self::Pinned, usize)) -> Result<()>;

    /// Waits until the word at byte `word.1` of pinned memory is `value`, which the tail of a graph on the stream will
    /// put there. By default it waits for the whole stream; a backend that can wait for less lets the host go on while
    /// later graphs run.
    fn await_signal(stream: &Self::Stream, _word: (&Self::Pinned, usize), _value: u32) -> Result<()> {
        Self::synchronize(stream)
    }

    /// Starts recording the stream.
    fn begin_capture(stream: &Self::Stream) -> Result<()>;
    /// Ends recording, on every path: after an error the stream is usable again.
    fn end_capture(stream: &Self::Stream) -> Result<Self::Captured>;
    /// Whether the stream records.
    fn is_capturing(stream: &Self::Stream) -> bool;
    /// Names of the recorded operations, in order, the head's and the tail's included.
    fn operations(captured: &Self::Captured) -> Vec<String>;
    /// How many operations this thread has issued on any stream of this device, executed or recorded. The audit of a
    /// capture compares the warm-up's number with the length of [`operations`](Backend::operations), so whatever is
    /// one entry there counts one here: that is how a launch on another stream is found.
    fn issued(&self) -> u64;
    /// Makes a capture executable.
    fn instantiate(&self, captured: Self::Captured) -> Result<Self::Graph>;
    /// Puts an executable on the device ahead of its first launch.
    fn upload_graph(graph: &Self::Graph, stream: &Self::Stream) -> Result<()>;
    /// Replays.
    fn launch(graph: &Self::Graph, stream: &Self::Stream) -> Result<()>;
}

/// The arguments of [`Backend::pad_rows`]: fill rows `[real, rows)`, where `real` is read on the device.
///
/// ```
/// use graph_core::{Backend, Pad, PadRows, Tensor};
/// use graph_host::Host;
///
/// let host = Host::new();
/// let stream = host.stream()?;
/// let rows = Tensor::from_slice(&host, &stream, &[1.0_f32, 2.0, 9.0, 9.0], [4])?;
/// let header = Tensor::from_slice(&host, &stream, &[2_u32], [1])?; // two of the four rows are real
/// let (buffer, header) = (rows.view().buffer(), header.view().buffer());
/// let pad = PadRows { buffer, offset: 0, row_bytes: 4, rows: 4, header, word: 0, pad: Pad::RepeatLast };
/// Host::pad_rows(&stream, pad)?;
/// assert_eq!(rows.to_vec(&stream)?, [1.0, 2.0, 2.0, 2.0]);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Debug)]
pub struct PadRows<'a, B: Backend> {
    /// The static buffer.
    pub buffer: &'a B::Buffer,
    /// Its first byte.
    pub offset: usize,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Rows of the bucket.
    pub rows: usize,
    /// The slot's block.
    pub header: &'a B::Buffer,
    /// The `u32` word of the block that holds the real row count.
    pub word: usize,
    /// What to fill with.
    pub pad: Pad,
}
