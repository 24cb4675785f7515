//! Everything that the driver knows, behind one lock, and the two ways in: [`lock`] and [`enter`].
use super::abi::Handle;
use super::capture::Capture;
use super::codes::{Code, Result};
use super::context::{self, Context};
use super::event::Event;
use super::graph::{Exec, Graph};
use super::memory::{Kind, Memory};
use super::module::{Function, Module};
use super::stream::Stream;
use crate::shared::{Live, Setting};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::ThreadId;

pub(crate) struct Settings {
    /// Work waits in its stream until something waits for it.
    pub(crate) lazy: bool,
    pub(crate) devices: i32,
    pub(crate) driver_version: i32,
    pub(crate) memory_bytes: usize,
    /// What the attribute that announces stream-ordered allocation says.
    pub(crate) async_alloc: bool,
    /// Kernels without host code are accepted and do nothing.
    pub(crate) noop_kernels: bool,
    /// The threads of a block start with the last one.
    pub(crate) reversed_threads: bool,
    /// Of the nodes of a graph that are ready, the last one captured runs first.
    pub(crate) reversed_graphs: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lazy: true,
            devices: 1,
            driver_version: 13_000,
            memory_bytes: 8 << 30,
            async_alloc: true,
            noop_kernels: false,
            reversed_threads: false,
            reversed_graphs: false,
        }
    }
}

impl Settings {
    pub(crate) fn set(&mut self, setting: Setting, value: u64) {
        let on = value != 0;
        let number = i32::try_from(value).unwrap_or(i32::MAX);
        match setting {
            Setting::Lazy => self.lazy = on,
            Setting::Devices => self.devices = number,
            Setting::DriverVersion => self.driver_version = number,
            Setting::MemoryBytes => self.memory_bytes = usize::try_from(value).unwrap_or(usize::MAX),
            Setting::AsyncAlloc => self.async_alloc = on,
            Setting::NoopKernels => self.noop_kernels = on,
            Setting::ReversedThreads => self.reversed_threads = on,
            Setting::ReversedGraphs => self.reversed_graphs = on,
        }
    }
}

#[derive(Default)]
pub(crate) struct State {
    /// Counts resets; what a thread remembers from before one is void.
    pub(crate) epoch: u64,
    pub(crate) initialised: bool,
    pub(crate) settings: Settings,
    pub(crate) memory: Memory,
    pub(crate) contexts: BTreeMap<Handle, Context>,
    pub(crate) streams: HashMap<Handle, Stream>,
    pub(crate) thread_streams: HashMap<(Handle, ThreadId), Handle>,
    pub(crate) events: HashMap<Handle, Event>,
    pub(crate) modules: HashMap<Handle, Module>,
    pub(crate) functions: HashMap<Handle, Arc<Function>>,
    pub(crate) captures: HashMap<Handle, Capture>,
    pub(crate) graphs: HashMap<Handle, Graph>,
    pub(crate) execs: HashMap<Handle, Exec>,
    pub(crate) kernels: super::kernels::Libraries,
    /// What went wrong, in words, oldest first.
    pub(crate) faults: Vec<String>,
    /// What contexts still owned when they were destroyed.
    pub(crate) abandoned: Live,
    handles: usize,
}

static STATE: Mutex<Option<Box<State>>> = Mutex::new(None);

thread_local! {
    /// Whether this thread runs a host function for the driver, which may not call the driver.
    static IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
}

