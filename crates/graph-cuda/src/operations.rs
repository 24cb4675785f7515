//! The operations that every backend has: copies, zeros, and the head and tail of a graph.

use std::sync::atomic::{AtomicU32, Ordering};

use graph_core::{PadRows, Result};

use crate::{
    Buffer, Cuda, Pinned, Stream, calls,
    capture::{HostEnd, Keep, Recorded},
    codes, issued, staging,
};

impl Stream {
    /// Host to device. `src` may be reused on return, whatever memory it is in: pageable memory would be read by the
    /// time the call returns, pinned memory would not, and a slice does not tell. So what is not staged is waited for.
    pub(crate) fn upload(&self, src: &[u8], dst: &Buffer, at: usize) -> Result<()> {
        let device = self.on();
        let to = dst.0.range("upload", device, at, src.len())?;
        device.may_wait("upload", Some(self))?;
        device.enter("upload")?;
        match src.len() {
            0 => return Ok(()),
            1..=staging::LONGEST => return self.upload_staged(src, to),
            _ => {}
        }
        // SAFETY: both ranges are valid for the bytes; `src` is until the stream has been waited for, below.
        let copied = unsafe { calls::copy_to_device(to, src.as_ptr().cast(), src.len(), self.raw_stream()) };
        self.finish("upload", copied)
    }

    /// Device to host, waited for.
    pub(crate) fn download(&self, src: &Buffer, at: usize, dst: &mut [u8]) -> Result<()> {
        let device = self.on();
        let from = src.0.range("download", device, at, dst.len())?;
        device.may_wait("download", Some(self))?;
        device.enter("download")?;
        if dst.is_empty() {
            return self.wait();
        }
        // SAFETY: both ranges are valid for the bytes; `dst` is until the stream has been waited for, below.
        let copied =
            unsafe { calls::copy_to_host(dst.as_mut_ptr().cast(), from, dst.len(), self.raw_stream()) };
        self.finish("download", copied)
    }

    /// Waits for a copy that uses memory of the caller. If the wait fails it is tried again, and if that fails the
    /// device is over: the copy may be in flight still, and the caller's memory cannot be held back.
    fn finish(&self, name: &'static str, copied: Result<(), calls::Failure>) -> Result<()> {
        let device = self.on();
        copied.map_err(|f| device.fail_with(f, format_args!("in `{name}`")))?;
        // SAFETY: the context is current, and the stream is alive.
        let wait = || unsafe { calls::stream_synchronize(self.raw_stream()) };
        if let Err(first) = wait() {
            if let Err(second) = wait() {
                device.ended.get_or_init(|| second);
            }
            return Err(device.fail_with(first, format_args!("in `{name}`")));
        }
        issued::bump(device.id);
        Ok(())
    }

    pub(crate) fn copy(&self, src: (&Buffer, usize), dst: (&Buffer, usize), bytes: usize) -> Result<()> {
        let device = self.on();
        let from = src.0.0.range("copy", device, src.1, bytes)?;
        let to = dst.0.0.range("copy", device, dst.1, bytes)?;
        if bytes == 0 {
            return device.enter("copy");
        }
        if from.abs_diff(to) < bytes as u64 {
            let detail =
                format_args!("bytes {}.. and {}.. of one buffer overlap within {bytes}", src.1, dst.1);
            return Err(codes::error("copy", codes::INVALID_VALUE, detail));
        }
        let keeps = || Recorded::uses([Keep::of(src.0), Keep::of(dst.0)]);
        // SAFETY: both ranges are memory of this device; a graph that records them keeps them alive, and memory in
        // flight is freed behind what uses it.
        self.issue("copy", keeps, |s| unsafe { calls::copy_on_device(to, from, bytes, s) })
    }

