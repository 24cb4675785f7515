//! Pointers that cross the driver's C interface, each with the one place where it is followed.
//!
//! The driver's functions take these types where the C header has a bare pointer. All of them are
//! transparent, so the calling convention is the pointer's. Whoever calls a driver function promises what the
//! CUDA headers demand of the argument (valid for the access or null); every SAFETY comment below rests on
//! that promise.
use super::codes::{Code, Result};
use std::ffi::{CStr, c_char, c_int, c_void};

/// Anything that the driver hands out by number: contexts, streams, events, graphs.
pub(crate) type Handle = usize;

/// A `T*` that a function writes one value through.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Writes the value; null is an error.
    pub(crate) fn set(&self, value: T) -> Result {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller of the driver function passed a pointer valid for this write.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Writes the value unless the caller is not interested (null).
    pub(crate) fn set_if_wanted(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, and the caller of the driver function passed a pointer valid for this write.
            unsafe { self.0.write(value) };
        }
    }

    /// Writes an array. The caller of the driver function has said how many values there is room for.
    pub(crate) fn fill(&self, values: impl IntoIterator<Item = T>) {
        for (index, value) in values.into_iter().enumerate() {
            // SAFETY: the callers of `fill` pass no more values than the array's declared length.
            unsafe { self.0.add(index).write(value) };
        }
    }
}

impl<T: Copy> Out<T> {
    /// What the pointer holds on entry (in-out arguments).
    pub(crate) fn get(&self) -> Result<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and an in-out argument points to an initialised value by the driver's contract.
        Ok(unsafe { self.0.read() })
    }
}

/// A `const T*` that a function reads one value from.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    pub(crate) fn get(&self) -> Result<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller of the driver function passed a pointer to an initialised value.
        Ok(unsafe { self.0.read() })
    }
}

/// A nul-terminated string.
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn get(&self) -> Result<String> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller of the driver function passed a nul-terminated string.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| Code::INVALID_VALUE)
    }
}

/// Host memory that a copy reads or writes, or a module image: an address whose extent another argument
/// gives.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct HostPtr(*const c_void);

impl HostPtr {
    /// The pointer that a program has passed before as an address.
    pub(crate) fn of(addr: usize) -> Self {
        Self(std::ptr::with_exposed_provenance(addr))
    }

    pub(crate) fn addr(self) -> usize {
        self.0 as usize
    }

    /// A copy of the bytes.
    pub(crate) fn read(self, len: usize) -> Vec<u8> {
        // SAFETY: the caller of a copy function promises `len` readable bytes at the pointer.
        unsafe { std::slice::from_raw_parts(self.0.cast::<u8>(), len) }.to_vec()
    }

    /// The bytes up to a nul, for a module image; none where the image starts like a binary.
    pub(crate) fn read_text(self) -> Option<String> {
        if self.0.is_null() {
            return None;
        }
        for (index, expected) in b"\x7fELF".iter().enumerate() {
            // SAFETY: a module image is a binary, longer than four bytes, or nul-terminated text. All bytes
            // before this one matched the start of a binary, so none was the nul.
            if unsafe { self.0.cast::<u8>().add(index).read() } != *expected {
                return Text(self.0.cast()).get().ok();
            }
        }
        None
    }
}

/// `void** kernelParams`: one pointer per parameter.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Params(*const *const u8);

impl Params {
    /// For the caller to read: pointers that live as long as what they belong to.
    pub(crate) fn to(pointers: &[usize]) -> Self {
        Self(pointers.as_ptr().cast())
    }

    /// Copies each parameter, given as offset and size, into a block of `bytes` bytes.
    pub(crate) fn gather(&self, layout: &[(usize, usize)], bytes: usize) -> Result<Box<[u8]>> {
        let mut block = vec![0u8; bytes].into_boxed_slice();
        if self.0.is_null() && !layout.is_empty() {
            return Err(Code::INVALID_VALUE);
        }
        for (index, (offset, size)) in layout.iter().enumerate() {
            // SAFETY: the caller of a launch passes as many pointers as the kernel has parameters, each to a
            // value of the parameter's size; a null among them is refused before it is followed.
            let source = unsafe { self.0.add(index).read() };
            if source.is_null() {
                return Err(Code::INVALID_VALUE);
            }
            // SAFETY: as above for the source; the layout's extent is within `bytes`, which made the block.
            unsafe {
                std::ptr::copy_nonoverlapping(source, block[*offset..offset + size].as_mut_ptr(), *size)
            };
        }
        Ok(block)
    }
}

/// A callback that `cuLaunchHostFunc` enqueues.
pub(crate) type HostFn = unsafe extern "C" fn(*mut c_void);

/// Turns a function's outcome into its C result.
pub(crate) fn to_c(result: Result) -> c_int {
    result.err().map_or(0, |code| code.0)
}
