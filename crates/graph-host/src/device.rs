//! The device: what its streams, buffers and graphs share.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use graph_core::Result;

use crate::{
    capture::Capture,
    codes,
    graph::Program,
    hooks::{Call, Hooks},
    memory::{Allocation, Memory},
    timeline::Timeline,
    turn::{self, Gate},
};

/// A device on the CPU. Clones are handles of the same device; every [`Host::new`] is another one.
///
/// ```
/// use graph_core::{Backend, Tensor};
/// use graph_host::Host;
///
/// let host = Host::new();
/// let stream = host.stream()?;
/// let x = Tensor::<Host, f32, 1>::from_slice(&host, &stream, &[1.0, 2.0, 3.0], [3])?;
/// let y = Tensor::<Host, f32, 1>::alloc(&host, [3])?;
///
/// Host::begin_capture(&stream)?;
/// stream.kernel("double", (x.view(),), (y.view_mut(),), |(x,), (y,)| {
///     y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
/// })?;
/// let graph = host.instantiate(Host::end_capture(&stream)?)?;
///
/// Host::launch(&graph, &stream)?;
/// assert_eq!(y.to_vec(&stream)?, [2.0, 4.0, 6.0]);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Host(pub(crate) Arc<Device>);

/// What exists on a device: [`Host::live`].
///
/// ```
/// use graph_core::{Backend, Tensor};
/// use graph_host::{Host, Live};
///
/// let host = Host::new();
/// let stream = host.stream()?;
/// let x = Tensor::<Host, f32, 1>::zeros(&host, &stream, [4])?;
/// Host::begin_capture(&stream)?;
/// drop(x); // not while a capture runs
/// assert_eq!(host.live(), Live { buffers: 1, bytes: 16, graphs: 0, put_aside: 1, put_aside_ever: 1 });
/// drop(Host::end_capture(&stream)?);
/// assert_eq!(host.live(), Live { put_aside_ever: 1, ..Live::default() });
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Buffers, pinned ones included, that were not freed.
    pub buffers: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Graphs that were not destroyed.
    pub graphs: usize,
    /// Buffers and graphs that were dropped while a capture runs, and wait for its end; still counted above.
    pub put_aside: usize,
    /// Buffers and graphs that were put aside since the device exists.
    pub put_aside_ever: usize,
}

impl Host {
    /// A new device.
    pub fn new() -> Self {
        Host(Arc::new(Device {
            gate: Gate::new(),
            next: AtomicU64::new(0),
            capturing: AtomicUsize::new(0),
            control: Mutex::default(),
            buffers: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            graphs: AtomicUsize::new(0),
            hooks: Hooks::default(),
            timeline: Timeline::default(),
        }))
    }

    /// What exists on the device at this moment.
    ///
    /// ```
    /// use graph_core::Backend;
    /// let host = graph_host::Host::new();
    /// let buffer = host.alloc(1024)?;
    /// assert_eq!((host.live().buffers, host.live().bytes), (1, 1024));
    /// drop(buffer);
    /// assert_eq!(host.live(), graph_host::Live::default());
    /// # Ok::<(), graph_core::Error>(())
    /// ```
    pub fn live(&self) -> Live {
        let control = self.0.control();
        let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        Live {
            buffers: read(&self.0.buffers),
            bytes: read(&self.0.bytes),
            graphs: read(&self.0.graphs),
            put_aside: control.aside.len(),
            put_aside_ever: control.aside_ever,
        }
    }
}

impl Default for Host {
    fn default() -> Self {
        Host::new()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({})", self.0.gate.id())
    }
}

pub(crate) struct Device {
    /// One operation at a time.
    pub(crate) gate: Gate,
    next: AtomicU64,
    /// How many captures run: 0 spares everybody the lock below.
    pub(crate) capturing: AtomicUsize,
    control: Mutex<Control>,
    buffers: AtomicUsize,
    bytes: AtomicUsize,
    pub(crate) graphs: AtomicUsize,
    pub(crate) hooks: Hooks,
    pub(crate) timeline: Timeline,
}

/// Captures, and what waits for their end. Nothing that an author wrote is ever dropped under its lock.
#[derive(Default)]
pub(crate) struct Control {
    pub(crate) captures: Vec<Capture>,
    aside: Vec<Aside>,
    aside_ever: usize,
}

/// Something to destroy.
pub(crate) enum Aside {
    Memory(Allocation),
    Graph(Program),
}

impl Device {
    pub(crate) fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no other stream or capture of the device has.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The start of every call: not from inside an operation, and not where a test wants it to fail.
    #[inline]
    pub(crate) fn enter(&self, call: Call, name: &str) -> Result<()> {
        turn::not_inside(name)?;
        self.hooks.check(call, name)
    }

    /// New memory of this device.
    pub(crate) fn memory(self: &Arc<Self>, call: Call, bytes: usize) -> Result<Arc<Memory>> {
        self.enter(call, call.name())?;
        self.not_capturing(call.name(), None)?;
        let poison = matches!(call, Call::Alloc);
        let Some(allocation) = Allocation::new(bytes, poison) else {
            return Err(codes::error(call.name(), codes::OUT_OF_MEMORY, format_args!("{bytes} bytes")));
        };
        self.buffers.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(Memory::new(self.clone(), allocation))
    }

    /// Destroys it now, or puts it aside while a capture runs (invariant 14).
    pub(crate) fn discard(&self, aside: Aside) {
        if self.capturing.load(Ordering::Acquire) != 0 {
            let mut control = self.control();
            if !control.captures.is_empty() {
                control.aside.push(aside);
                control.aside_ever += 1;
                return;
            }
        }
        self.destroy(aside);
    }

    fn destroy(&self, aside: Aside) {
        match aside {
            Aside::Memory(allocation) => {
                self.buffers.fetch_sub(1, Ordering::Relaxed);
                self.bytes.fetch_sub(allocation.bytes(), Ordering::Relaxed);
            }
            Aside::Graph(program) => {
                self.graphs.fetch_sub(1, Ordering::Relaxed);
                drop(program);
            }
        }
    }

    /// After the last capture: destroys what was put aside.
    pub(crate) fn settle(&self) {
        let due = {
            let mut control = self.control();
            match control.captures.is_empty() {
                true => std::mem::take(&mut control.aside),
                false => return,
            }
        };
        due.into_iter().for_each(|aside| self.destroy(aside));
    }
}
