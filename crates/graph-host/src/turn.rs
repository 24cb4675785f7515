//! Whose turn it is: one operation of a device runs at a time, and none inside another.

use std::{
    cell::Cell,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use graph_core::Result;

use crate::codes;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Hands out the turns of one device.
pub(crate) struct Gate {
    id: u64,
    mutex: Mutex<()>,
}

/// The right to touch a device's memory. It exists at most once per device, and at most once per thread: that is what
/// makes slices of device memory sound.
pub(crate) struct Turn<'g> {
    gate: u64,
    _guard: MutexGuard<'g, ()>,
}

impl Gate {
    /// A gate whose number no other has, ever.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Gate { id: NEXT.fetch_add(1, Ordering::Relaxed), mutex: Mutex::new(()) }
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Waits for the turn; refused inside an operation, where it would never come.
    #[inline]
    pub(crate) fn enter(&self, call: &str) -> Result<Turn<'_>> {
        not_inside(call)?;
        let guard = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        INSIDE.set(true);
        Ok(Turn { gate: self.id, _guard: guard })
    }
}

impl Turn<'_> {
    #[inline]
    pub(crate) fn gate(&self) -> u64 {
        self.gate
    }
}

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

/// CUDA refuses its own calls inside host callbacks; so does every call here inside a body.
#[inline]
pub(crate) fn not_inside(call: &str) -> Result<()> {
    match INSIDE.get() {
        false => Ok(()),
        true => Err(codes::error(call, codes::NOT_PERMITTED, "called from inside an operation's body")),
    }
}
