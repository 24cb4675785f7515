//! Device and pinned memory: host memory with an owner, a state, red zones and poison.
//!
//! A freed block keeps its address for a while (the quarantine), filled with poison, so that a stale pointer
//! is told apart from a foreign one and a late write is seen. Blocks leave the quarantine oldest first once
//! it is full.
use super::abi::Handle;
use super::codes::{Code, Result};
use super::raw::Block;
use std::collections::{BTreeMap, VecDeque};

/// What fresh memory holds: NaN in every float type, -1 in every integer type.
pub(crate) const FRESH: u8 = 0xFF;
/// What freed memory holds.
pub(crate) const FREED: u8 = 0xDD;
/// How many bytes of freed blocks are kept at most.
const QUARANTINE_BYTES: usize = 256 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `cuMemAlloc`: there on return.
    Device,
    /// `cuMemAllocAsync`: there once its stream has come to it.
    Async,
    /// A memory node of a graph: there from the run of its allocation node to that of its free.
    Graph,
    /// `cuMemHostAlloc`.
    Pinned,
}

/// A range inside one allocation. The serial number tells the allocation from a later one at the same
/// address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) addr: usize,
    pub(crate) len: usize,
    serial: u64,
}

pub(crate) struct Allocation {
    block: Block,
    pub(crate) kind: Kind,
    pub(crate) context: Handle,
    /// Whether the memory is there as far as the work that has run is concerned.
    pub(crate) backed: bool,
    /// Whether a free of it has been enqueued: no new work may name it.
    pub(crate) freeing: bool,
    /// For memory of a graph: whether a launch was enqueued that allocates it, and nothing yet that frees it.
    pub(crate) outstanding: bool,
    serial: u64,
}

impl Allocation {
    pub(crate) fn range(&self) -> Range {
        Range { addr: self.block.addr(), len: self.block.len(), serial: self.serial }
    }
}

#[derive(Default)]
pub(crate) struct Memory {
    live: BTreeMap<usize, Allocation>,
    freed: BTreeMap<usize, Block>,
    freed_order: VecDeque<usize>,
    freed_bytes: usize,
    serial: u64,
    device_bytes: usize,
    graph_allocations: usize,
}

/// Why a pointer was refused.
pub(crate) enum Refusal {
    Foreign,
    Freed,
    OutOfBounds { room: usize },
    NotThere,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Foreign => f.write_str("is not memory that this driver gave out"),
            Self::Freed => f.write_str("was freed"),
            Self::OutOfBounds { room } => write!(f, "has room for {room} bytes only"),
            Self::NotThere => f.write_str("is not there: its allocation has not run yet, or its free has"),
        }
    }
}

impl Memory {
    pub(crate) fn device_bytes(&self) -> usize {
        self.device_bytes
    }

    pub(crate) fn has_graph_memory(&self) -> bool {
        self.graph_allocations > 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Allocation> {
        self.live.values()
    }

    pub(crate) fn get(&self, addr: usize) -> Option<&Allocation> {
        self.live.get(&addr)
    }

    pub(crate) fn get_mut(&mut self, addr: usize) -> Option<&mut Allocation> {
        self.live.get_mut(&addr)
    }

    /// Takes a block of `len` bytes, within the device's `limit` unless it is pinned.
    pub(crate) fn allocate(
        &mut self,
        len: usize,
        kind: Kind,
        context: Handle,
        limit: usize,
    ) -> Result<Range> {
        if len == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let counted = if kind == Kind::Pinned { 0 } else { len };
        if self.device_bytes.checked_add(counted).is_none_or(|total| total > limit) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let block = Block::new(len, FRESH).ok_or(Code::OUT_OF_MEMORY)?;
        self.device_bytes += counted;
        self.graph_allocations += usize::from(kind == Kind::Graph);
        self.serial += 1;
        let backed = matches!(kind, Kind::Device | Kind::Pinned);
        let allocation = Allocation {
            block,
            kind,
            context,
            backed,
            freeing: false,
            outstanding: false,
            serial: self.serial,
        };
        let range = allocation.range();
        self.live.insert(range.addr, allocation);
        Ok(range)
    }

    /// Ends an allocation: its bytes become poison and it goes to the quarantine. Says what was written
    /// outside it.
    pub(crate) fn release(&mut self, addr: usize) -> std::result::Result<(), Option<String>> {
        let mut allocation = self.live.remove(&addr).ok_or(None)?;
        let len = allocation.block.len();
        if allocation.kind != Kind::Pinned {
            self.device_bytes -= len;
        }
        self.graph_allocations -= usize::from(allocation.kind == Kind::Graph);
        let damage = allocation.block.damage();
        allocation.block.fill(FREED);
        self.freed_bytes += len;
        self.freed_order.push_back(addr);
        self.freed.insert(addr, allocation.block);
        damage.map_or(Ok(()), |text| Err(Some(text)))
    }

    /// Lets the oldest freed blocks go while the quarantine is over its limit; says if one was written to.
    pub(crate) fn trim_quarantine(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        while self.freed_bytes > QUARANTINE_BYTES
            && let Some(addr) = self.freed_order.pop_front()
            && let Some(block) = self.freed.remove(&addr)
        {
            self.freed_bytes -= block.len();
            found.extend(late_write(&block));
        }
        found
    }

    /// Everything that was written outside an allocation or after its end, as far as it can still be seen.
    pub(crate) fn damage(&self) -> Vec<String> {
        let outside = self.live.values().filter_map(|allocation| allocation.block.damage());
        outside.chain(self.freed.values().filter_map(late_write)).collect()
    }

    /// The range of `len` bytes at `addr` for work to be enqueued, or why there is none.
    pub(crate) fn find(&self, addr: usize, len: usize) -> std::result::Result<Range, Refusal> {
        let Some((base, allocation)) = self.live.range(..=addr).next_back() else {
            return Err(self.stale_or_foreign(addr));
        };
        let end = base + allocation.block.len();
        if addr > end || (addr == end && len > 0) {
            return Err(self.stale_or_foreign(addr));
        }
        if allocation.freeing {
            return Err(Refusal::Freed);
        }
        if addr + len > end {
            return Err(Refusal::OutOfBounds { room: end - addr });
        }
        Ok(Range { addr, len, serial: allocation.serial })
    }

    /// Whether an address that a kernel gets lies in memory that is there when it runs, or at the very end of
    /// it.
    pub(crate) fn find_live(&self, addr: usize) -> std::result::Result<(), Refusal> {
        match self.live.range(..=addr).next_back() {
            Some((base, it)) if addr <= base + it.block.len() => match it.backed {
                true => Ok(()),
                false => Err(Refusal::NotThere),
            },
            _ => Err(self.stale_or_foreign(addr)),
        }
    }

    fn stale_or_foreign(&self, addr: usize) -> Refusal {
        match self.freed.range(..=addr).next_back() {
            Some((base, block)) if addr < base + block.len() => Refusal::Freed,
            _ => Refusal::Foreign,
        }
    }

    /// The kind of the allocation that a range lies in.
    pub(crate) fn kind_at(&self, range: Range) -> Option<Kind> {
        self.live
            .range(..=range.addr)
            .next_back()
            .filter(|(_, it)| it.serial == range.serial)
            .map(|(_, it)| it.kind)
    }

    /// Whether a range that was found earlier is still there when work on it runs.
    pub(crate) fn check(&self, range: Range) -> std::result::Result<(), &'static str> {
        match self.live.range(..=range.addr).next_back() {
            Some((_, allocation)) if allocation.serial == range.serial => match allocation.backed {
                true => Ok(()),
                false => Err("is used before its allocation has run or after its free has run"),
            },
            _ => Err("was freed before this work ran"),
        }
    }