    pub(crate) fn zero(&self, dst: &Buffer, at: usize, bytes: usize) -> Result<()> {
        let to = dst.0.range("zero", self.on(), at, bytes)?;
        if bytes == 0 {
            return self.on().enter("zero");
        }
        // SAFETY: as in `copy`.
        self.issue(
            "zero",
            || Recorded::uses([Keep::of(dst)]),
            |s| unsafe { calls::set_bytes(to, 0, bytes, s) },
        )
    }

    pub(crate) fn upload_block(&self, src: &Pinned, dst: &Buffer, bytes: usize) -> Result<()> {
        let device = self.on();
        let from = src.0.range("upload_block", device, 0, bytes)?;
        let to = dst.0.range("upload_block", device, 0, bytes)?;
        let end = HostEnd { name: "upload_block", host: from.addr(), device: to, bytes };
        let keeps = || Recorded::between([Keep::of_pinned(src), Keep::of(dst)], end);
        // SAFETY: as in `copy`; pinned memory is freed only when no stream is busy.
        self.issue("upload_block", keeps, |s| unsafe { calls::copy_to_device(to, from, bytes, s) })
    }

    pub(crate) fn signal(&self, src: (&Buffer, usize), dst: (&Pinned, usize)) -> Result<()> {
        let device = self.on();
        let from = src.0.0.range("signal", device, src.1, 4)?;
        let to = dst.0.0.range("signal", device, dst.1, 4)?;
        if !(src.1.is_multiple_of(4) && dst.1.is_multiple_of(4)) {
            let detail = format_args!("bytes {} and {} are not aligned to 4", src.1, dst.1);
            return Err(codes::error("signal", codes::INVALID_VALUE, detail));
        }
        let end = HostEnd { name: "signal", host: to.addr(), device: from, bytes: 4 };
        let keeps = || Recorded::between([Keep::of(src.0), Keep::of_pinned(dst.0)], end);
        // SAFETY: as in `upload_block`. An aligned copy of four bytes reaches the host's memory as one store.
        self.issue("signal", keeps, |s| unsafe { calls::copy_to_host(to, from, 4, s) })
    }

    /// Waits for the word only: later work of the stream may be running when it returns. Between looks the driver is
    /// asked, which is how an error comes out, and how the wait ends if the word will never come.
    pub(crate) fn await_signal(&self, word: (&Pinned, usize), value: u32) -> Result<()> {
        /// Looks between two questions: some microseconds.
        const LOOKS: usize = 512;
        let device = self.on();
        let at = word.0.0.range("await_signal", device, word.1, 4)?;
        if !word.1.is_multiple_of(4) {
            let detail = format_args!("byte {} is not aligned to 4", word.1);
            return Err(codes::error("await_signal", codes::INVALID_VALUE, detail));
        }
        device.may_wait("await_signal", Some(self))?;
        device.enter("await_signal")?;
        // SAFETY: in bounds and aligned, and the memory lives as long as the handle. The device writes the word as one
        // store, and the host reads it atomically.
        let word = unsafe { AtomicU32::from_ptr(at.cast()) };
        loop {
            for _ in 0..LOOKS {
                if word.load(Ordering::Acquire) == value {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
            // SAFETY: the context is current, and the stream is alive.
            match unsafe { calls::stream_query(self.raw_stream()) } {
                Ok(()) => return Ok(()), // everything is done; whether the word is there the caller sees
                Err(f) if f.code == codes::NOT_READY => {}
                Err(f) => return Err(device.fail(f)),
            }
        }
    }

    pub(crate) fn pad(&self, pad: PadRows<'_, Cuda>) -> Result<()> {
        let device = self.on();
        let pads =
            device.pads.get().ok_or_else(|| codes::error("pad_rows", codes::NOT_FOUND, "no kernel"))?;
        let mut fill = pads.prepare(device, &pad)?;
        let keeps = || Recorded::uses([Keep::of(pad.buffer), Keep::of(pad.header)]);
        // SAFETY: the kernel's parameters are those that `prepare` made, which checked every range that it touches.
        self.issue("pad_rows", keeps, |s| unsafe { fill.launch(s) })
    }
}
