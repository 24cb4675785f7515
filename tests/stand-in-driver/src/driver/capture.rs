//! Stream capture: who may do what while one runs, and how it grows, breaks and ends.
//!
//! The rules are those of the CUDA programming guide ("prohibited and unhandled operations") and of the
//! reference pages of cuStreamBeginCapture, cuStreamEndCapture and cuThreadExchangeStreamCaptureMode. Where
//! these leave a case open, the stand-in takes the stricter reading: a broken rule invalidates every capture
//! that it touches.
use super::abi::Handle;
use super::codes::{Code, Result};
use super::context::legacy_stream;
use super::graph::Graph;
use super::op::Op;
use super::state::State;
use std::cell::Cell;
use std::collections::HashMap;
use std::thread::ThreadId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl Mode {
    pub(crate) fn from_c(mode: u32) -> Result<Self> {
        match mode {
            0 => Ok(Self::Global),
            1 => Ok(Self::ThreadLocal),
            2 => Ok(Self::Relaxed),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

thread_local! {
    /// What `cuThreadExchangeStreamCaptureMode` set for this thread, and the epoch that it belongs to.
    static THREAD_MODE: Cell<(u64, Mode)> = const { Cell::new((0, Mode::Global)) };
}

pub(crate) struct Capture {
    pub(crate) origin: Handle,
    mode: Mode,
    thread: ThreadId,
    /// What has been captured so far.
    pub(crate) graph: Graph,
    /// The graph's handle, known while it is still being captured.
    pub(crate) graph_handle: Handle,
    /// Per stream of the capture: the nodes that its next one depends on.
    pub(crate) tails: HashMap<Handle, Vec<usize>>,
    pub(crate) invalid: bool,
    /// Keeps what `cuStreamGetCaptureInfo` points to.
    pub(crate) shown: Vec<Handle>,
}

impl State {
    /// The thread's mode; a reset of the driver puts it back to the default.
    pub(crate) fn exchange_thread_mode(&self, mode: Mode) -> Mode {
        let (epoch, old) = THREAD_MODE.replace((self.epoch, mode));
        if epoch == self.epoch { old } else { Mode::Global }
    }

    fn thread_mode(&self) -> Mode {
        let (epoch, mode) = THREAD_MODE.get();
        if epoch == self.epoch { mode } else { Mode::Global }
    }

    pub(crate) fn begin_capture(&mut self, key: Handle, mode: Mode) -> Result {
        let stream = self.stream(key)?;
        let context = stream.context;
        if key == legacy_stream(context) {
            return self.refuse(Code::CAPTURE_UNSUPPORTED, "the legacy stream cannot be captured".into());
        }
        if stream.capture.is_some() {
            return self.refuse(Code::ILLEGAL_STATE, "the stream is being captured already".into());
        }
        let (handle, graph_handle) = (self.new_handle(), self.new_handle());
        let capture = Capture {
            origin: key,
            mode,
            thread: std::thread::current().id(),
            graph: Graph::new(context),
            graph_handle,
            tails: HashMap::from([(key, Vec::new())]),
            invalid: false,
            shown: Vec::new(),
        };
        self.captures.insert(handle, capture);
        self.set_capture(key, Some(handle));
        Ok(())
    }

    /// The handle of the finished graph, or the rule that was broken. Either way the capture is over, unless
    /// the call came from another stream or thread than it must.
    pub(crate) fn end_capture(&mut self, key: Handle) -> Result<Handle> {
        let Some(handle) = self.stream(key)?.capture else {
            return self.refuse(Code::ILLEGAL_STATE, "the stream is not being captured".into());
        };
        let capture = self.captures.get(&handle).ok_or(Code::ILLEGAL_STATE)?;
        if capture.origin != key {
            let why = "the capture was ended in a stream that it did not begin in";
            return self.break_rule(handle, Code::CAPTURE_UNMATCHED, why);
        }
        if capture.mode != Mode::Relaxed && capture.thread != std::thread::current().id() {
            let why = "the capture was ended in a thread that it did not begin in";
            return self.break_rule(handle, Code::CAPTURE_WRONG_THREAD, why);
        }
        let (invalid, joined) = (capture.invalid, capture.is_joined());
        if invalid || !joined {
            self.drop_capture(handle);
            if invalid {
                return Err(Code::CAPTURE_INVALIDATED);
            }
            let why = "a stream forked off and was not joined before the end of the capture";
            return self.refuse(Code::CAPTURE_UNJOINED, why.into());
        }
        self.free_streams(handle);
        let capture = self.captures.remove(&handle).ok_or(Code::ILLEGAL_STATE)?;
        self.graphs.insert(capture.graph_handle, capture.graph);
        Ok(capture.graph_handle)
    }

    /// Adds a node behind what the stream has captured so far.
    pub(crate) fn capture_node(&mut self, capture: Handle, key: Handle, op: Op) -> Result<Handle> {
        self.check_valid(capture)?;
        let handle = self.new_handle();
        let capture = self.captures.get_mut(&capture).ok_or(Code::CAPTURE_INVALIDATED)?;
        let tail = capture.tails.entry(key).or_default();
        let node = capture.graph.push(handle, op, std::mem::take(tail));
        tail.push(node);
        Ok(handle)
    }

    /// A stream waits for an event of a capture: it joins the capture, or joins another branch back.
    pub(crate) fn join_capture(&mut self, handle: Handle, key: Handle, nodes: &[usize]) -> Result {
        self.check_valid(handle)?;
        let capture = self.captures.get_mut(&handle).ok_or(Code::CAPTURE_INVALIDATED)?;
        let tail = capture.tails.entry(key).or_default();
        nodes.iter().for_each(|node| {
            if !tail.contains(node) {
                tail.push(*node);
            }
        });
        self.set_capture(key, Some(handle));
        Ok(())
    }

    pub(crate) fn check_valid(&self, capture: Handle) -> Result {
        match self.captures.get(&capture) {
            Some(capture) if !capture.invalid => Ok(()),
            _ => Err(Code::CAPTURE_INVALIDATED),
        }
    }

    pub(crate) fn invalidate(&mut self, capture: Handle, why: &str) {
        if let Some(capture) = self.captures.get_mut(&capture)
            && !std::mem::replace(&mut capture.invalid, true)
        {
            self.faults.push(format!("a capture was invalidated: {why}"));
        }
    }

    /// Invalidates a capture and returns the error that says which rule was broken.
    pub(crate) fn break_rule<T>(&mut self, capture: Handle, code: Code, why: &str) -> Result<T> {
        self.invalidate(capture, why);
        self.refuse(code, why.to_owned())
    }

    /// A call that may wait for the device or change its memory ("potentially unsafe"): prohibited by every
    /// capture that the calling thread must respect.
    pub(crate) fn check_unsafe_call(&mut self, what: &str) -> Result {
        let (me, mine) = (std::thread::current().id(), self.thread_mode());
        let prohibits = |capture: &Capture| match mine {
            Mode::Relaxed => false,
            Mode::ThreadLocal => capture.thread == me && capture.mode != Mode::Relaxed,
            Mode::Global => {
                (capture.thread == me && capture.mode != Mode::Relaxed) || capture.mode == Mode::Global
            }
        };
        let hit = self.captures.iter().filter(|(_, capture)| prohibits(capture)).map(|(handle, _)| *handle);
        let hit: Vec<Handle> = hit.collect();
        self.prohibit(&hit, Code::CAPTURE_UNSUPPORTED, &format!("{what} while a stream is captured"))
    }

    /// A call on a stream itself that a capture can never allow, such as waiting for it.
    pub(crate) fn check_not_capturing(&mut self, key: Handle, what: &str) -> Result {
        let hit = self.stream(key)?.capture;
        let why = format!("{what} of a stream that is being captured");
        self.prohibit(hit.as_slice(), Code::CAPTURE_UNSUPPORTED, &why)?;
        self.check_legacy(key)
    }

    /// Waiting for a whole context is waiting for its captured streams, whatever the modes.
    pub(crate) fn check_context_free(&mut self, context: Handle, what: &str) -> Result {
        let ours = self.captures.iter().filter(|(_, capture)| capture.graph.context == context);
        let hit: Vec<Handle> = ours.map(|(handle, _)| *handle).collect();
        self.prohibit(&hit, Code::CAPTURE_UNSUPPORTED, &format!("{what} while a stream of it is captured"))
    }

    /// The legacy stream waits for every blocking stream, so it cannot be used while one of them is captured.
    pub(crate) fn check_legacy(&mut self, key: Handle) -> Result {
        let context = self.stream(key)?.context;
        if key != legacy_stream(context) {
            return Ok(());
        }
        let blocking = self.streams.values().filter(|stream| stream.context == context && stream.blocking);
        let hit: Vec<Handle> = blocking.filter_map(|stream| stream.capture).collect();
        self.prohibit(
            &hit,
            Code::CAPTURE_IMPLICIT,
            "the legacy stream was used while a blocking one is captured",
        )
    }

    fn prohibit(&mut self, captures: &[Handle], code: Code, why: &str) -> Result {
        captures.iter().for_each(|capture| self.invalidate(*capture, why));
        if captures.is_empty() { Ok(()) } else { self.refuse(code, why.to_owned()) }
    }

    fn set_capture(&mut self, key: Handle, capture: Option<Handle>) {
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.capture = capture;
        }
    }

    fn free_streams(&mut self, capture: Handle) {
        let taken = self.streams.values_mut().filter(|stream| stream.capture == Some(capture));
        taken.for_each(|stream| stream.capture = None);
    }

    /// Ends a capture that yields no graph.
    pub(crate) fn drop_capture(&mut self, capture: Handle) {
        self.free_streams(capture);
        self.captures.remove(&capture);
        self.sweep_graph_memory();
    }
}

impl Capture {
    /// Whether every node lies before the end of the origin stream.
    fn is_joined(&self) -> bool {
        let mut reached = vec![false; self.graph.nodes.len()];
        let mut open = self.tails.get(&self.origin).cloned().unwrap_or_default();
        while let Some(node) = open.pop() {
            if !std::mem::replace(&mut reached[node], true) {
                open.extend(&self.graph.nodes[node].after);
            }
        }
        reached.iter().all(|reached| *reached)
    }
}
