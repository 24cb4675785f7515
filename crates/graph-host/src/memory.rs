//! Memory, and every `unsafe` of this crate.
//!
//! The argument in one place. Slices of device memory exist only while [`Launch::run`] (or [`Word::store`]) runs, which
//! needs the [`Turn`] of the memory's own device. There is one turn per device and a thread that has one gets no other,
//! so no two operations that could touch the same memory ever run at the same time, nested ones included. Within one
//! launch, [`Launch::new`] has refused every write range that overlaps another range. What outside code does through
//! [`Pinned`]'s raw pointer is its own `unsafe` to argue.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    fmt,
    ptr::NonNull,
    slice,
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

use graph_core::{Element, ErrorKind, Result};

use crate::{
    codes,
    device::{Aside, Device},
    turn::Turn,
};

/// Device memory. Clones share it; it is freed when the last handle and the last graph that recorded it are gone.
///
/// ```
/// use graph_core::Backend;
/// use graph_host::Host;
/// let (host, mut bytes) = (Host::new(), [0; 4]);
/// let buffer = host.alloc(6)?;
/// assert_eq!(Host::buffer_bytes(&buffer), 6);
/// Host::download(&host.stream()?, &buffer, 0, &mut bytes)?;
/// assert!(f32::from_ne_bytes(bytes).is_nan(), "fresh memory is poison");
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Buffer(pub(crate) Arc<Memory>);

/// Host memory that graphs read and write: what graph-core stages inputs in. Clones share it. Zero at first.
///
/// ```
/// use graph_core::Backend;
/// let host = graph_host::Host::new();
/// let pinned = host.alloc_pinned(64)?;
/// assert_eq!(graph_host::Host::pinned_bytes(&pinned).len(), 64);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pinned(pub(crate) Arc<Memory>);

/// What fresh device memory holds, as 16-bit words: NaN as `f16`, `bf16`, `f32` and `f64`, and no index of anything.
pub const POISON: u16 = 0x7ffa;
/// What freed device memory is overwritten with.
pub const FREED: u16 = 0x7ffd;

/// Every buffer starts at a multiple of this, as CUDA's do.
const ALIGN: usize = 256;

/// One block of the system allocator.
pub(crate) struct Allocation {
    base: NonNull<u8>,
    bytes: usize,
    layout: Layout,
}

// SAFETY: the pointer is the only one to its block, and plain bytes do not care which thread frees them.
unsafe impl Send for Allocation {}
// SAFETY: a shared `Allocation` gives its address and size only; whoever dereferences argues for it.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// Zeros where `poison` is not set; `None` when there is no memory.
    pub(crate) fn new(bytes: usize, poison: bool) -> Option<Self> {
        let layout = Layout::from_size_align(bytes.max(1), ALIGN).ok()?;
        // SAFETY: the size is not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let mut allocation = Allocation { base, bytes, layout };
        if poison {
            allocation.fill(POISON);
        }
        Some(allocation)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn fill(&mut self, word: u16) {
        // SAFETY: the block is `bytes` long, initialised since it was allocated, and `&mut self` is the only access:
        // it is called before the first handle exists and after the last one is gone.
        let all = unsafe { slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) };
        let word = word.to_ne_bytes();
        let (words, last) = all.as_chunks_mut::<8>();
        words.fill([word[0], word[1], word[0], word[1], word[0], word[1], word[0], word[1]]);
        last.iter_mut().zip(word.iter().cycle()).for_each(|(byte, p)| *byte = *p);
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        self.fill(FREED);
        // SAFETY: the block came from `alloc_zeroed` with this layout and is given back once.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

/// An allocation of a device.
pub(crate) struct Memory {
    device: Arc<Device>,
    /// There until the drop.
    allocation: Option<Allocation>,
}

impl Memory {
    pub(crate) fn new(device: Arc<Device>, allocation: Allocation) -> Arc<Self> {
        Arc::new(Memory { device, allocation: Some(allocation) })
    }

    pub(crate) fn bytes(&self) -> usize {
        self.allocation.as_ref().map_or(0, Allocation::bytes)
    }

    pub(crate) fn device_id(&self) -> u64 {
        self.device.gate.id()
    }

    fn base(&self) -> NonNull<u8> {
        self.allocation.as_ref().map_or(NonNull::dangling(), |a| a.base)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(allocation) = self.allocation.take() {
            self.device.discard(Aside::Memory(allocation));
        }
    }
}

impl Pinned {
    pub(crate) fn raw(&self) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.0.base(), self.0.bytes())
    }
}

/// A checked range of memory, which it keeps alive.
pub struct Span<T> {
    memory: Arc<Memory>,
    from: usize,
    first: NonNull<T>,
    len: usize,
}

