//! The way out: blocks of calls that this crate does not check, on cudarc's own types.

use std::{
    ptr::null_mut,
    sync::{Arc, PoisonError},
};

use cudarc::driver::{CudaContext, CudaStream, DriverError};
use graph_core::{Error, Result};

use crate::{
    Buffer, Stream, audit,
    calls::{self, Failure},
    capture::{Keep, RawBlock},
    codes,
    device::Device,
    issued,
};

/// An error of a raw block: the framework's own, or cudarc's. Others go through [`Error::plugin`].
///
/// ```no_run
/// use graph_core::{Error, Result};
/// use graph_cuda::{RawError, Stream, cudarc::driver::DriverError};
///
/// // A library's own error next to the driver's.
/// enum BlasError {
///     Driver(DriverError),
///     Status(i32),
/// }
///
/// impl RawError for BlasError {
///     fn of_block(self, name: &str) -> Error {
///         match self {
///             BlasError::Driver(error) => error.of_block(name),
///             BlasError::Status(status) => Error::plugin(format!("`{name}`: status {status}")),
///         }
///     }
/// }
///
/// fn gemm(stream: &Stream) -> Result<()> {
///     // SAFETY: (what the block enqueues, and the memory that it names)
///     unsafe { stream.raw("gemm", |_stream| Err(BlasError::Status(7))) }
/// }
/// ```
pub trait RawError {
    /// The error of the block of that name.
    fn of_block(self, name: &str) -> Error;
}

impl RawError for Error {
    fn of_block(self, _: &str) -> Error {
        self
    }
}

impl RawError for DriverError {
    fn of_block(self, name: &str) -> Error {
        codes::error(format!("raw block `{name}`"), self.0 as u32, "")
    }
}

impl Stream {
    /// Runs a block of calls that nobody checks, on cudarc's type of this stream: cuBLAS, kernels of other crates, FFI.
    ///
    /// While the stream captures, what the block launches on it is recorded. The block counts as one operation, and must
    /// be one: a block that launches nothing on this stream while it captures fails the comparison with the warm-up,
    /// which is how a launch on another stream is found. Its name is listed as unchecked
    /// ([`Graph::unchecked`](crate::Graph::unchecked), and `raw: NAME` among a graph's operations).
    ///
    /// The context's event tracking is off. What cudarc cannot return and parks in the context is an error of the block.
    ///
    /// # Errors
    /// What the block returns; the first block on a device, inside a capture (cudarc's context is made then).
    ///
    /// # Safety
    /// Whoever writes the block answers for all that it enqueues:
    /// - It stays within memory that is alive when it runs, at every replay too: a graph keeps nothing of a block alive
    ///   but what [`keep`](Stream::keep) names and the modules of [`Function`](crate::Function)s. Libraries'
    ///   workspaces are such memory.
    /// - It does not begin or end captures, and leaves no wait for work from before the capture in it.
    /// - It leaves the thread's current context as it was, and keeps neither the stream nor its context beyond the
    ///   block, unless something on this device outlives them.
    pub unsafe fn raw<T, E: RawError>(
        &self,
        name: &'static str,
        block: impl FnOnce(&Arc<CudaStream>) -> Result<T, E>,
    ) -> Result<T> {
        let device = self.on();
        device.enter_surely(name)?;
        let lent = self.lend()?;
        let before = self.is_recording().then(|| self.recorded_nodes()).transpose()?;
        let outcome = {
            let _unbind = Unbind; // after a panic too
            block(&lent)
        };
        if let Some(before) = before {
            device.enter(name)?;
            let mut nodes = self.recorded_nodes()?;
            nodes.retain(|node| !before.contains(node));
            self.note(|notes| notes.raw.push(RawBlock { name, nodes }));
        }
        let value = outcome.map_err(|e| e.of_block(name))?;
        if let Err(parked) = lent.context().check_err() {
            let failure = Failure { call: "a call in a raw block", code: parked.0 as u32 };
            return Err(device.fail_with(failure, format_args!("in `{name}`")));
        }
        issued::bump(device.id);
        Ok(value)
    }

    /// Keeps memory alive as long as the graph that this stream records; does nothing while it records none. For
    /// addresses that [`raw`](Stream::raw) blocks pass on.
    pub fn keep(&self, buffer: &Buffer) {
        self.note(|notes| notes.keep(Keep::of(buffer)));
    }

    /// The nodes that the running capture has recorded so far.
    fn recorded_nodes(&self) -> Result<Vec<cudarc::driver::sys::CUgraphNode>> {
        let (device, none) = (self.on(), null_mut());
        let (mut status, mut graph, stream) = (0_u32, null_mut(), self.raw_stream());
        // SAFETY: the stream is alive; the status is a C enum of this size, and what is not wanted may be null.
        unsafe {
            let status = (&raw mut status).cast();
            calls::capture_info(stream, status, null_mut(), &raw mut graph, null_mut(), null_mut(), none)
        }
        .map_err(|f| device.fail(f))?;
        if status != 1 || graph.is_null() {
            let failure =
                Failure { call: "cuStreamGetCaptureInfo_v3", code: codes::STREAM_CAPTURE_INVALIDATED };
            return Err(device.fail(failure));
        }
        // SAFETY: the graph of a capture may be read while it grows.
        unsafe { audit::nodes(graph) }.map_err(|f| device.fail(f))
    }

    fn lend(&self) -> Result<Arc<CudaStream>> {
        if let Some(lent) = self.0.lent.get() {
            return Ok(lent.clone());
        }
        let context = self.on().lend()?;
        // SAFETY: the stream is of this context and is destroyed after the last use of this value that the rules of
        // `raw` allow.
        let lent = unsafe { context.wrap_borrowed_stream(self.raw_stream()) };
        Ok(self.0.lent.get_or_init(|| lent).clone())
    }
}

struct Unbind;

impl Drop for Unbind {
    fn drop(&mut self) {
        Device::unbound();
    }
}

impl Device {
    /// cudarc's type of this context, with a reference of its own to the primary context.
    fn lend(&self) -> Result<Arc<CudaContext>> {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = &*lent {
            return Ok(context.clone());
        }
        self.may_wait("the first raw block of the device", None)?;
        let context = CudaContext::new(self.ordinal()).map_err(|e| {
            let failure = Failure { call: "CudaContext::new", code: e.0 as u32 };
            self.cudarc_kept(failure);
            self.fail(failure)
        })?;
        // SAFETY: every stream here is ordered by its user, and cudarc's slices are the raw blocks' to order.
        unsafe { context.disable_event_tracking() };
        Ok(lent.insert(context).clone())
    }

    /// Takes note of errors that cudarc parked in its context: one there would make the next call through cudarc return
    /// at once, such as the end of a capture.
    pub(crate) fn drain(&self) {
        let lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(parked)) = lent.as_ref().map(|context| context.check_err()) {
            self.note(Failure { call: "a call in a raw block", code: parked.0 as u32 });
        }
    }

    /// Takes cudarc's reference to the primary context over, to be given back by the caller; `false` where there is
    /// none, or where a raw block's author has kept it.
    pub(crate) fn take_lent(&mut self) -> bool {
        let lent = self.lent.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        match lent.map(Arc::try_unwrap) {
            Some(Ok(context)) => {
                // Its drop would give the reference back and swallow a failure.
                std::mem::forget(context);
                true
            }
            Some(Err(_)) | None => false,
        }
    }
}
