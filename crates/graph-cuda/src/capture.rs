//! Capture: begin, what is noted meanwhile, and an end on every path.

use std::{
    ptr::null_mut,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, ThreadId},
};

use cudarc::driver::sys::{CUgraph_st, CUgraphNode, CUstream_st, CUstreamCaptureMode_enum};
use graph_core::{Error, Result};

use crate::{
    Buffer, Captured, Pinned, Stream, audit,
    calls::{self, Failure},
    codes,
    control::{Control, Doomed, thread_begins, thread_captures, thread_ends},
    device::Device,
    handle::Handle,
    memory::{Memory, PinnedMemory},
    module::LoadedModule,
};

/// A capture that runs. Changed under the device's control lock.
pub(crate) struct Capture {
    id: u64,
    thread: ThreadId,
    origin: Handle<CUstream_st>,
    /// The notes of the streams that are part of it.
    lanes: Vec<Arc<AtomicU64>>,
    over: Arc<AtomicBool>,
    notes: Notes,
}

/// What the wrappers of the driver's calls know about a capture and the driver does not tell.
#[derive(Default)]
pub(crate) struct Notes {
    /// What the graph must keep alive.
    pub(crate) kept: Vec<Keep>,
    /// Copies between the device and memory of the host that a graph may contain.
    pub(crate) ends: Vec<HostEnd>,
    /// Blocks that nobody checked, and the nodes that each recorded.
    pub(crate) raw: Vec<RawBlock>,
    /// The call that broke it.
    broken: Option<String>,
}

/// Something that a graph keeps alive.
#[derive(Clone)]
pub(crate) enum Keep {
    Memory(Arc<Memory>),
    Pinned(Arc<PinnedMemory>),
    Module(Arc<LoadedModule>),
}

/// A copy with an end on the host: the framework's own head or tail.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostEnd {
    pub(crate) name: &'static str,
    pub(crate) host: usize,
    pub(crate) device: u64,
    pub(crate) bytes: usize,
}

/// A block of calls that nobody checked.
pub(crate) struct RawBlock {
    pub(crate) name: &'static str,
    pub(crate) nodes: Vec<CUgraphNode>,
}

// SAFETY: the nodes are compared and never used, see `Handle`.
unsafe impl Send for RawBlock {}

/// What one operation uses.
pub(crate) struct Recorded {
    keeps: Vec<Keep>,
    end: Option<HostEnd>,
}

impl Recorded {
    pub(crate) fn uses(keeps: impl Into<Vec<Keep>>) -> Self {
        Recorded { keeps: keeps.into(), end: None }
    }

    pub(crate) fn between(keeps: impl Into<Vec<Keep>>, end: HostEnd) -> Self {
        Recorded { keeps: keeps.into(), end: Some(end) }
    }
}

impl Keep {
    pub(crate) fn of(buffer: &Buffer) -> Keep {
        Keep::Memory(buffer.0.clone())
    }

    pub(crate) fn of_pinned(pinned: &Pinned) -> Keep {
        Keep::Pinned(pinned.0.clone())
    }

