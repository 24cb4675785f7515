//! Capture: what is recorded, and CUDA's rules about it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ThreadId},
};

use graph_core::{Error, Result};

use crate::{
    Event, Host, Stream,
    codes::{self, *},
    device::{Control, Device},
    event::At,
    graph::Body,
    hooks::Call,
    kernel::Label,
};

/// What a capture recorded, before [`instantiate`](graph_core::Backend::instantiate).
///
/// ```
/// use graph_core::Backend;
/// use graph_host::{Captured, Host};
/// let host = Host::new();
/// let stream = host.stream()?;
/// Host::begin_capture(&stream)?;
/// stream.callback("note", || {})?;
/// let captured: Captured = Host::end_capture(&stream)?;
/// assert_eq!(Host::operations(&captured), ["note"]);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Captured {
    pub(crate) host: Host,
    pub(crate) nodes: Vec<Node>,
    /// The stream that began the capture.
    pub(crate) origin: u64,
}

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.nodes.iter().map(|node| node.label.name)).finish()
    }
}

/// A recorded operation.
pub(crate) struct Node {
    pub(crate) label: Label,
    pub(crate) body: Body,
    pub(crate) stream: u64,
    /// Positions of the operations that it follows.
    pub(crate) after: Box<[usize]>,
}

/// A capture that runs.
pub(crate) struct Capture {
    id: u64,
    thread: ThreadId,
    /// The stream that began it first, then those that joined.
    lanes: Vec<Lane>,
    nodes: Vec<Node>,
    /// What broke it.
    broken: Option<String>,
}

/// A stream in a capture.
struct Lane {
    stream: u64,
    capturing: Arc<AtomicBool>,
    /// What the next operation follows.
    tips: Vec<usize>,
}

impl Lane {
    fn new(stream: &Stream, tips: Vec<usize>) -> Self {
        stream.0.capturing.store(true, Ordering::Release);
        Lane { stream: stream.id(), capturing: stream.0.capturing.clone(), tips }
    }
}

impl Capture {
    fn lane(&mut self, stream: u64) -> Option<&mut Lane> {
        self.lanes.iter_mut().find(|lane| lane.stream == stream)
    }

    fn origin(&self) -> u64 {
        self.lanes[0].stream
    }

    /// Breaks the capture, with the error for the call that did; the earlier reason stays.
    fn break_by(&mut self, call: &str, code: u32, detail: &str) -> Error {
        self.check(call).err().unwrap_or_else(|| {
            self.broken = Some(format!("{call}, {}", codes::name(code)));
            codes::error(call, code, detail)
        })
    }

    fn check(&self, call: &str) -> Result<()> {
        match &self.broken {
            None => Ok(()),
            Some(by) => Err(codes::error(
                call,
                STREAM_CAPTURE_INVALIDATED,
                format_args!("the capture was broken by {by}"),
            )),
        }
    }

    /// An operation that the first stream does not wait for, directly or not.
    fn unjoined(&self) -> Option<&Node> {
        let mut joined = vec![false; self.nodes.len()];
        let mut todo = self.lanes[0].tips.clone();
        while let Some(i) = todo.pop() {
            if !std::mem::replace(&mut joined[i], true) {
                todo.extend(&*self.nodes[i].after);
            }
        }
        joined.iter().position(|j| !j).map(|i| &self.nodes[i])
    }
}

impl Control {
    fn of(&mut self, stream: u64) -> Option<&mut Capture> {
        self.position(stream).map(|i| &mut self.captures[i])
    }

    fn by_id(&mut self, id: u64) -> Option<&mut Capture> {
        self.captures.iter_mut().find(|c| c.id == id)
    }

    /// The capture that a stream is in, by position.
    fn position(&self, stream: u64) -> Option<usize> {
        self.captures.iter().position(|c| c.lanes.iter().any(|lane| lane.stream == stream))
    }

    /// Takes a capture out; its streams are usable again.
    fn take(&mut self, device: &Device, i: usize) -> Capture {
        let capture = self.captures.remove(i);
        capture.lanes.iter().for_each(|lane| lane.capturing.store(false, Ordering::Release));
        device.capturing.store(self.captures.len(), Ordering::Release);
        capture
    }
}

impl Device {
    /// Refuses a call that waits, allocates, or touches pageable memory: on a stream that captures, and on any stream
    /// of a thread that does.
    #[inline]
    pub(crate) fn not_capturing(&self, call: &str, stream: Option<&Stream>) -> Result<()> {
        match self.capturing.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => self.forbid(call, stream.map(Stream::id)),
        }
    }

    #[cold]
    fn forbid(&self, call: &str, stream: Option<u64>) -> Result<()> {
        let me = thread::current().id();
        let mut error = Ok(());
        for capture in &mut self.control().captures {
            let on_it = stream.is_some_and(|s| capture.lane(s).is_some());
            if on_it || capture.thread == me {
                let what = if on_it { "its stream" } else { "this thread" };
                let detail = format!("not permitted while {what} captures");
                error = error.and(Err(capture.break_by(call, STREAM_CAPTURE_UNSUPPORTED, &detail)));
            }
        }
        error
    }

    /// The host asks about an event of a capture.
    pub(crate) fn forbid_event(&self, call: &str, capture: u64) -> Error {
        let detail = "the event was recorded in a capture";
        match self.control().by_id(capture) {
            Some(capture) => capture.break_by(call, CAPTURED_EVENT, detail),
            None => codes::error(call, CAPTURED_EVENT, detail),
        }
    }

    /// The last handle of a stream is gone: a capture that it began ends with it.
    pub(crate) fn abandon(&self, stream: u64) {
        let capture = {
            let mut control = self.control();
            let i = control.position(stream).filter(|i| control.captures[*i].origin() == stream);
            i.map(|i| control.take(self, i))
        };
        drop(capture);
        self.settle();
    }
}

