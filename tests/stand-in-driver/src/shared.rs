//! What the two halves of the crate say to each other: plain C types, passed through the driver's
//! `stand_in_*` symbols.
use std::ffi::{c_char, c_int, c_void};

/// Identifies the sources that a half was compiled from.
pub(crate) const BUILD_ID: &str = env!("STAND_IN_BUILD_ID");

/// Handles and bytes that are alive, per kind. All zero after a clean shutdown.
///
/// What a context still owned when it was destroyed stays counted here, because a program that relies on that
/// leaks for as long as it lives. The exception is a context that an error had poisoned: there the driver
/// refuses every call that would have freed something.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Contexts: primary ones that are retained, others that are not destroyed.
    pub contexts: u64,
    /// Device allocations of every kind, without those that a graph owns.
    pub device_allocations: u64,
    /// Bytes in them.
    pub device_bytes: u64,
    /// Allocations that belong to graphs (memory nodes).
    pub graph_allocations: u64,
    /// Bytes in them.
    pub graph_bytes: u64,
    /// Page-locked host allocations.
    pub pinned_allocations: u64,
    /// Bytes in them.
    pub pinned_bytes: u64,
    /// Streams, without the default ones.
    pub streams: u64,
    /// Events.
    pub events: u64,
    /// Modules.
    pub modules: u64,
    /// Graphs.
    pub graphs: u64,
    /// Executable graphs.
    pub execs: u64,
    /// Captures that were begun and not ended.
    pub captures: u64,
}

impl Live {
    /// Whether nothing at all is alive.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn plus(&self, more: &Self) -> Self {
        Self {
            contexts: self.contexts + more.contexts,
            device_allocations: self.device_allocations + more.device_allocations,
            device_bytes: self.device_bytes + more.device_bytes,
            graph_allocations: self.graph_allocations + more.graph_allocations,
            graph_bytes: self.graph_bytes + more.graph_bytes,
            pinned_allocations: self.pinned_allocations + more.pinned_allocations,
            pinned_bytes: self.pinned_bytes + more.pinned_bytes,
            streams: self.streams + more.streams,
            events: self.events + more.events,
            modules: self.modules + more.modules,
            graphs: self.graphs + more.graphs,
            execs: self.execs + more.execs,
            captures: self.captures + more.captures,
        }
    }
}

/// What [`Driver`](crate::Driver) can set; numbers are the C values.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Lazy = 0,
    Devices = 1,
    DriverVersion = 2,
    MemoryBytes = 3,
    AsyncAlloc = 4,
    NoopKernels = 5,
    ReversedThreads = 6,
    ReversedGraphs = 7,
}

impl Setting {
    pub(crate) const ALL: [Self; 8] = [
        Self::Lazy,
        Self::Devices,
        Self::DriverVersion,
        Self::MemoryBytes,
        Self::AsyncAlloc,
        Self::NoopKernels,
        Self::ReversedThreads,
        Self::ReversedGraphs,
    ];
}

/// Receives one line of text with a number: its context, the text and its length, the number.
pub(crate) type Sink = extern "C" fn(*mut c_void, *const u8, usize, u64);

pub(crate) type BuildIdFn = unsafe extern "C" fn(*mut c_void, Sink);
pub(crate) type ResetFn = extern "C" fn();
pub(crate) type SetFn = extern "C" fn(u32, u64) -> c_int;
pub(crate) type ListFn = unsafe extern "C" fn(*mut c_void, Sink);
pub(crate) type FailFn = unsafe extern "C" fn(*const c_char, u64, c_int) -> c_int;
pub(crate) type LiveFn = unsafe extern "C" fn(*mut Live);
pub(crate) type RegisterFn = unsafe extern "C" fn(*const c_char) -> c_int;