    fn is(&self, other: &Keep) -> bool {
        match (self, other) {
            (Keep::Memory(a), Keep::Memory(b)) => Arc::ptr_eq(a, b),
            (Keep::Pinned(a), Keep::Pinned(b)) => Arc::ptr_eq(a, b),
            (Keep::Module(a), Keep::Module(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Notes {
    pub(crate) fn keep(&mut self, keep: Keep) {
        if !self.kept.iter().any(|known| known.is(&keep)) {
            self.kept.push(keep);
        }
    }
}

impl Control {
    fn capture(&mut self, id: u64) -> Option<&mut Capture> {
        self.captures.iter_mut().find(|capture| capture.id == id)
    }

    /// Takes a capture out; its streams are usable again.
    fn take(&mut self, device: &Device, id: u64) -> Option<Capture> {
        let i = self.captures.iter().position(|capture| capture.id == id)?;
        let capture = self.captures.remove(i);
        capture.lanes.iter().for_each(|lane| lane.store(0, Ordering::Release));
        capture.over.store(true, Ordering::Release);
        device.capturing.store(self.captures.len(), Ordering::Release);
        Some(capture)
    }
}

impl Device {
    /// Refuses a call that waits, allocates, or touches pageable memory: on a stream that captures, and on a thread that
    /// does, whatever the stream. The capture is broken by it, as the driver has it, so that an error that its author
    /// drops cannot become a graph.
    #[inline]
    pub(crate) fn may_wait(&self, call: &str, stream: Option<&Stream>) -> Result<()> {
        match thread_captures() || stream.is_some_and(Stream::is_recording) {
            false => Ok(()),
            true => Err(self.refuse(call, stream)),
        }
    }

    #[cold]
    pub(crate) fn refuse(&self, call: &str, stream: Option<&Stream>) -> Error {
        let (id, me) = (stream.map_or(0, |s| s.0.capture.load(Ordering::Acquire)), thread::current().id());
        for capture in &mut self.control().captures {
            if capture.id == id || capture.thread == me {
                capture.notes.broken.get_or_insert_with(|| call.into());
            }
        }
        let what = if id != 0 { "its stream" } else { "this thread" };
        let detail = format_args!("not permitted while {what} captures");
        codes::error(call, codes::STREAM_CAPTURE_UNSUPPORTED, detail)
    }

    /// The last handle of a stream is gone while a capture runs: one that it began ends with it.
    pub(crate) fn abandon(self: &Arc<Self>, id: u64, stream: Handle<CUstream_st>) {
        let capture = {
            let mut control = self.control();
            let began = control.capture(id).is_some_and(|capture| capture.origin.raw() == stream.raw());
            began.then(|| control.take(self, id)).flatten()
        };
        let Some(capture) = capture else { return };
        if capture.thread == thread::current().id() {
            drop(end_in_driver(self, stream));
        }
        drop(capture);
        thread_ends();
        self.settle();
    }
}

impl Stream {
    pub(crate) fn begin(&self) -> Result<()> {
        let device = self.on();
        device.drain();
        device.enter_surely("begin_capture")?;
        let mode = CUstreamCaptureMode_enum::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // Under the lock, so that nothing is destroyed on the device between the begin and the note of it.
        let mut control = device.control();
        if control.captures.is_empty() {
            device.wait_for_kept(&mut control).map_err(|f| device.fail(f))?;
        }
        // SAFETY: the context is current, and the stream is alive.
        unsafe { calls::capture_begin(self.raw_stream(), mode) }.map_err(|f| device.fail(f))?;
        let (id, over) = (device.number(), Arc::<AtomicBool>::default());
        self.0.capture.store(id, Ordering::Release);
        thread_begins(over.clone());
        control.captures.push(Capture {
            id,
            thread: thread::current().id(),
            origin: self.0.raw,
            lanes: vec![self.0.capture.clone()],
            over,
            notes: Notes::default(),
        });
        device.capturing.store(control.captures.len(), Ordering::Release);
        Ok(())
    }

    pub(crate) fn end(&self) -> Result<Captured> {
        let (device, call) = (self.on(), "end_capture");
        let id = self.0.capture.load(Ordering::Acquire);
        {
            let mut control = device.control();
            let refused = match control.capture(id) {
                None => Some((codes::ILLEGAL_STATE, "the stream does not capture")),
                Some(capture) if capture.origin.raw() != self.raw_stream() => Some((
                    codes::STREAM_CAPTURE_UNMATCHED,
                    "another stream began the capture that this one joined",
                )),
                Some(capture) if capture.thread != thread::current().id() => {
                    Some((codes::STREAM_CAPTURE_WRONG_THREAD, "another thread began the capture"))
                }
                Some(_) => None,
            };
            if let Some((code, why)) = refused {
                return Err(codes::error(call, code, why));
            }
        }
        device.drain();
        let ended = end_in_driver(device, self.0.raw);
        let capture = device.control().take(device, id);
        thread_ends();
        device.settle();
        let notes = capture.map(|capture| capture.notes).unwrap_or_default();
        let graph = match (ended, &notes.broken) {
            (Ok(graph), None) => graph,
            (_, Some(by)) => {
                let detail = format_args!("the capture was broken by `{by}`");
                return Err(codes::error(call, codes::STREAM_CAPTURE_INVALIDATED, detail));
            }
            (Err(failure), None) => return Err(device.fail(failure)),
        };
        audit::check(graph, notes)
    }

    /// Notes what a recorded operation uses.
    #[cold]
    pub(crate) fn note_recorded(&self, recorded: Recorded) {
        self.note(|notes| {
            recorded.keeps.into_iter().for_each(|keep| notes.keep(keep));
            notes.ends.extend(recorded.end);
        });
    }

    /// Changes the notes of the capture that this stream is part of.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Notes)) {
        let id = self.0.capture.load(Ordering::Acquire);
        if let Some(capture) = self.on().control().capture(id) {
            change(&mut capture.notes);
        }
    }

    /// After a wait for an event of a capture: this stream is part of it now.
    pub(crate) fn join(&self, id: u64) {
        if let Some(capture) = self.on().control().capture(id)
            && self.0.capture.swap(id, Ordering::AcqRel) != id
        {
            capture.lanes.push(self.0.capture.clone());
        }
    }
}

/// A graph that the driver gave for a capture; it is destroyed with this.
pub(crate) struct RawGraph {
    pub(crate) device: Arc<Device>,
    pub(crate) raw: Handle<CUgraph_st>,
}

impl Drop for RawGraph {
    fn drop(&mut self) {
        self.device.discard(Doomed::Captured(self.raw));
    }
}

/// Ends the capture of a stream on the thread that began it, on every path: where the driver refuses and the stream
/// captures still, it is asked again.
fn end_in_driver(device: &Arc<Device>, stream: Handle<CUstream_st>) -> Result<RawGraph, Failure> {
    let end = || {
        let mut graph = null_mut();
        // SAFETY: the context is current or the call fails, the stream is alive, and the pointer is valid for the write.
        unsafe { calls::capture_end(stream.raw(), &raw mut graph) }?;
        match graph.is_null() {
            true => Err(Failure { call: "cuStreamEndCapture", code: codes::STREAM_CAPTURE_INVALIDATED }),
            false => Ok(RawGraph { device: device.clone(), raw: Handle::new(graph) }),
        }
    };
    if device.bind().is_err() {
        let _ = device.bind(); // if this fails too, so does the end, which says it
    }
    let first = match end() {
        Err(first) if !codes::is_fatal(first.code) => first,
        ended => return ended,
    };
    for _ in 0..2 {
        if still_captures(stream) == Ok(false) || end().is_ok() {
            break;
        }
    }
    Err(first)
}

fn still_captures(stream: Handle<CUstream_st>) -> Result<bool, Failure> {
    let mut status = 0_u32;
    // SAFETY: the stream is alive. The status is a C enum of this size; read as a number it may have any value.
    unsafe { calls::capture_status(stream.raw(), (&raw mut status).cast()) }?;
    Ok(status != 0)
}
