//! `Backend` for `Cuda`: each call of the trait, one line each.

use std::ptr::NonNull;

use graph_core::{Backend, PadRows, Result};

use crate::{Buffer, Captured, Cuda, Event, Graph, Pinned, Stream, issued};

// SAFETY: pinned memory is page-locked memory of the driver, zeroed, aligned to pages, freed when its last handle is
// gone (graphs hold handles) and every stream of the device was waited for. `upload` and `download` wait for their copy;
// `upload_block` copies `bytes` bytes; `signal` copies four aligned bytes, which the driver's order puts behind the
// operations before it. `synchronize` is the driver's. A graph holds handles of all memory that checked operations
// recorded; what raw blocks record is their authors' promise.
unsafe impl Backend for Cuda {
    const NAME: &'static str = "cuda";
    type Buffer = Buffer;
    type Pinned = Pinned;
    type Stream = Stream;
    type Event = Event;
    type Captured = Captured;
    type Graph = Graph;

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        self.alloc_buffer(bytes)
    }
    fn buffer_bytes(buffer: &Buffer) -> usize {
        buffer.bytes()
    }
    fn alloc_pinned(&self, bytes: usize) -> Result<Pinned> {
        self.alloc_pinned_memory(bytes)
    }
    #[inline]
    fn pinned_bytes(pinned: &Pinned) -> NonNull<[u8]> {
        pinned.0.raw()
    }

    fn stream(&self) -> Result<Stream> {
        Stream::new(self)
    }
    fn synchronize(stream: &Stream) -> Result<()> {
        stream.wait()
    }
    fn record_event(stream: &Stream) -> Result<Event> {
        stream.mark()
    }
    fn wait_event(stream: &Stream, event: &Event) -> Result<()> {
        stream.wait_for(event)
    }

    fn upload(stream: &Stream, src: &[u8], dst: &Buffer, at: usize) -> Result<()> {
        stream.upload(src, dst, at)
    }
    fn download(stream: &Stream, src: &Buffer, at: usize, dst: &mut [u8]) -> Result<()> {
        stream.download(src, at, dst)
    }
    fn copy(stream: &Stream, src: (&Buffer, usize), dst: (&Buffer, usize), bytes: usize) -> Result<()> {
        stream.copy(src, dst, bytes)
    }
    fn zero(stream: &Stream, dst: &Buffer, at: usize, bytes: usize) -> Result<()> {
        stream.zero(dst, at, bytes)
    }

    fn upload_block(stream: &Stream, src: &Pinned, dst: &Buffer, bytes: usize) -> Result<()> {
        stream.upload_block(src, dst, bytes)
    }
    fn pad_rows(stream: &Stream, pad: PadRows<'_, Self>) -> Result<()> {
        stream.pad(pad)
    }
    fn signal(stream: &Stream, src: (&Buffer, usize), dst: (&Pinned, usize)) -> Result<()> {
        stream.signal(src, dst)
    }
    fn await_signal(stream: &Stream, word: (&Pinned, usize), value: u32) -> Result<()> {
        stream.await_signal(word, value)
    }

    fn begin_capture(stream: &Stream) -> Result<()> {
        stream.begin()
    }
    fn end_capture(stream: &Stream) -> Result<Captured> {
        stream.end()
    }
    #[inline]
    fn is_capturing(stream: &Stream) -> bool {
        stream.is_recording()
    }
    fn operations(captured: &Captured) -> Vec<String> {
        captured.operations.clone()
    }
    fn issued(&self) -> u64 {
        issued::count(self.0.id)
    }
    fn instantiate(&self, captured: Captured) -> Result<Graph> {
        self.instantiate_graph(captured)
    }
    fn upload_graph(graph: &Graph, stream: &Stream) -> Result<()> {
        stream.upload_graph(graph)
    }
    #[inline]
    fn launch(graph: &Graph, stream: &Stream) -> Result<()> {
        stream.launch(graph)
    }
}