impl Stream {
    pub(crate) fn begin_capture(&self) -> Result<()> {
        let (device, call) = (self.device(), Call::BeginCapture.name());
        device.enter(Call::BeginCapture, call)?;
        let mut control = device.control();
        if let Some(capture) = control.of(self.id()) {
            return Err(capture.break_by(call, STREAM_CAPTURE_UNMATCHED, "the stream captures already"));
        }
        let (id, thread) = (device.number(), thread::current().id());
        let lanes = vec![Lane::new(self, Vec::new())];
        control.captures.push(Capture { id, thread, lanes, nodes: Vec::new(), broken: None });
        device.capturing.store(control.captures.len(), Ordering::Release);
        Ok(())
    }

    pub(crate) fn end_capture(&self) -> Result<Captured> {
        let (device, call) = (self.device(), Call::EndCapture.name());
        let entered = device.enter(Call::EndCapture, call);
        let capture = {
            let mut control = device.control();
            let unmatched = |detail: &str| Err(codes::error(call, STREAM_CAPTURE_UNMATCHED, detail));
            let Some(i) = control.position(self.id()) else {
                return entered.and(unmatched("the stream does not capture"));
            };
            let capture = &control.captures[i];
            if capture.origin() != self.id() {
                return unmatched("another stream began the capture that this one joined");
            }
            if capture.thread != thread::current().id() {
                return Err(codes::error(
                    call,
                    STREAM_CAPTURE_WRONG_THREAD,
                    "another thread began the capture",
                ));
            }
            control.take(device, i)
        };
        let ended = self.captured(call, capture);
        device.settle();
        entered.and(ended)
    }

    fn captured(&self, call: &str, capture: Capture) -> Result<Captured> {
        capture.check(call)?;
        if let Some(node) = capture.unjoined() {
            let detail = format!("nothing waits for `{}` of stream {}", node.label.name, node.stream);
            return Err(codes::error(call, STREAM_CAPTURE_UNJOINED, detail));
        }
        Ok(Captured { host: self.host().clone(), origin: capture.origin(), nodes: capture.nodes })
    }

    /// Adds an operation to the capture that this stream is in.
    pub(crate) fn record(&self, label: Label, body: Body) -> Result<()> {
        let mut control = self.device().control();
        let refused = match control.of(self.id()) {
            None => Err(codes::error(label.name, STREAM_CAPTURE_INVALIDATED, "the capture ended meanwhile")),
            Some(capture) => capture.check(label.name).map(|()| capture),
        };
        match refused {
            Ok(capture) => {
                let (stream, at) = (self.id(), capture.nodes.len());
                let tips = capture.lane(stream).map(|lane| std::mem::replace(&mut lane.tips, vec![at]));
                let after = tips.unwrap_or_default().into();
                capture.nodes.push(Node { label, body, stream, after });
                Ok(())
            }
            Err(error) => {
                drop(control); // before the author's body, which may own anything
                drop(body);
                Err(error)
            }
        }
    }

    /// The present end of a stream that captures; `None` where it does not.
    pub(crate) fn captured_end(&self, call: &str) -> Result<Option<At>> {
        let mut control = self.device().control();
        let Some(capture) = control.of(self.id()) else { return Ok(None) };
        capture.check(call)?;
        let id = capture.id;
        Ok(capture.lane(self.id()).map(|lane| At::Captured { capture: id, tips: lane.tips.clone() }))
    }

    /// Waits for an event of a capture, or inside one. `false`: neither is the case.
    pub(crate) fn wait_captured(&self, call: &str, event: &Event) -> Result<bool> {
        let mut control = self.device().control();
        let mine = control.of(self.id()).map(|c| c.id);
        match (mine, &event.at) {
            (None, At::Past { .. }) => Ok(false),
            (Some(id), At::Past { .. }) => {
                let capture = control.by_id(id).ok_or_else(|| gone(call))?;
                Err(capture.break_by(
                    call,
                    STREAM_CAPTURE_ISOLATION,
                    "the event was recorded outside this capture",
                ))
            }
            (Some(id), At::Captured { capture: theirs, tips }) if id == *theirs => {
                let capture = control.by_id(id).ok_or_else(|| gone(call))?;
                capture.check(call)?;
                if let Some(lane) = capture.lane(self.id()) {
                    lane.tips.extend(tips);
                    lane.tips.sort_unstable();
                    lane.tips.dedup();
                }
                Ok(true)
            }
            (Some(id), At::Captured { capture: theirs, .. }) => {
                let detail = "the event belongs to another capture";
                if let Some(other) = control.by_id(*theirs) {
                    other.break_by(call, STREAM_CAPTURE_MERGE, detail);
                }
                let capture = control.by_id(id).ok_or_else(|| gone(call))?;
                Err(capture.break_by(call, STREAM_CAPTURE_MERGE, detail))
            }
            (None, At::Captured { capture: theirs, tips }) => match control.by_id(*theirs) {
                None => {
                    Err(codes::error(call, CAPTURED_EVENT, "the capture that recorded the event is over"))
                }
                Some(capture) => {
                    capture.check(call)?;
                    capture.lanes.push(Lane::new(self, tips.clone()));
                    Ok(true)
                }
            },
        }
    }
}

#[cold]
fn gone(call: &str) -> Error {
    codes::error(call, STREAM_CAPTURE_INVALIDATED, "the capture ended meanwhile")
}
