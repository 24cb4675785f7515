//! Blocks of memory with red zones, and the accesses that work makes to raw addresses.
use std::alloc::Layout;
use std::ptr::NonNull;

/// Device pointers are aligned to this, as the driver's are.
const ALIGN: usize = 256;
/// Bytes before and after a block that nobody may write.
const RED_ZONE: usize = ALIGN;
const RED: u8 = 0xBD;

/// An aligned block between two red zones.
pub(crate) struct Block {
    start: NonNull<u8>,
    len: usize,
    layout: Layout,
}

// SAFETY: a block owns its memory and hands out access to it through `&self` and `&mut self` only.
unsafe impl Send for Block {}

impl Block {
    pub(crate) fn new(len: usize, fill: u8) -> Option<Self> {
        let size = len.checked_add(2 * RED_ZONE)?;
        let layout = Layout::from_size_align(size, ALIGN).ok()?;
        // SAFETY: the layout's size is at least two red zones, so not zero.
        let start = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
        // SAFETY: the allocation is `size` bytes long.
        unsafe { start.as_ptr().write_bytes(RED, size) };
        let mut block = Self { start, len, layout };
        block.fill(fill);
        Some(block)
    }

    pub(crate) fn addr(&self) -> usize {
        self.start.as_ptr().expose_provenance() + RED_ZONE
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn all(&self) -> &[u8] {
        // SAFETY: the allocation is this long, is initialised since `new`, and outlives the borrow. Work that
        // writes to it through raw addresses runs under the driver's lock, as does everything that holds such
        // a slice.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.all()[RED_ZONE..RED_ZONE + self.len]
    }

    pub(crate) fn fill(&mut self, byte: u8) {
        // SAFETY: the block's bytes lie between the red zones, inside the allocation.
        unsafe { self.start.as_ptr().add(RED_ZONE).write_bytes(byte, self.len) };
    }

    /// What was written outside the block.
    pub(crate) fn damage(&self) -> Option<String> {
        let all = self.all();
        let place = format!("the {} bytes at {:#x}", self.len, self.addr());
        if let Some(at) = all[..RED_ZONE].iter().rposition(|byte| *byte != RED) {
            return Some(format!("{} bytes before {place} was written to", RED_ZONE - at));
        }
        let at = all[RED_ZONE + self.len..].iter().position(|byte| *byte != RED)?;
        Some(format!("{at} bytes past the end of {place} was written to"))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it with this layout, and nothing else frees it.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Copies between two addresses, which may overlap.
///
/// Callers have checked device and pinned ends against the allocations; a pageable end is the program's
/// promise.
pub(crate) fn copy(dst: usize, src: usize, len: usize) {
    let (src, dst) =
        (std::ptr::with_exposed_provenance::<u8>(src), std::ptr::with_exposed_provenance_mut(dst));
    // SAFETY: both ends are valid for `len` bytes by the paragraph above, and `copy` allows overlap.
    unsafe { std::ptr::copy(src, dst, len) };
}

/// Writes bytes at an address that the caller has checked.
pub(crate) fn write(dst: usize, bytes: &[u8]) {
    copy(dst, bytes.as_ptr().expose_provenance(), bytes.len());
}

/// Writes `count` times the lowest `width` bytes of `value` at an address that the caller has checked.
pub(crate) fn set(dst: usize, value: u32, width: usize, count: usize) {
    let pattern = &value.to_le_bytes()[..width];
    if width == 1 {
        // SAFETY: the caller has checked `count` bytes at the address.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(dst).write_bytes(pattern[0], count) };
        return;
    }
    for index in 0..count {
        write(dst + index * width, pattern);
    }
}