    /// What was written outside the allocation that `addr` lies in.
    pub(crate) fn damage_at(&self, addr: usize) -> Option<String> {
        self.live.range(..=addr).next_back().and_then(|(_, allocation)| allocation.block.damage())
    }

    /// Fills an allocation that has just come into being or ended for the work that runs.
    pub(crate) fn refill(&mut self, addr: usize, backed: bool) {
        if let Some(allocation) = self.live.get_mut(&addr) {
            allocation.backed = backed;
            allocation.block.fill(if backed { FRESH } else { FREED });
        }
    }
}

fn late_write(block: &Block) -> Option<String> {
    let at = block.bytes().iter().position(|byte| *byte != FREED)?;
    Some(format!("byte {at} of {} at {:#x} was written after the free", block.len(), block.addr()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_told_foreign_from_freed_from_too_short() {
        let mut memory = Memory::default();
        let range = memory.allocate(100, Kind::Device, 1, 1000).expect("100 of 1000 bytes");
        assert!(memory.find(range.addr + 60, 40).is_ok());
        assert!(matches!(memory.find(range.addr + 60, 41), Err(Refusal::OutOfBounds { room: 40 })));
        let local = 0u8;
        assert!(matches!(memory.find(&raw const local as usize, 1), Err(Refusal::Foreign)));
        memory.release(range.addr).expect("an undamaged block");
        assert!(matches!(memory.find(range.addr + 1, 1), Err(Refusal::Freed)));
        assert!(memory.check(range).is_err());
        assert_eq!(memory.device_bytes(), 0);
    }

    #[test]
    fn the_limit_holds_for_device_memory_only() {
        let mut memory = Memory::default();
        assert_eq!(memory.allocate(11, Kind::Device, 1, 10), Err(Code::OUT_OF_MEMORY));
        assert_eq!(memory.allocate(0, Kind::Device, 1, 10), Err(Code::INVALID_VALUE));
        assert!(memory.allocate(11, Kind::Pinned, 1, 10).is_ok());
    }

    #[test]
    fn a_write_past_the_end_and_one_after_the_free_are_seen() {
        let mut memory = Memory::default();
        let range = memory.allocate(5, Kind::Device, 1, 100).expect("5 of 100 bytes");
        assert_eq!(memory.damage(), Vec::<String>::new());
        super::super::raw::write(range.addr + 5, &[1]);
        assert_eq!(memory.damage().len(), 1);
        let text = memory.release(range.addr).expect_err("damage").expect("a text");
        assert!(text.contains("past the end"), "{text}");
        assert_eq!(memory.damage(), Vec::<String>::new());
        super::super::raw::write(range.addr + 2, &[1]);
        assert!(memory.damage()[0].contains("byte 2 of 5"), "{:?}", memory.damage());
    }
}
