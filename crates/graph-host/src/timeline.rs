//! When operations would run on a device whose streams do run side by side: a virtual clock per stream.
//!
//! An operation costs one unit unless its [`Label`](crate::Label) says otherwise. It starts when the operation before
//! it on its stream has ended, when every event that its stream waited for has passed, and not before its thread
//! issued it: `synchronize` and `download` move the thread's clock. Inside a graph, forks and joins count as recorded.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ThreadId},
};

use crate::{Host, kernel::Label, stream::StreamShared};

/// One operation on the virtual clock.
///
/// ```
/// use graph_host::Interval;
/// let plan = Interval { stream: 1, name: "plan", start: 2, end: 4 };
/// let replay = Interval { stream: 0, name: "replay", start: 3, end: 9 };
/// assert!(plan.overlaps(&replay));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// [`Stream::id`](crate::Stream::id) of the stream that it ran on; inside a graph, of the stream that was launched
    /// on, or of the forked stream that recorded it.
    pub stream: u64,
    /// Its name.
    pub name: &'static str,
    /// When it starts.
    pub start: u64,
    /// When it ends.
    pub end: u64,
}

impl Interval {
    /// Whether both run at some moment.
    pub fn overlaps(&self, other: &Interval) -> bool {
        self.start.max(other.start) < self.end.min(other.end)
    }
}

/// A recorded operation as the clock sees it.
pub(crate) struct Step {
    pub(crate) label: Label,
    /// `None`: the stream that is launched on.
    pub(crate) stream: Option<u64>,
    /// Positions of the operations that it follows.
    pub(crate) after: Box<[usize]>,
}

#[derive(Default)]
pub(crate) struct Timeline {
    on: AtomicBool,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    intervals: Vec<Interval>,
    threads: HashMap<ThreadId, u64>,
}

impl Log {
    fn thread(&self) -> u64 {
        self.threads.get(&thread::current().id()).copied().unwrap_or(0)
    }
}

impl Timeline {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An operation ran on a stream.
    #[cold]
    pub(crate) fn operation(&self, stream: &StreamShared, label: Label) {
        let mut log = self.log();
        let start = stream.clock.load(Ordering::Relaxed).max(log.thread());
        let end = start + label.cost;
        log.intervals.push(Interval { stream: stream.id, name: label.name, start, end });
        stream.clock.store(end, Ordering::Relaxed);
    }

    /// A graph ran on a stream.
    #[cold]
    pub(crate) fn graph(&self, stream: &StreamShared, steps: &[Step]) {
        let mut log = self.log();
        let launched = stream.clock.load(Ordering::Relaxed).max(log.thread());
        let mut ends: Vec<u64> = Vec::with_capacity(steps.len());
        for step in steps {
            let start = step.after.iter().map(|i| ends[*i]).max().unwrap_or(launched);
            let end = start + step.label.cost;
            let stream = step.stream.unwrap_or(stream.id);
            log.intervals.push(Interval { stream, name: step.label.name, start, end });
            ends.push(end);
        }
        stream.clock.store(ends.into_iter().max().unwrap_or(launched), Ordering::Relaxed);
    }

    /// The thread waits for a moment.
    #[inline]
    pub(crate) fn host_waits(&self, until: u64) {
        if self.is_on() {
            let mut log = self.log();
            let now = log.thread().max(until);
            log.threads.insert(thread::current().id(), now);
        }
    }
}

impl Host {
    /// Starts (or stops) the log of [`timeline`](Host::timeline). Off at first, and then free of cost.
    pub fn log_timeline(&self, on: bool) {
        self.0.timeline.on.store(on, Ordering::Relaxed);
    }

    /// Takes what was logged, in the order of issue.
    ///
    /// ```
    /// use graph_core::{Backend, Tensor};
    /// use graph_host::{Host, Label};
    /// let host = Host::new();
    /// let (a, b) = (host.stream()?, host.stream()?);
    /// host.log_timeline(true);
    /// a.kernel(Label::new("attend").cost(5), (), (), |(), ()| {})?;
    /// b.kernel("plan", (), (), |(), ()| {})?;
    /// let log = host.timeline();
    /// assert_eq!((log[0].start, log[0].end), (0, 5));
    /// assert!(log[0].overlaps(&log[1]), "nothing orders the two streams");
    /// # Ok::<(), graph_core::Error>(())
    /// ```
    pub fn timeline(&self) -> Vec<Interval> {
        std::mem::take(&mut self.0.timeline.log().intervals)
    }
}
