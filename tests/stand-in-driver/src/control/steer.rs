//! What a test can ask of the driver and tell it.
use super::kernels::KernelLibrary;
use super::load::{Driver, collect};
use crate::shared::{Live, Setting};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::Path;

/// A failure that was ordered and has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The driver function that failed.
    pub function: String,
    /// The number of the call, counted from 1 over all functions since the last reset.
    pub call: u64,
}

impl Driver {
    /// The file that was loaded.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts over: no handles, default settings, no counts, no ordered failures. What cudarc still holds is
    /// void, so let go of it before.
    pub fn reset(&self) {
        (self.symbols.reset)();
    }

    /// How often each function was called since the last reset, those that were not called included.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        // SAFETY: `collect` passes a sink and the context that it expects.
        collect(|context, sink| unsafe { (self.symbols.counts)(context, sink) }).into_iter().collect()
    }

    /// How often one function was called since the last reset.
    pub fn calls(&self, function: &str) -> u64 {
        *self
            .counts()
            .get(function)
            .unwrap_or_else(|| panic!("the stand-in driver has no function {function}"))
    }

    /// How many driver calls were made since the last reset.
    pub fn total_calls(&self) -> u64 {
        self.counts().values().sum()
    }

    /// Makes the `nth` call of a function from now (1 is the next one) return `code` instead of doing
    /// anything. Codes 700, 710 and 719 also poison the thread's context, as they would.
    ///
    /// # Panics
    ///
    /// If the driver has no such function.
    pub fn fail_once(&self, function: &str, nth: u64, code: i32) {
        assert!(!function.is_empty(), "a function's name");
        self.order_failure(function, nth, code);
    }

    /// Makes the `nth` call from now, of whatever function, return `code` instead of doing anything.
    pub fn fail_call(&self, nth: u64, code: i32) {
        self.order_failure("", nth, code);
    }

    fn order_failure(&self, function: &str, nth: u64, code: i32) {
        let name = CString::new(function).expect("a name without a nul");
        // SAFETY: the name is nul-terminated and outlives the call.
        let refused = unsafe { (self.symbols.fail)(name.as_ptr(), nth, code) };
        assert_eq!(refused, 0, "the stand-in driver has no function {function}");
    }

    /// The ordered failures that have happened since the last reset.
    pub fn fired(&self) -> Vec<Fired> {
        // SAFETY: `collect` passes a sink and the context that it expects.
        let lines = collect(|context, sink| unsafe { (self.symbols.fired)(context, sink) });
        lines.into_iter().map(|(function, call)| Fired { function, call }).collect()
    }

    /// What is alive now.
    pub fn live(&self) -> Live {
        let mut live = Live::default();
        // SAFETY: the pointer is valid for the write of the same type.
        unsafe { (self.symbols.live)(&raw mut live) };
        live
    }

    /// What was refused or went wrong since the last reset, in words, oldest first; then what is written
    /// outside allocations at this moment.
    pub fn faults(&self) -> Vec<String> {
        // SAFETY: `collect` passes a sink and the context that it expects.
        let lines = collect(|context, sink| unsafe { (self.symbols.faults)(context, sink) });
        lines.into_iter().map(|(text, _)| text).collect()
    }

    fn set(&self, setting: Setting, value: u64) {
        let refused = (self.symbols.set)(setting as u32, value);
        assert_eq!(refused, 0, "{setting:?} cannot be set here (in a host function?)");
    }

    /// Whether work waits in its stream until something waits for it (the default), or runs when it is
    /// enqueued.
    pub fn set_lazy(&self, lazy: bool) {
        self.set(Setting::Lazy, lazy.into());
    }

    /// How many devices there are (1).
    pub fn set_devices(&self, count: u32) {
        self.set(Setting::Devices, count.into());
    }

    /// What `cuDriverGetVersion` says (13000).
    pub fn set_driver_version(&self, version: u32) {
        self.set(Setting::DriverVersion, version.into());
    }

    /// How much device memory there is (8 GiB). Only what is allocated takes memory of the machine.
    pub fn set_memory(&self, bytes: u64) {
        self.set(Setting::MemoryBytes, bytes);
    }

    /// Whether devices say that they have stream-ordered allocation (true); cudarc asks when a context is
    /// made.
    pub fn set_async_alloc(&self, supported: bool) {
        self.set(Setting::AsyncAlloc, supported.into());
    }

    /// Whether a launch of a kernel without host code is accepted and does nothing (false: it is refused).
    /// For counting and timing calls where no compiler is needed.
    pub fn set_noop_kernels(&self, accepted: bool) {
        self.set(Setting::NoopKernels, accepted.into());
    }

    /// Whether the threads of a block run from the last to the first (false). A kernel that gives other
    /// numbers then lacks a barrier.
    pub fn set_reversed_threads(&self, reversed: bool) {
        self.set(Setting::ReversedThreads, reversed.into());
    }

    /// Whether graphs that are instantiated from now on run the last captured of their ready nodes first
    /// (false). A graph that gives other numbers then lacks an edge.
    pub fn set_reversed_graphs(&self, reversed: bool) {
        self.set(Setting::ReversedGraphs, reversed.into());
    }

    /// Gives PTX modules host code: a kernel that they name and the library has is run from the library. It
    /// lasts until the next reset.
    pub fn register_kernels(&self, library: &KernelLibrary) -> Result<(), String> {
        let path =
            CString::new(library.path().to_string_lossy().as_bytes()).map_err(|error| error.to_string())?;
        // SAFETY: the path is nul-terminated and outlives the call.
        match unsafe { (self.symbols.register_kernels)(path.as_ptr()) } {
            0 => Ok(()),
            _ => Err(self.faults().pop().unwrap_or_default()),
        }
    }
}
