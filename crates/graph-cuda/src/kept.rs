//! Device memory that was dropped and is kept for the next allocation.
//!
//! `cuMemFree` waits for the whole device, and an eager forward allocates and drops at every call. So what is dropped is
//! kept, up to a limit, and given to the next allocation that it fits. Work on it may be in flight at that moment: the
//! order of the device's only stream puts what the next owner does behind it. Where there is a second stream, nothing
//! is kept; before it comes, the first one is waited for if a block was given again.

use std::collections::BTreeMap;

use cudarc::driver::sys::CUdeviceptr;

use crate::{
    Cuda,
    control::{Control, Doomed},
    device::Device,
};

/// Larger blocks are freed when they are dropped: nobody drops them often.
const LARGEST: usize = 16 << 20;
/// The driver gives whole blocks of this size in any case.
const GRAIN: usize = 512;

/// Blocks by their size.
#[derive(Default)]
pub(crate) struct Kept {
    blocks: BTreeMap<usize, Vec<CUdeviceptr>>,
    bytes: usize,
    /// Whether a block was given again since the streams were waited for last: work of its old owner may be in flight.
    given: bool,
}

impl Kept {
    /// A block for that many bytes, or for up to a quarter more.
    fn take(&mut self, bytes: usize) -> Option<(CUdeviceptr, usize)> {
        let mut fitting = self.blocks.range_mut(bytes..=bytes.saturating_add(bytes / 4));
        let (size, pointer) = fitting.find_map(|(size, blocks)| Some((*size, blocks.pop()?)))?;
        self.bytes -= size;
        self.given = true;
        Some((pointer, size))
    }

    fn put(&mut self, pointer: CUdeviceptr, bytes: usize) {
        self.blocks.entry(bytes).or_default().push(pointer);
        self.bytes += bytes;
    }

    /// Whether work on a block that is kept, or was given again, may be in flight.
    pub(crate) fn may_be_in_use(&self) -> bool {
        self.given || self.bytes > 0
    }

    /// The streams were waited for.
    pub(crate) fn waited(&mut self) {
        self.given = false;
    }

    /// All of it, to be freed.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Doomed> + use<> {
        self.bytes = 0;
        let all = std::mem::take(&mut self.blocks).into_iter();
        all.flat_map(|(bytes, blocks)| {
            blocks.into_iter().map(move |pointer| Doomed::Memory { pointer, bytes })
        })
    }
}

impl Cuda {
    /// Gives dropped device memory that is kept back to the driver, unless a capture runs: for code beside this crate
    /// that needs memory.
    pub fn free_kept(&self) {
        self.0.free_kept();
    }

    /// Bytes of dropped device memory that wait for an allocation; see
    /// [`CudaOptions::keep_memory`](crate::CudaOptions::keep_memory).
    pub fn kept_bytes(&self) -> usize {
        self.0.control().kept.bytes
    }
}

impl Device {
    /// What is asked of the driver for an allocation. Where blocks are kept, small ones of different sizes are alike.
    pub(crate) fn block_bytes(&self, bytes: usize) -> usize {
        match self.options.keep_memory {
            0 => bytes.max(1),
            _ => bytes.max(1).checked_next_multiple_of(GRAIN).unwrap_or(bytes),
        }
    }

    /// A kept block, with its size.
    pub(crate) fn take_kept(&self, bytes: usize) -> Option<(CUdeviceptr, usize)> {
        self.control().kept.take(bytes)
    }

    /// Keeps a block that nobody has a handle of any more, if it may: `false` where it must be freed.
    pub(crate) fn keep(&self, control: &mut Control, doomed: Doomed) -> bool {
        let Doomed::Memory { pointer, bytes } = doomed else { return false };
        let room = self.options.keep_memory.saturating_sub(control.kept.bytes);
        let may = bytes <= LARGEST.min(room) && control.streams() <= 1 && self.ended.get().is_none();
        if may {
            control.kept.put(pointer, bytes);
        }
        may
    }
}