// SAFETY: the pointer is into `memory`, which any thread may keep; it is dereferenced under the rules at the top.
unsafe impl<T: Element> Send for Span<T> {}

impl<T: Element> Span<T> {
    /// `len` elements from byte `from` of the memory.
    pub(crate) fn new(what: &'static str, memory: &Arc<Memory>, from: usize, len: usize) -> Result<Self> {
        let bytes = memory.bytes();
        let to = len.checked_mul(size_of::<T>()).and_then(|n| n.checked_add(from)).unwrap_or(usize::MAX);
        if to > bytes {
            return Err(ErrorKind::OutOfBounds { what, from, to, bytes }.into());
        }
        if !from.is_multiple_of(align_of::<T>()) {
            let detail = format_args!("byte {from} is not aligned to {}", T::ELEM.name());
            return Err(codes::error(what, codes::MISALIGNED_ADDRESS, detail));
        }
        // SAFETY: `from` is at most `bytes`: within the block, or one past it.
        let first = unsafe { memory.base().add(from) }.cast();
        Ok(Span { memory: memory.clone(), from, first, len })
    }

    fn extent(&self) -> Extent<'_> {
        Extent { memory: &self.memory, from: self.from, to: self.from + self.len * size_of::<T>() }
    }

    /// The range: in bounds, aligned, and initialised since it was allocated; any bits are a `T`.
    #[inline]
    fn raw(&self) -> *mut [T] {
        NonNull::slice_from_raw_parts(self.first, self.len).as_ptr()
    }
}

/// The bytes of a range.
#[derive(Clone, Copy)]
pub struct Extent<'s> {
    memory: &'s Arc<Memory>,
    from: usize,
    to: usize,
}

impl Extent<'_> {
    fn overlaps(&self, other: &Extent<'_>) -> bool {
        Arc::ptr_eq(self.memory, other.memory) && self.from.max(other.from) < self.to.min(other.to)
    }
}

/// Entries of the largest tuple.
const MOST: usize = 8;

/// The range of each entry of a tuple.
pub(crate) type Extents<'s> = [Option<Extent<'s>>; MOST];

/// A tuple of [`Span`]s that a launch reads.
pub trait ReadSpans: Send + 'static {
    /// A tuple of slices.
    type Slices<'s>;
    /// The ranges.
    fn extents(&self) -> Extents<'_>;
    /// The slices.
    ///
    /// # Safety
    /// As long as they live nobody writes the ranges.
    unsafe fn slices(&self) -> Self::Slices<'_>;
}

/// A tuple of [`Span`]s that a launch writes.
pub trait WriteSpans: Send + 'static {
    /// A tuple of slices.
    type Slices<'s>;
    /// The ranges.
    fn extents(&self) -> Extents<'_>;
    /// The slices.
    ///
    /// # Safety
    /// The ranges do not overlap, and as long as the slices live nobody else reads or writes them.
    unsafe fn slices(&self) -> Self::Slices<'_>;
}

macro_rules! tuples {
    ($($($t:ident $i:tt)*;)*) => { $(
        impl<$($t: Element),*> ReadSpans for ($(Span<$t>,)*) {
            type Slices<'s> = ($(&'s [$t],)*);
            #[inline]
            fn extents(&self) -> Extents<'_> {
                let mut all = [None; MOST];
                $(all[$i] = Some(self.$i.extent());)*
                all
            }
            #[inline]
            unsafe fn slices(&self) -> Self::Slices<'_> {
                // SAFETY: `raw` is valid for the element; the caller promises the rest, for each range.
                ($(unsafe { &*self.$i.raw() },)*)
            }
        }
        impl<$($t: Element),*> WriteSpans for ($(Span<$t>,)*) {
            type Slices<'s> = ($(&'s mut [$t],)*);
            #[inline]
            fn extents(&self) -> Extents<'_> {
                let mut all = [None; MOST];
                $(all[$i] = Some(self.$i.extent());)*
                all
            }
            #[inline]
            unsafe fn slices(&self) -> Self::Slices<'_> {
                // SAFETY: as above.
                ($(unsafe { &mut *self.$i.raw() },)*)
            }
        }
    )* };
}
tuples! {
    A 0;
    A 0 B 1;
    A 0 B 1 C 2;
    A 0 B 1 C 2 D 3;
    A 0 B 1 C 2 D 3 E 4;
    A 0 B 1 C 2 D 3 E 4 F 5;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6;
    A 0 B 1 C 2 D 3 E 4 F 5 G 6 H 7;
}

impl ReadSpans for () {
    type Slices<'s> = ();
    fn extents(&self) -> Extents<'_> {
        [None; MOST]
    }
    unsafe fn slices(&self) {}
}
impl WriteSpans for () {
    type Slices<'s> = ();
    fn extents(&self) -> Extents<'_> {
        [None; MOST]
    }
    unsafe fn slices(&self) {}
}