/// The driver's state, locked.
pub(crate) struct Guard(MutexGuard<'static, Option<Box<State>>>);

impl std::ops::Deref for Guard {
    type Target = State;

    fn deref(&self) -> &State {
        self.0.as_deref().expect("filled in by `lock`")
    }
}

impl std::ops::DerefMut for Guard {
    fn deref_mut(&mut self) -> &mut State {
        self.0.as_deref_mut().expect("filled in by `lock`")
    }
}

/// Locks the state. A host function that calls the driver is refused, as the driver's rules have it.
pub(crate) fn lock() -> Result<Guard> {
    if IN_HOST_FUNCTION.get() {
        return Err(Code::NOT_PERMITTED);
    }
    let mut guard = STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    guard.get_or_insert_default();
    Ok(Guard(guard))
}

/// Locks the state for a call that needs a current context, and says which one that is. A poisoned context
/// answers with its error.
pub(crate) fn enter() -> Result<(Guard, Handle)> {
    let state = lock()?;
    let current = context::current(&state).ok_or(Code::INVALID_CONTEXT)?;
    let context = state.contexts.get(&current).ok_or(Code::CONTEXT_IS_DESTROYED)?;
    match context.poison {
        Some(code) => Err(code),
        None => Ok((state, current)),
    }
}

/// Runs a host function for the driver, marking the thread meanwhile.
pub(crate) fn as_host_function(run: impl FnOnce()) {
    IN_HOST_FUNCTION.set(true);
    run();
    IN_HOST_FUNCTION.set(false);
}

/// A failure on demand: one that poisons does so to the thread's context, like the real one would.
pub(crate) fn note_injected(function: &str, code: Code) {
    if let Ok(mut state) = lock()
        && code.poisons()
        && let Some(current) = context::current(&state)
    {
        state.poison(current, code, format!("{function} was made to fail"));
    }
}

impl State {
    pub(crate) fn new_handle(&mut self) -> Handle {
        self.handles += 1;
        0x10_0000 + self.handles * 16
    }

    /// Starts over: everything is dropped, settings are the default ones.
    pub(crate) fn reset(&mut self) {
        *self = Self { epoch: self.epoch + 1, handles: self.handles, ..Self::default() };
    }

    /// Ends a context for all purposes but its destruction: pending work is dropped, later calls return
    /// `code`.
    pub(crate) fn poison(&mut self, context: Handle, code: Code, why: String) {
        self.faults.push(format!("error {}: {why}", code.0));
        if let Some(context) = self.contexts.get_mut(&context) {
            context.poison.get_or_insert(code);
        }
        for stream in self.streams.values_mut().filter(|stream| stream.context == context) {
            stream.drop_pending();
        }
    }

    /// The error of a context that work poisoned, if it did.
    pub(crate) fn outcome(&self, context: Handle) -> Result {
        self.contexts.get(&context).and_then(|context| context.poison).map_or(Ok(()), Err)
    }

    /// Notes a refused argument, for [`Driver::faults`](crate::Driver::faults), and gives the code back.
    pub(crate) fn refuse<T>(&mut self, code: Code, why: String) -> Result<T> {
        self.faults.push(format!("error {}: {why}", code.0));
        Err(code)
    }

    pub(crate) fn live(&self) -> Live {
        self.owned_by(None).plus(&self.abandoned)
    }

    /// What one context owns, or all of them.
    pub(crate) fn owned_by(&self, context: Option<Handle>) -> Live {
        let ours = |owner: Handle| context.is_none_or(|context| context == owner);
        let count = |iter: &mut dyn Iterator<Item = Handle>| iter.filter(|owner| ours(*owner)).count() as u64;
        let bytes = |kinds: &[Kind]| {
            let found = self.memory.iter().filter(|it| kinds.contains(&it.kind) && ours(it.context));
            found.fold((0, 0), |sum: (u64, u64), it| (sum.0 + 1, sum.1 + it.range().len as u64))
        };
        let (device_allocations, device_bytes) = bytes(&[Kind::Device, Kind::Async]);
        let (graph_allocations, graph_bytes) = bytes(&[Kind::Graph]);
        let (pinned_allocations, pinned_bytes) = bytes(&[Kind::Pinned]);
        let explicit = self.streams.values().filter(|stream| !stream.implicit);
        Live {
            contexts: if context.is_none() { self.contexts.len() as u64 } else { 0 },
            device_allocations,
            device_bytes,
            graph_allocations,
            graph_bytes,
            pinned_allocations,
            pinned_bytes,
            streams: count(&mut explicit.map(|it| it.context)),
            events: count(&mut self.events.values().map(|it| it.context)),
            modules: count(&mut self.modules.values().map(|it| it.context)),
            graphs: count(&mut self.graphs.values().map(|it| it.context)),
            execs: count(&mut self.execs.values().map(|it| it.context)),
            captures: count(&mut self.captures.values().map(|it| it.graph.context)),
        }
    }
}

/// Starts the whole driver over, call counts and ordered failures included.
pub(crate) fn reset_all() {
    if let Ok(mut state) = lock() {
        state.reset();
    }
    super::probe::reset();
}
