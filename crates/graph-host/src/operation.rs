//! The operations that every backend has: copies, zeros, and the head and tail of a graph.

use graph_core::{Pad, PadRows, Result};

use crate::{
    Buffer, Host, Pinned, Stream, codes,
    hooks::Call,
    issued,
    kernel::Label,
    memory::{Launch, ReadSpans, Span, Word, WriteSpans},
    turn::Turn,
};

impl Stream {
    /// Host to device, now: pageable memory is gone when a graph replays.
    pub(crate) fn upload(&self, src: &[u8], dst: &Buffer, at: usize) -> Result<()> {
        self.now(Call::Upload, (), (Span::new("upload", &dst.0, at, src.len())?,), |(), (dst,)| {
            dst.copy_from_slice(src);
        })
    }

    /// Device to host, now; the host waits.
    pub(crate) fn download(&self, src: &Buffer, at: usize, dst: &mut [u8]) -> Result<()> {
        self.now(Call::Download, (Span::new("download", &src.0, at, dst.len())?,), (), |(src,), ()| {
            dst.copy_from_slice(src);
        })?;
        self.host_waits()
    }

    pub(crate) fn copy(&self, src: (&Buffer, usize), dst: (&Buffer, usize), bytes: usize) -> Result<()> {
        let src = Span::<u8>::new("copy", &src.0.0, src.1, bytes)?;
        let dst = Span::<u8>::new("copy", &dst.0.0, dst.1, bytes)?;
        self.issue(Call::Copy, (src,), (dst,), |(src,), (dst,)| dst.copy_from_slice(src))
    }

    pub(crate) fn zero(&self, dst: &Buffer, at: usize, bytes: usize) -> Result<()> {
        let dst = Span::<u8>::new("zero", &dst.0, at, bytes)?;
        self.issue(Call::Zero, (), (dst,), |(), (dst,)| dst.fill(0))
    }

    pub(crate) fn upload_block(&self, src: &Pinned, dst: &Buffer, bytes: usize) -> Result<()> {
        let src = Span::<u8>::new("upload_block", &src.0, 0, bytes)?;
        let dst = Span::<u8>::new("upload_block", &dst.0, 0, bytes)?;
        self.issue(Call::UploadBlock, (src,), (dst,), |(src,), (dst,)| dst.copy_from_slice(src))
    }

    pub(crate) fn pad_rows(&self, pad: PadRows<'_, Host>) -> Result<()> {
        let PadRows { buffer, offset, row_bytes, rows, header, word, pad } = pad;
        let bytes = rows.saturating_mul(row_bytes);
        let header = Span::<u32>::new("pad_rows", &header.0, word.saturating_mul(4), 1)?;
        let dst = Span::<u8>::new("pad_rows", &buffer.0, offset, bytes)?;
        self.issue(Call::PadRows, (header,), (dst,), move |(header,), (dst,)| {
            let real = header.first().map_or(0, |real| *real as usize).min(rows);
            fill(dst, real * row_bytes, row_bytes, pad);
        })
    }

    pub(crate) fn signal(&self, src: (&Buffer, usize), dst: (&Pinned, usize)) -> Result<()> {
        let src = Span::<u32>::new("signal", &src.0.0, src.1, 1)?;
        let word = Word::new("signal", dst.0, dst.1)?;
        if dst.0.0.device_id() != self.device().gate.id() {
            return Err(codes::error("signal", codes::INVALID_HANDLE, "write 0 is memory of another device"));
        }
        let launch = Launch::new("signal", self.device(), (src,), ())?;
        self.submit(Call::Signal, Label::new("signal"), move |turn: &mut Turn<'_>| {
            let mut value = None;
            launch.run(turn, |(src,), ()| value = src.first().copied());
            if let Some(value) = value
                && !word.postponed(value)
            {
                word.store(turn, value);
            }
        })
    }

    /// The host waits for the end of the stream on the virtual clock.
    pub(crate) fn host_waits(&self) -> Result<()> {
        self.device().host_waits(self.0.clock.load(std::sync::atomic::Ordering::Relaxed))
    }

    /// An operation that may be recorded.
    fn issue<R: ReadSpans, W: WriteSpans>(
        &self,
        call: Call,
        reads: R,
        writes: W,
        body: impl for<'s> Fn(R::Slices<'s>, W::Slices<'s>) + Send + 'static,
    ) -> Result<()> {
        let launch = Launch::new(call.name(), self.device(), reads, writes)?;
        self.submit(call, Label::new(call.name()), move |turn: &mut Turn<'_>| launch.run(turn, &body))
    }

    /// An operation that may not.
    fn now<R: ReadSpans, W: WriteSpans>(
        &self,
        call: Call,
        reads: R,
        writes: W,
        body: impl for<'s> FnOnce(R::Slices<'s>, W::Slices<'s>),
    ) -> Result<()> {
        self.device().enter(call, call.name())?;
        self.device().not_capturing(call.name(), Some(self))?;
        let launch = Launch::new(call.name(), self.device(), reads, writes)?;
        self.execute(Label::new(call.name()), |turn| launch.run(turn, body))?;
        issued::bump(self.device());
        Ok(())
    }
}

/// Fills what lies behind byte `real` of whole rows.
fn fill(rows: &mut [u8], real: usize, row_bytes: usize, pad: Pad) {
    let (filled, rest) = rows.split_at_mut(real);
    match pad {
        Pad::RepeatLast if real > 0 => {
            let last = &filled[real - row_bytes..];
            rest.chunks_exact_mut(row_bytes).for_each(|row| row.copy_from_slice(last));
        }
        Pad::Zero | Pad::RepeatLast => rest.fill(0),
        Pad::Value(value) => {
            let value = value.bytes();
            rest.chunks_exact_mut(value.len()).for_each(|element| element.copy_from_slice(value));
        }
    }
}