/// The checked ranges of one operation.
pub(crate) struct Launch<R, W> {
    gate: u64,
    reads: R,
    writes: W,
}

impl<R: ReadSpans, W: WriteSpans> Launch<R, W> {
    /// Refuses memory of another device, and a write range that overlaps any other range. Allocates nothing.
    pub(crate) fn new(what: &str, device: &Device, reads: R, writes: W) -> Result<Self> {
        let gate = device.gate.id();
        let (read, written) = (reads.extents(), writes.extents());
        for argument in arguments("read", &read).chain(arguments("write", &written)) {
            if argument.extent.memory.device_id() != gate {
                let detail = format_args!("{argument} is memory of another device");
                return Err(codes::error(what, codes::INVALID_HANDLE, detail));
            }
        }
        for (i, write) in arguments("write", &written).enumerate() {
            let mut others = arguments("read", &read).chain(arguments("write", &written).take(i));
            if let Some(other) = others.find(|other| other.extent.overlaps(write.extent)) {
                let detail = format_args!(
                    "{write} overlaps {other} of the same buffer; to work in place, name the range only as a write, \
                     which may be read as well"
                );
                return Err(codes::error(what, codes::INVALID_VALUE, detail));
            }
        }
        Ok(Launch { gate, reads, writes })
    }

    /// Runs a body on the slices.
    #[inline]
    pub(crate) fn run(&self, turn: &mut Turn<'_>, body: impl for<'s> FnOnce(R::Slices<'s>, W::Slices<'s>)) {
        assert_eq!(self.gate, turn.gate(), "an operation of one device on the turn of another");
        // SAFETY: every range is memory of the device whose turn this is, so no other operation touches it, on any
        // thread; this one cannot nest another, for it borrows the turn and its thread gets no second one. Its own
        // ranges were checked by `new`: no write overlaps anything. `self` keeps the memory alive. The body takes any
        // lifetime, so it can keep no slice.
        let (reads, writes) = unsafe { (self.reads.slices(), self.writes.slices()) };
        body(reads, writes);
    }
}

/// A range of a launch, for messages.
struct Argument<'e> {
    side: &'static str,
    index: usize,
    extent: &'e Extent<'e>,
}

fn arguments<'e>(side: &'static str, all: &'e Extents<'_>) -> impl Iterator<Item = Argument<'e>> {
    all.iter().flatten().enumerate().map(move |(index, extent)| Argument { side, index, extent })
}

impl fmt::Display for Argument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} (bytes {}..{})", self.side, self.index, self.extent.from, self.extent.to)
    }
}

/// A word of pinned memory that the host polls.
pub(crate) struct Word {
    memory: Arc<Memory>,
    at: usize,
}

/// A word that does not keep its memory alive.
pub(crate) struct WeakWord {
    memory: Weak<Memory>,
    at: usize,
}

impl WeakWord {
    /// Whether it is the word at byte `at` of this memory.
    pub(crate) fn is(&self, pinned: &Pinned, at: usize) -> bool {
        std::ptr::eq(self.memory.as_ptr(), Arc::as_ptr(&pinned.0)) && self.at == at
    }

    /// The word, while its memory is there.
    pub(crate) fn upgrade(&self) -> Option<Word> {
        Some(Word { memory: self.memory.upgrade()?, at: self.at })
    }
}

impl Word {
    /// The `u32` at byte `at`.
    pub(crate) fn new(what: &'static str, pinned: &Pinned, at: usize) -> Result<Self> {
        let span = Span::<u32>::new(what, &pinned.0, at, 1)?;
        Ok(Word { memory: span.memory, at })
    }

    pub(crate) fn downgrade(&self) -> WeakWord {
        WeakWord { memory: Arc::downgrade(&self.memory), at: self.at }
    }

    /// Whether the virtual clock keeps the value back.
    #[inline]
    pub(crate) fn postponed(&self, value: u32) -> bool {
        self.memory.device.timeline.postpones(self, value)
    }

    /// Everything before it is seen by who loads the value with `Acquire`.
    #[inline]
    pub(crate) fn store(&self, turn: &mut Turn<'_>, value: u32) {
        assert_eq!(self.memory.device.gate.id(), turn.gate(), "a word of another device");
        // SAFETY: in bounds and aligned, as `new` checked, and alive as long as `self`. The host reads it atomically;
        // the only plain accesses are reads of `upload_block`, which the turn keeps apart.
        let word = unsafe { AtomicU32::from_ptr(self.memory.base().as_ptr().add(self.at).cast()) };
        word.store(value, Ordering::Release);
    }
}
