//! Device memory and pinned memory, and the ranges that operations name.
//!
//! Device memory comes from `cuMemAlloc`, whose counterpart waits for everything that runs on the device: a buffer that
//! is dropped while work on it is in flight is freed after that work, or kept for the next one (`kept.rs`). Pinned memory has no such promise, so its streams
//! are waited for first (`control.rs`).

use std::{
    ffi::c_void,
    fmt,
    ptr::{NonNull, null_mut},
    sync::Arc,
};

use cudarc::driver::sys::CUdeviceptr;
use graph_core::{ErrorKind, Result};

use crate::{Cuda, calls, codes, control::Doomed, device::Device, handle::Handle};

/// Device memory. Clones share it; it is freed when the last handle and the last graph that recorded it are gone.
///
/// ```no_run
/// use graph_core::{Backend, Tensor};
/// use graph_cuda::Cuda;
///
/// let cuda = Cuda::new(0)?;
/// let stream = cuda.stream()?;
/// let x = Tensor::from_slice(&cuda, &stream, &[1.0_f32, 2.0], [2])?;
/// let view = x.view();
/// assert!(view.buffer().bytes() >= 8);
/// // For code that this crate does not check: the number says nothing about how long the memory lives.
/// let address = view.buffer().device_ptr() + view.offset() as u64;
/// # let _ = address;
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Buffer(pub(crate) Arc<Memory>);

/// Page-locked host memory, which the device reads and writes. Clones share it.
///
/// ```no_run
/// use graph_core::Backend;
/// use graph_cuda::Cuda;
///
/// let cuda = Cuda::new(0)?;
/// let stream = cuda.stream()?;
/// let (block, copy) = (cuda.alloc_pinned(16)?, cuda.alloc(16)?);
/// Cuda::upload_block(&stream, &block, &copy, 16)?; // later, in the stream's order
/// drop(block); // it lives until the stream has been waited for
/// Cuda::synchronize(&stream)?;
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Pinned(pub(crate) Arc<PinnedMemory>);

pub(crate) struct Memory {
    device: Arc<Device>,
    pointer: CUdeviceptr,
    bytes: usize,
    /// The bytes of the driver's block, which may be some more.
    held: usize,
}

pub(crate) struct PinnedMemory {
    device: Arc<Device>,
    pointer: Handle<c_void>,
    bytes: usize,
}

impl Buffer {
    /// Its address on the device, for code that this crate does not check: see [`Stream::raw`](crate::Stream::raw).
    pub fn device_ptr(&self) -> CUdeviceptr {
        self.0.pointer
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:#x}, {} bytes)", self.0.pointer, self.0.bytes)
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({:?}, {} bytes)", self.0.pointer.raw(), self.0.bytes)
    }
}

impl Cuda {
    pub(crate) fn alloc_buffer(&self, bytes: usize) -> Result<Buffer> {
        self.0.may_wait("alloc", None)?;
        let device = &self.0;
        device.enter("alloc")?;
        let held = device.block_bytes(bytes);
        if let Some((pointer, held)) = device.take_kept(held) {
            return Ok(Buffer(Arc::new(Memory { device: device.clone(), pointer, bytes, held })));
        }
        device.enter_surely("alloc")?;
        let mut pointer = 0;
        // SAFETY: the context is current, and the pointer is valid for the write.
        let mut alloc = || unsafe { calls::mem_alloc(&raw mut pointer, held) };
        let allocated = alloc().or_else(|f| if device.makes_room(f) { alloc() } else { Err(f) });
        allocated.map_err(|f| match f.code {
            codes::OUT_OF_MEMORY => device.fail_with(f, device.out_of_memory(bytes)),
            _ => device.fail_with(f, format_args!("{bytes} bytes")),
        })?;
        Ok(Buffer(Arc::new(Memory { device: device.clone(), pointer, bytes, held })))
    }

    pub(crate) fn alloc_pinned_memory(&self, bytes: usize) -> Result<Pinned> {
        self.0.may_wait("alloc_pinned", None)?;
        self.0.enter_surely("alloc_pinned")?;
        let mut pointer: *mut c_void = null_mut();
        // SAFETY: the context is current, and the pointer is valid for the write. Page-locked memory is aligned to pages.
        unsafe { calls::host_alloc(&raw mut pointer, bytes.max(16), 0) }
            .map_err(|f| self.0.fail_with(f, format_args!("{bytes} bytes of pinned memory")))?;
        // SAFETY: the block has at least this many bytes, and nobody else knows it yet.
        unsafe { pointer.cast::<u8>().write_bytes(0, bytes.max(16)) };
        Ok(Pinned(Arc::new(PinnedMemory { device: self.0.clone(), pointer: Handle::new(pointer), bytes })))
    }
}

impl Device {
    #[cold]
    fn out_of_memory(&self, bytes: usize) -> String {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the context is current, and the pointers are valid for the writes.
        match unsafe { calls::mem_info(&raw mut free, &raw mut total) } {
            Ok(()) => format!("{bytes} bytes asked for, {free} of {total} free"),
            Err(_) => format!("{bytes} bytes asked for"),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.device.discard(Doomed::Memory { pointer: self.pointer, bytes: self.held });
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        self.device.discard(Doomed::Pinned { pointer: self.pointer, bytes: self.bytes });
    }
}

impl Memory {
    /// The address of `len` bytes from byte `at`, of memory of this device.
    #[inline]
    pub(crate) fn range(
        &self,
        what: &'static str,
        device: &Device,
        at: usize,
        len: usize,
    ) -> Result<CUdeviceptr> {
        if self.device.id != device.id {
            return Err(foreign(what, "buffer"));
        }
        check_range(what, at, len, self.bytes)?;
        Ok(self.pointer + at as u64)
    }
}

impl PinnedMemory {
    /// The block.
    pub(crate) fn raw(&self) -> NonNull<[u8]> {
        // The driver gave memory, so the address is not null.
        let start = NonNull::new(self.pointer.raw().cast::<u8>()).unwrap_or(NonNull::dangling());
        NonNull::slice_from_raw_parts(start, self.bytes)
    }

    /// The address of `len` bytes from byte `at`, of memory of this device.
    #[inline]
    pub(crate) fn range(
        &self,
        what: &'static str,
        device: &Device,
        at: usize,
        len: usize,
    ) -> Result<*mut c_void> {
        if self.device.id != device.id {
            return Err(foreign(what, "pinned memory"));
        }
        check_range(what, at, len, self.bytes)?;
        // SAFETY: `at` is at most the block's size.
        Ok(unsafe { self.pointer.raw().cast::<u8>().add(at) }.cast())
    }
}

#[inline]
fn check_range(what: &'static str, from: usize, len: usize, bytes: usize) -> Result<()> {
    match from.checked_add(len) {
        Some(to) if to <= bytes => Ok(()),
        to => Err(ErrorKind::OutOfBounds { what, from, to: to.unwrap_or(usize::MAX), bytes }.into()),
    }
}

/// The error of a handle of another device.
#[cold]
pub(crate) fn foreign(call: &str, what: &str) -> graph_core::Error {
    codes::error(call, codes::INVALID_HANDLE, format_args!("the {what} is of another device"))
}
