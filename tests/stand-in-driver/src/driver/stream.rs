//! Streams: queues of work, when it runs, and what orders one stream behind another.
use super::abi::Handle;
use super::codes::{Code, Result};
use super::context::legacy_stream;
use super::op::Op;
use super::state::State;
use std::collections::VecDeque;

pub(crate) struct Stream {
    pub(crate) context: Handle,
    /// Whether the legacy stream waits for it and it for the legacy stream.
    pub(crate) blocking: bool,
    /// Whether the driver made it (default streams), so that nobody destroys it.
    pub(crate) implicit: bool,
    /// The capture that it takes part in.
    pub(crate) capture: Option<Handle>,
    queue: VecDeque<Op>,
    /// How many operations have left the queue.
    done: u64,
}

impl Stream {
    pub(crate) fn new(context: Handle, blocking: bool, implicit: bool) -> Self {
        Self { context, blocking, implicit, capture: None, queue: VecDeque::new(), done: 0 }
    }

    /// The number of the last operation that was enqueued.
    pub(crate) fn tail(&self) -> u64 {
        self.done + self.queue.len() as u64
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn drop_pending(&mut self) {
        self.done += self.queue.len() as u64;
        self.queue.clear();
    }
}

impl State {
    /// The stream that a program means by `raw`: null and 1 are the legacy stream, 2 is the thread's own.
    pub(crate) fn stream_key(&mut self, context: Handle, raw: Handle) -> Result<Handle> {
        match raw {
            0 | 1 => Ok(legacy_stream(context)),
            2 => {
                let key = (context, std::thread::current().id());
                if let Some(stream) = self.thread_streams.get(&key) {
                    return Ok(*stream);
                }
                let handle = self.new_handle();
                self.streams.insert(handle, Stream::new(context, true, true));
                self.thread_streams.insert(key, handle);
                Ok(handle)
            }
            _ => match self.streams.get(&raw) {
                Some(stream) if stream.context == context && !stream.implicit => Ok(raw),
                _ => self.refuse(Code::INVALID_HANDLE, format!("{raw:#x} is no stream of this context")),
            },
        }
    }

    pub(crate) fn stream(&self, key: Handle) -> Result<&Stream> {
        self.streams.get(&key).ok_or(Code::INVALID_HANDLE)
    }

    /// Adds work to a stream: to its capture if it has one, else to its queue. In eager mode the queue runs
    /// at once.
    pub(crate) fn submit(&mut self, key: Handle, op: Op) -> Result {
        let stream = self.stream(key)?;
        let context = stream.context;
        if let Some(capture) = stream.capture {
            return self.capture_node(capture, key, op).map(|_| ());
        }
        self.check_legacy(key)?;
        self.order_with_legacy(key);
        self.enqueue(key, op);
        if !self.settings.lazy {
            self.run(key, u64::MAX);
        }
        self.outcome(context)
    }

    pub(crate) fn enqueue(&mut self, key: Handle, op: Op) {
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.queue.push_back(op);
        }
    }

    /// The legacy stream waits for all blocking streams, and they for it.
    fn order_with_legacy(&mut self, key: Handle) {
        let Ok(stream) = self.stream(key) else { return };
        let legacy = legacy_stream(stream.context);
        let context = stream.context;
        if key == legacy {
            let others = self.streams.iter().filter(|(other, it)| {
                it.context == context && it.blocking && **other != legacy && !it.is_idle()
            });
            let waits: Vec<Op> =
                others.map(|(other, it)| Op::Wait { stream: *other, upto: it.tail() }).collect();
            waits.into_iter().for_each(|wait| self.enqueue(key, wait));
        } else if stream.blocking
            && let Some(it) = self.streams.get(&legacy)
            && !it.is_idle()
        {
            let wait = Op::Wait { stream: legacy, upto: it.tail() };
            self.enqueue(key, wait);
        }
    }

    /// Runs a stream's work up to operation number `upto`, and whatever that waits for.
    pub(crate) fn run(&mut self, key: Handle, upto: u64) {
        while let Some(stream) = self.streams.get_mut(&key)
            && stream.done < upto
            && let Some(op) = stream.queue.pop_front()
        {
            stream.done += 1;
            let context = stream.context;
            self.execute(context, op);
        }
        self.sweep_graph_memory();
    }

    pub(crate) fn run_context(&mut self, context: Handle) {
        let ours = self.streams.iter().filter(|(_, stream)| stream.context == context);
        let mut keys: Vec<Handle> = ours.map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys.into_iter().for_each(|key| self.run(key, u64::MAX));
    }

    /// Runs everything in a stream and says whether that went well.
    pub(crate) fn synchronise(&mut self, key: Handle) -> Result {
        self.order_with_legacy_wait(key);
        self.run(key, u64::MAX);
        let context = self.stream(key)?.context;
        self.outcome(context)
    }

    /// Waiting for the legacy stream waits for the blocking streams too.
    fn order_with_legacy_wait(&mut self, key: Handle) {
        if self.stream(key).is_ok_and(|stream| key == legacy_stream(stream.context)) {
            self.order_with_legacy(key);
        }
    }

    /// Answers a query: not ready while there is work, of which one operation runs so that polling comes to
    /// an end.
    pub(crate) fn poll(&mut self, key: Handle, upto: u64) -> Result {
        let stream = self.stream(key)?;
        let (context, next) = (stream.context, stream.done + 1);
        if stream.is_idle() || stream.done >= upto {
            return self.outcome(context);
        }
        self.run(key, next);
        self.outcome(context)?;
        Err(Code::NOT_READY)
    }

    /// Removes a stream once its work has run. A capture that it takes part in ends with its origin, or is
    /// invalid.
    pub(crate) fn destroy_stream(&mut self, key: Handle) -> Result {
        if let Some(capture) = self.stream(key)?.capture {
            self.invalidate(capture, "a stream of the capture was destroyed");
            if self.captures.get(&capture).is_some_and(|it| it.origin == key) {
                self.drop_capture(capture);
            }
        }
        self.run(key, u64::MAX);
        self.streams.remove(&key);
        Ok(())
    }
}
