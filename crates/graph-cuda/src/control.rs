//! Destruction: at once, or put aside while a capture runs (invariant 14), and tried again where the driver refuses.
//!
//! Nothing is destroyed while a capture runs on the device, nor on a thread that captures on any device: both are
//! decided under one lock, which the begin of a capture takes too. Nothing that an author wrote runs under that lock.

use std::{
    cell::RefCell,
    ffi::c_void,
    fmt,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use cudarc::driver::sys::{CUdeviceptr, CUevent_st, CUgraph_st, CUgraphExec_st, CUmod_st, CUstream_st};

use crate::{
    calls::{self, Failure},
    capture::Capture,
    codes,
    device::Device,
    handle::Handle,
    kept::Kept,
};

/// Captures, and what waits to be destroyed.
#[derive(Default)]
pub(crate) struct Control {
    pub(crate) captures: Vec<Capture>,
    /// Dropped while a capture ran.
    aside: Vec<Doomed>,
    aside_ever: usize,
    /// The driver has refused to destroy them.
    stuck: Vec<(Doomed, Failure)>,
    /// Streams that are not destroyed.
    streams: Vec<Handle<CUstream_st>>,
    pub(crate) kept: Kept,
}

/// Something to destroy.
#[derive(Clone, Copy)]
pub(crate) enum Doomed {
    Memory {
        pointer: CUdeviceptr,
        bytes: usize,
    },
    Pinned {
        pointer: Handle<c_void>,
        bytes: usize,
    },
    Stream(Handle<CUstream_st>),
    Event(Handle<CUevent_st>),
    Captured(Handle<CUgraph_st>),
    Exec(Handle<CUgraphExec_st>),
    Module(Handle<CUmod_st>),
    /// A reference to the device's primary context.
    Context(i32),
}

/// Something that could not be freed or destroyed: what [`Cuda::leaked`](crate::Cuda::leaked) lists.
///
/// ```
/// // At the end of a program: what no second try could free.
/// for leak in graph_cuda::lost() {
///     eprintln!("{leak}"); // such as `memory of 4096 bytes: cuMemFree_v2 failed: CUDA_ERROR_INVALID_VALUE (1)`
/// }
/// assert!(graph_cuda::lost().is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leak {
    /// What it is: `memory`, `pinned memory`, `stream`, `event`, `captured graph`, `graph`, `module`, `context`.
    pub what: &'static str,
    /// Its bytes, where it has a size.
    pub bytes: usize,
    /// The call that failed.
    pub call: &'static str,
    /// The driver's code.
    pub code: u32,
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Leak { what, bytes, call, code } = self;
        let size = if *bytes > 0 { format!(" of {bytes} bytes") } else { String::new() };
        write!(f, "{what}{size}: {call} failed: {} ({code})", codes::name(*code))
    }
}

static LOST: Mutex<Vec<Leak>> = Mutex::new(Vec::new());

