//! How many operations each thread has issued on each device.

use std::{
    cell::{Cell, RefCell},
    sync::{Arc, Weak},
};

use crate::device::Device;

thread_local! {
    /// Gate number of the device that this thread used last, and its count: the hot path.
    static LAST: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    /// Every device that this thread has used and that is still there.
    static OTHERS: RefCell<Vec<(Weak<Device>, u64)>> = const { RefCell::new(Vec::new()) };
}

/// Counts one operation.
#[inline]
pub(crate) fn bump(device: &Arc<Device>) {
    let (gate, count) = LAST.get();
    match gate == device.gate.id() {
        true => LAST.set((gate, count + 1)),
        false => switch(device, 1),
    }
}

/// The count of a device.
pub(crate) fn count(device: &Arc<Device>) -> u64 {
    if LAST.get().0 != device.gate.id() {
        switch(device, 0);
    }
    LAST.get().1
}

/// Makes `device` the last one, at its own count plus `by`.
#[cold]
fn switch(device: &Arc<Device>, by: u64) {
    let (last, last_count) = LAST.get();
    OTHERS.with_borrow_mut(|others| {
        others.retain(|(other, _)| other.strong_count() > 0);
        let of = |other: &Weak<Device>, gate| other.upgrade().is_some_and(|d| d.gate.id() == gate);
        if let Some(entry) = others.iter_mut().find(|(other, _)| of(other, last)) {
            entry.1 = last_count;
        }
        let gate = device.gate.id();
        let known = others.iter().find(|(other, _)| of(other, gate)).map(|(_, count)| *count);
        if known.is_none() {
            others.push((Arc::downgrade(device), 0));
        }
        LAST.set((gate, known.unwrap_or(0) + by));
    });
}
