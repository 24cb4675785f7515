//! One test's turn with the driver, which all tests of a process share.
use super::load::Driver;
use std::cell::Cell;
use std::sync::MutexGuard;

thread_local! {
    /// Whether this thread has a session, so that it would wait for itself.
    static HAS_SESSION: Cell<bool> = const { Cell::new(false) };
}

/// The driver, freshly reset, for one test at a time. Dereferences to [`Driver`].
pub struct Session<'d> {
    driver: &'d Driver,
    /// Also keeps the session in its thread.
    _turn: MutexGuard<'d, ()>,
}

impl Driver {
    /// Waits for the running session to end, then resets the driver. Drop what cudarc made before the
    /// session.
    ///
    /// # Panics
    ///
    /// If this thread has a session already.
    pub fn session(&self) -> Session<'_> {
        assert!(!HAS_SESSION.get(), "this thread has a session already");
        // A test that panicked in its turn leaves nothing behind that the reset does not clear.
        let turn = self.exclusive.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        HAS_SESSION.set(true);
        self.reset();
        Session { driver: self, _turn: turn }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        HAS_SESSION.set(false);
    }
}

impl std::ops::Deref for Session<'_> {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        self.driver
    }
}
