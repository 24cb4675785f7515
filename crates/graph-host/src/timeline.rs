//! When operations would run on a device whose streams do run side by side: a virtual clock per stream.
//!
//! An operation costs one unit unless its [`Label`] says otherwise. It starts when the operation before
//! it on its stream has ended, when every event that its stream waited for has passed, and not before its thread
//! issued it: waits and [`Host::host_work`] move the thread's clock. Inside a graph, forks and joins count as recorded.
//!
//! Completion words follow the clock: while the log is on, the word that a graph's tail signals is stored when the
//! thread's clock gets there, so a slot is busy for as long as its graph would run.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, ThreadId},
};

use graph_core::Result;

use crate::{
    Host,
    device::Device,
    kernel::Label,
    memory::{Pinned, WeakWord, Word},
    stream::StreamShared,
};

/// [`Interval::stream`] of work on the host.
pub const HOST: u64 = u64::MAX;

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
    /// on, or of the forked stream that recorded it. [`HOST`] for work on the host.
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
    /// Completion words that the clock has not reached, in the order of signals.
    signals: Vec<Signal>,
}

/// A completion word on its way.
struct Signal {
    /// `None` while its graph runs.
    at: Option<u64>,
    word: WeakWord,
    value: u32,
}

impl Log {
    fn thread(&self) -> u64 {
        self.threads.get(&thread::current().id()).copied().unwrap_or(0)
    }

    fn thread_waits(&mut self, until: u64) {
        let now = self.thread().max(until);
        self.threads.insert(thread::current().id(), now);
    }

    /// The operations that just ran end here, and their signals with them.
    fn ended(&mut self, at: u64) {
        self.signals.iter_mut().for_each(|signal| _ = signal.at.get_or_insert(at));
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
        log.ended(end);
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
        let end = ends.into_iter().max().unwrap_or(launched);
        log.ended(end);
        stream.clock.store(end, Ordering::Relaxed);
    }

    /// Keeps a completion word back until the clock is there; `false` where the log is off.
    #[inline]
    pub(crate) fn postpones(&self, word: &Word, value: u32) -> bool {
        let on = self.is_on();
        if on {
            self.log().signals.push(Signal { at: None, word: word.downgrade(), value });
        }
        on
    }

    /// When a completion word will have a value, if it is on its way.
    fn signalled(&self, pinned: &Pinned, at: usize, value: u32) -> Option<u64> {
        let log = self.log();
        log.signals.iter().find(|s| s.value == value && s.word.is(pinned, at)).and_then(|s| s.at)
    }

    /// The thread waits for a moment; gives the completion words that are due by then.
    fn wait(&self, until: u64) -> Vec<Signal> {
        let mut log = self.log();
        log.thread_waits(until);
        let now = log.thread();
        log.signals.extract_if(.., |s| s.at.is_some_and(|at| at <= now)).collect()
    }
}

impl Device {
    /// The thread waits for a moment of the virtual clock.
    #[inline]
    pub(crate) fn host_waits(&self, until: u64) -> Result<()> {
        match self.timeline.is_on() {
            true => self.deliver(self.timeline.wait(until)),
            false => Ok(()),
        }
    }

    /// The thread waits for a completion word.
    pub(crate) fn host_awaits(&self, pinned: &Pinned, at: usize, value: u32) -> Result<()> {
        let until = self.timeline.signalled(pinned, at, value).unwrap_or(0);
        self.host_waits(until)
    }

    fn deliver(&self, due: Vec<Signal>) -> Result<()> {
        let mut turn = self.gate.enter("signal")?;
        for Signal { word, value, .. } in due {
            word.upgrade().into_iter().for_each(|word| word.store(&mut turn, value));
        }
        Ok(())
    }
}

impl Host {
    /// Starts (or stops) the log of [`timeline`](Host::timeline). Off at first, and then free of cost.
    pub fn log_timeline(&self, on: bool) {
        self.0.timeline.on.store(on, Ordering::Relaxed);
        let due = if on { Vec::new() } else { std::mem::take(&mut self.0.timeline.log().signals) };
        _ = self.0.deliver(due); // refused inside an operation, where nobody may ask for a log
    }

    /// Logs work of this thread, such as the planning of a step, and moves its clock.
    ///
    /// ```
    /// use graph_core::Backend;
    /// use graph_host::{Host, Label, timeline};
    /// let host = Host::new();
    /// let stream = host.stream()?;
    /// host.log_timeline(true);
    /// stream.kernel(Label::new("attend").cost(5), (), (), |(), ()| {})?;
    /// host.host_work(Label::new("plan").cost(2))?;
    /// let log = host.timeline();
    /// assert_eq!((log[1].stream, log[1].start, log[1].end), (timeline::HOST, 0, 2));
    /// assert!(log[0].overlaps(&log[1]), "the host works while the kernel runs");
    /// # Ok::<(), graph_core::Error>(())
    /// ```
    pub fn host_work(&self, label: impl Into<Label>) -> Result<()> {
        if !self.0.timeline.is_on() {
            return Ok(());
        }
        let label = label.into();
        let end = {
            let mut log = self.0.timeline.log();
            let (start, end) = (log.thread(), log.thread() + label.cost);
            log.intervals.push(Interval { stream: HOST, name: label.name, start, end });
            end
        };
        self.0.host_waits(end)
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
