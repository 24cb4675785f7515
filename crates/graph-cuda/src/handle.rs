//! The driver's opaque handles.

/// A handle of the driver: an address that only the driver looks at.
pub(crate) struct Handle<T>(*mut T);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Handle<T> {}

// SAFETY: nothing here dereferences the address, and the driver lets any thread use any handle (graphs, which it wants
// used by one thread at a time, are behind types that see to it).
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

impl<T> Handle<T> {
    /// Wraps a handle.
    pub(crate) fn new(raw: *mut T) -> Self {
        Handle(raw)
    }

    /// The handle.
    #[inline]
    pub(crate) fn raw(self) -> *mut T {
        self.0
    }
}
