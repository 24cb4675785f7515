//! One test's turn with the driver, which all tests of a process share.
use super::load::Driver;
use std::sync::MutexGuard;

/// The driver, freshly reset, for one test at a time. Dereferences to [`Driver`].
pub struct Session<'d> {
    driver: &'d Driver,
    _turn: MutexGuard<'d, ()>,
}

impl Driver {
    /// Waits for the running session to end, then resets the driver. Drop what cudarc made before the session.
    pub fn session(&self) -> Session<'_> {
        // A test that panicked in its turn leaves nothing behind that the reset does not clear.
        let turn = self.exclusive.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.reset();
        Session { driver: self, _turn: turn }
    }
}

impl std::ops::Deref for Session<'_> {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        self.driver
    }
}
