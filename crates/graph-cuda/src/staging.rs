//! Uploads that do not wait: what a caller hands over is copied to pinned memory of the stream, and each piece of that is
//! leased until the device has read it.

use std::{collections::VecDeque, sync::PoisonError};

use cudarc::driver::sys::CUdeviceptr;
use graph_core::Result;

use crate::{Pinned, Stream, calls, codes, issued, stream::Mark};

/// The longest upload that is staged; a longer one is waited for.
pub(crate) const LONGEST: usize = 64 << 10;
/// Pieces of a stream at the most. A host that is this many uploads ahead waits for the first of them.
const MOST: usize = 32;

/// The pieces of one stream, in the order of their last use.
#[derive(Default)]
pub(crate) struct Staging(VecDeque<Piece>);

/// Pinned memory, and the event behind the last upload from it.
struct Piece {
    memory: Pinned,
    read: Mark,
    /// Whether the event was recorded and has not been seen to have passed.
    leased: bool,
}

impl Stream {
    /// Uploads at most [`LONGEST`] bytes to an address that is valid for them. The caller's bytes are read on return;
    /// nobody waits, unless the host is [`MOST`] uploads ahead.
    pub(crate) fn upload_staged(&self, src: &[u8], to: CUdeviceptr) -> Result<()> {
        let device = self.on();
        let mut staging = self.0.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let piece = staging.lease(self)?;
        let from = piece.memory.0.range("upload", device, 0, src.len())?;
        // SAFETY: the piece has that many bytes, and the device has read what was in them.
        unsafe { from.cast::<u8>().copy_from_nonoverlapping(src.as_ptr(), src.len()) };
        // SAFETY: both ranges are valid for the bytes; the piece's memory is, until the event behind the copy has passed.
        let copied = unsafe { calls::copy_to_device(to, from, src.len(), self.raw_stream()) };
        if let Err(failure) = copied {
            staging.0.push_front(Piece { leased: false, ..piece });
            return Err(device.fail_with(failure, "in `upload`"));
        }
        // If this fails nothing says when the copy is over: the piece is dropped, and its memory is freed when the stream
        // has been waited for.
        // SAFETY: both handles are alive, of this context.
        unsafe { calls::event_record(piece.read.raw.raw(), self.raw_stream()) }
            .map_err(|f| device.fail_with(f, "in `upload`"))?;
        staging.0.push_back(Piece { leased: true, ..piece });
        issued::bump(device.id);
        Ok(())
    }
}

impl Staging {
    /// A piece that the device does not read any more: the one that was used first, or a new one.
    fn lease(&mut self, stream: &Stream) -> Result<Piece> {
        let device = stream.on();
        if let Some(first) = self.0.front() {
            let event = first.read.raw.raw();
            let passed = match first.leased {
                // SAFETY: the context is current, and the event is alive.
                true => unsafe { calls::event_query(event) },
                false => Ok(()),
            };
            let passed = match passed {
                Err(f) if f.code == codes::NOT_READY && self.0.len() < MOST => return Piece::new(stream),
                // SAFETY: as above.
                Err(f) if f.code == codes::NOT_READY => unsafe { calls::event_synchronize(event) },
                passed => passed,
            };
            if let Err(failure) = passed {
                // An event that cannot be asked would fail every later upload. The piece's memory is freed when the
                // stream has been waited for.
                self.0.pop_front();
                return Err(device.fail_with(failure, "in `upload`"));
            }
        }
        self.0.pop_front().map_or_else(|| Piece::new(stream), Ok)
    }
}

impl Piece {
    fn new(stream: &Stream) -> Result<Piece> {
        let (memory, read) = (stream.device().alloc_pinned_memory(LONGEST)?, stream.new_event()?);
        Ok(Piece { memory, read, leased: false })
    }
}
