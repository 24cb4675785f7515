//! `Backend` for `Host`: each call of the trait, one line each.

use std::ptr::NonNull;

use graph_core::{Backend, PadRows, Result};

use crate::{Buffer, Captured, Event, Graph, Host, Pinned, Stream, hooks::Call, issued};

// SAFETY: pinned memory is a zeroed block of the system allocator with an alignment of 256, freed with its last handle;
// graphs hold handles of all that they use. Operations run before the call that issues them returns, under the device's
// turn, on the ranges that they declare; `signal` stores its word atomically, after the operations before it.
unsafe impl Backend for Host {
    const NAME: &'static str = "host";
    type Buffer = Buffer;
    type Pinned = Pinned;
    type Stream = Stream;
    type Event = Event;
    type Captured = Captured;
    type Graph = Graph;

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        self.0.memory(Call::Alloc, bytes).map(Buffer)
    }
    fn buffer_bytes(buffer: &Buffer) -> usize {
        buffer.0.bytes()
    }
    fn alloc_pinned(&self, bytes: usize) -> Result<Pinned> {
        self.0.memory(Call::AllocPinned, bytes).map(Pinned)
    }
    fn pinned_bytes(pinned: &Pinned) -> NonNull<[u8]> {
        pinned.raw()
    }

    fn stream(&self) -> Result<Stream> {
        self.0.enter(Call::Stream, Call::Stream.name())?;
        Ok(Stream::new(self))
    }
    fn synchronize(stream: &Stream) -> Result<()> {
        stream.device().enter(Call::Synchronize, Call::Synchronize.name())?;
        stream.device().not_capturing(Call::Synchronize.name(), Some(stream))?;
        stream.host_waits()
    }
    fn record_event(stream: &Stream) -> Result<Event> {
        stream.record_event()
    }
    fn wait_event(stream: &Stream, event: &Event) -> Result<()> {
        stream.wait_event(event)
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
        stream.pad_rows(pad)
    }
    fn signal(stream: &Stream, src: (&Buffer, usize), dst: (&Pinned, usize)) -> Result<()> {
        stream.signal(src, dst)
    }

    fn await_signal(stream: &Stream, word: (&Pinned, usize), value: u32) -> Result<()> {
        stream.device().enter(Call::Synchronize, Call::Synchronize.name())?;
        stream.device().not_capturing(Call::Synchronize.name(), Some(stream))?;
        stream.device().host_awaits(word.0, word.1, value)
    }

    fn begin_capture(stream: &Stream) -> Result<()> {
        stream.begin_capture()
    }
    fn end_capture(stream: &Stream) -> Result<Captured> {
        stream.end_capture()
    }
    fn is_capturing(stream: &Stream) -> bool {
        stream.is_capturing()
    }
    fn operations(captured: &Captured) -> Vec<String> {
        captured.nodes.iter().map(|node| node.label.name.into()).collect()
    }
    fn issued(&self) -> u64 {
        issued::count(&self.0)
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
