//! How many operations each thread has issued on each device.

use std::cell::RefCell;

thread_local! {
    /// Number of the device, and its count; the device that this thread used last is the last one.
    static COUNTS: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}

/// Devices that a thread remembers at the most, so that a program that makes devices for ever does not grow.
const MOST: usize = 64;

/// Counts one operation.
#[inline]
pub(crate) fn bump(device: u64) {
    COUNTS.with_borrow_mut(|counts| match counts.last_mut() {
        Some((last, count)) if *last == device => *count += 1,
        _ => to_the_end(counts, device).1 += 1,
    });
}

/// The count of a device.
pub(crate) fn count(device: u64) -> u64 {
    COUNTS.with_borrow_mut(|counts| to_the_end(counts, device).1)
}

#[cold]
fn to_the_end(counts: &mut Vec<(u64, u64)>, device: u64) -> &mut (u64, u64) {
    let entry = match counts.iter().position(|(known, _)| *known == device) {
        Some(i) => counts.remove(i),
        None => (device, 0),
    };
    if counts.len() == MOST {
        counts.remove(0);
    }
    counts.push(entry);
    let last = counts.len() - 1;
    &mut counts[last]
}