/// What devices that have ended could not free: gone until the process ends, or until the primary context is released
/// by whoever else holds it.
pub fn lost() -> Vec<Leak> {
    LOST.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

thread_local! {
    /// Captures that this thread began, on any device; each is set when it is over.
    static CAPTURES: RefCell<Vec<Arc<AtomicBool>>> = const { RefCell::new(Vec::new()) };
    /// Devices with things put aside because of them.
    static LATER: RefCell<Vec<Weak<Device>>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread captures, on any device.
pub(crate) fn thread_captures() -> bool {
    // A thread that ends has no captures any more, and drops what its other locals hold.
    let any = CAPTURES.try_with(|captures| {
        let mut captures = captures.borrow_mut();
        captures.retain(|over| !over.load(Ordering::Acquire));
        !captures.is_empty()
    });
    any.unwrap_or(false)
}

pub(crate) fn thread_begins(over: Arc<AtomicBool>) {
    CAPTURES.with_borrow_mut(|captures| captures.push(over));
}

/// After the end of a capture, without any lock.
pub(crate) fn thread_ends() {
    if !thread_captures() {
        let due = LATER.take();
        due.iter().filter_map(Weak::upgrade).for_each(|device| device.settle());
    }
}

impl Doomed {
    fn named(&self) -> (&'static str, usize) {
        match self {
            Doomed::Memory { bytes, .. } => ("memory", *bytes),
            Doomed::Pinned { bytes, .. } => ("pinned memory", *bytes),
            Doomed::Stream(_) => ("stream", 0),
            Doomed::Event(_) => ("event", 0),
            Doomed::Captured(_) => ("captured graph", 0),
            Doomed::Exec(_) => ("graph", 0),
            Doomed::Module(_) => ("module", 0),
            Doomed::Context(_) => ("context", 0),
        }
    }

    /// Whether the driver does not itself wait for work that uses it. (`cuMemFree` does.)
    fn may_be_in_use(&self) -> bool {
        matches!(self, Doomed::Pinned { .. } | Doomed::Stream(_) | Doomed::Exec(_) | Doomed::Module(_))
    }

    /// # Safety
    /// Its context is current, the handle is alive, nobody else has it, and no work that uses it is in flight where
    /// that matters.
    unsafe fn destroy(self) -> Result<(), Failure> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Doomed::Memory { pointer, .. } => calls::mem_free(pointer),
                Doomed::Pinned { pointer, .. } => calls::host_free(pointer.raw()),
                Doomed::Stream(stream) => calls::stream_destroy(stream.raw()),
                Doomed::Event(event) => calls::event_destroy(event.raw()),
                Doomed::Captured(graph) => calls::graph_destroy(graph.raw()),
                Doomed::Exec(exec) => calls::exec_destroy(exec.raw()),
                Doomed::Module(module) => calls::module_unload(module.raw()),
                Doomed::Context(device) => calls::context_release(device),
            }
        }
    }
}

impl Control {
    pub(crate) fn leaks(&self) -> Vec<Leak> {
        self.stuck.iter().map(|(doomed, failure)| leak(doomed, *failure)).collect()
    }

    pub(crate) fn put_aside(&self) -> usize {
        self.aside.len()
    }

    pub(crate) fn put_aside_ever(&self) -> usize {
        self.aside_ever
    }

    /// Streams that may have work in flight: those that the driver has not destroyed.
    pub(crate) fn streams(&self) -> usize {
        self.streams.len()
    }
}

impl Device {
    /// cudarc has failed to make a context and does not say whether it gave the driver's back.
    pub(crate) fn cudarc_kept(&self, failure: Failure) {
        let Failure { call, code } = failure;
        let may = Leak { what: "context", bytes: 0, call, code };
        LOST.lock().unwrap_or_else(PoisonError::into_inner).push(may);
    }
}

fn leak(doomed: &Doomed, failure: Failure) -> Leak {
    let (what, bytes) = doomed.named();
    Leak { what, bytes, call: failure.call, code: failure.code }
}

/// Once more where the first try failed, unless the context is unusable.
fn twice(call: impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
    call().or_else(|first| if codes::is_fatal(first.code) { Err(first) } else { call().map_err(|_| first) })
}

impl Device {
    /// Destroys it now, or puts it aside.
    pub(crate) fn discard(self: &Arc<Self>, doomed: Doomed) {
        let mut control = self.control();
        if self.later(&mut control, doomed) {
            return;
        }
        self.retry(&mut control);
        self.keep_or_destroy(&mut control, doomed);
    }

    /// Puts it aside if a capture runs; `false` where it may be destroyed now.
    fn later(self: &Arc<Self>, control: &mut Control, doomed: Doomed) -> bool {
        let later = thread_captures() || !control.captures.is_empty();
        if later {
            control.aside.push(doomed);
            control.aside_ever += 1;
            if thread_captures() {
                LATER.with_borrow_mut(|later| later.push(Arc::downgrade(self)));
            }
        }
        later
    }

    /// After a capture: destroys what was put aside, and tries again what was refused.
    pub(crate) fn settle(&self) {
        let mut control = self.control();
        if thread_captures() || !control.captures.is_empty() {
            return;
        }
        self.retry(&mut control);
        for doomed in std::mem::take(&mut control.aside) {
            self.keep_or_destroy(&mut control, doomed);
        }
    }

    /// A new stream. What is kept may be in use by work of another one, so it goes; what was given again is waited for.
    pub(crate) fn add_stream(self: &Arc<Self>, stream: Handle<CUstream_st>) -> Result<(), Failure> {
        let mut control = self.control();
        if control.streams() > 0 {
            // While a capture runs its stream cannot be waited for; its begin has done so.
            if control.captures.is_empty() && !thread_captures() {
                self.wait_for_kept(&mut control)?;
            }
            for doomed in control.kept.drain() {
                if !self.later(&mut control, doomed) {
                    self.destroy(&mut control, doomed);
                }
            }
        }
        control.streams.push(stream);
        Ok(())
    }

    /// Waits for work of the owners that kept memory had, if there may be any.
    pub(crate) fn wait_for_kept(&self, control: &mut Control) -> Result<(), Failure> {
        if control.kept.may_be_in_use() {
            for stream in &control.streams {
                // SAFETY: the context is current, and the stream is not destroyed.
                twice(|| unsafe { calls::stream_synchronize(stream.raw()) })?;
            }
            control.kept.waited();
        }
        Ok(())
    }

    /// After a call that failed for want of memory: frees what is kept. `true` where the call is worth a second try;
    /// another thread may have freed what there was.
    pub(crate) fn makes_room(&self, failure: Failure) -> bool {
        let room = failure.code == codes::OUT_OF_MEMORY && self.options.keep_memory > 0;
        if room {
            self.free_kept();
        }
        room
    }

    /// Frees what is kept. A capture that runs allows no free.
    pub(crate) fn free_kept(&self) {
        let mut control = self.control();
        if !thread_captures() && control.captures.is_empty() {
            for doomed in control.kept.drain() {
                self.destroy(&mut control, doomed);
            }
        }
    }

    fn keep_or_destroy(&self, control: &mut Control, doomed: Doomed) {
        if !self.keep(control, doomed) {
            self.destroy(control, doomed);
        }
    }

    fn retry(&self, control: &mut Control) {
        for (doomed, _) in std::mem::take(&mut control.stuck) {
            self.destroy(control, doomed);
        }
    }

    /// Destroys what nobody has a handle of any more; no capture runs.
    pub(crate) fn destroy(&self, control: &mut Control, doomed: Doomed) {
        if self.ended.get().is_some() {
            return; // it goes with the context
        }
        match (self.try_destroy(control, doomed), doomed) {
            // Until then its work may be in flight, which others have to wait for.
            (Ok(()), Doomed::Stream(stream)) => control.streams.retain(|known| known.raw() != stream.raw()),
            (Ok(()), _) => {}
            (Err(failure), _) => {
                self.note(failure);
                if self.ended.get().is_none() {
                    control.stuck.push((doomed, failure));
                }
            }
        }
    }

    fn try_destroy(&self, control: &Control, doomed: Doomed) -> Result<(), Failure> {
        twice(|| self.bind())?;
        if doomed.may_be_in_use() {
            let own = match doomed {
                Doomed::Stream(stream) => Some(stream),
                _ => None,
            };
            let streams = if own.is_some() { &[][..] } else { &control.streams };
            for stream in own.iter().chain(streams) {
                // SAFETY: the context is current, and the stream is not destroyed.
                twice(|| unsafe { calls::stream_synchronize(stream.raw()) })?;
            }
        }
        // SAFETY: the context is current; whoever gave this up had the only handle; what may be in use was waited for.
        twice(|| unsafe { doomed.destroy() })
    }

    /// The last handle is gone: everything that is left goes, then the context.
    pub(crate) fn end(&mut self) {
        let (cu_device, lent) = (self.cu_device, self.take_lent());
        let mut control = std::mem::take(&mut *self.control());
        for doomed in std::mem::take(&mut control.aside) {
            self.destroy(&mut control, doomed);
        }
        for doomed in control.kept.drain() {
            self.destroy(&mut control, doomed);
        }
        if let Some(pads) = self.pads.take() {
            self.destroy(&mut control, Doomed::Module(pads.module));
        }
        self.retry(&mut control);
        Device::unbound();
        let mut left = control.leaks();
        for _ in 0..1 + usize::from(lent) {
            let context = Doomed::Context(cu_device);
            // SAFETY: each reference was taken once, by `Cuda::new` or by cudarc for `lent`, and is given back once.
            left.extend(twice(|| unsafe { context.destroy() }).err().map(|failure| leak(&context, failure)));
        }
        if !left.is_empty() {
            LOST.lock().unwrap_or_else(PoisonError::into_inner).append(&mut left);
        }
    }
}
