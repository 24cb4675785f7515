//! Allocation: device, stream-ordered, pinned.
use crate::driver::abi::{Handle, Out};
use crate::driver::codes::{Code, Result};
use crate::driver::memory::{Kind, Range};
use crate::driver::op::Op;
use crate::driver::probe::driver_functions;
use crate::driver::state::{State, enter};
use std::ffi::{c_int, c_uint};

/// The one memory pool of a device. It has no state that could be observed, only a threshold that can be read
/// back.
const POOL: Handle = 0x900;

driver_functions! {
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        let (state, _) = enter()?;
        let limit = state.settings.memory_bytes;
        free.set(limit.saturating_sub(state.memory.device_bytes()))?;
        total.set(limit)
    }

    fn cuMemAlloc_v2(pointer: Out<u64>, bytes: usize) {
        let (mut state, context) = enter()?;
        state.check_unsafe_call("cuMemAlloc")?;
        let range = allocate(&mut state, bytes, Kind::Device, context)?;
        pointer.set(range.addr as u64)
    }

    fn cuMemFree_v2(pointer: u64) {
        let (mut state, context) = enter()?;
        if pointer == 0 {
            return Ok(());
        }
        state.check_unsafe_call("cuMemFree")?;
        let range = owned(&mut state, pointer as usize, &[Kind::Device, Kind::Async, Kind::Graph])?;
        match state.memory.get(range.addr).map(|it| it.kind) {
            // Only memory of cuMemAlloc is waited for; the others are the caller's to order.
            Some(Kind::Device) => {
                state.run_context(context);
                state.outcome(context)?;
            }
            Some(Kind::Graph) => {
                state.set_outstanding(&[range], false);
                state.memory.refill(range.addr, false);
                state.sweep_graph_memory();
                return Ok(());
            }
            _ => {}
        }
        state.release_memory(range.addr);
        Ok(())
    }

    fn cuMemAllocAsync(pointer: Out<u64>, bytes: usize, stream: Handle) {
        alloc_async(&pointer, bytes, stream)
    }

    fn cuMemAllocFromPoolAsync(pointer: Out<u64>, bytes: usize, pool: Handle, stream: Handle) {
        if pool != POOL {
            return Err(Code::INVALID_VALUE);
        }
        alloc_async(&pointer, bytes, stream)
    }

    fn cuMemFreeAsync(pointer: u64, stream: Handle) {
        let (mut state, context) = enter()?;
        if pointer == 0 {
            return Ok(());
        }
        let key = state.stream_key(context, stream)?;
        let range = owned(&mut state, pointer as usize, &[Kind::Device, Kind::Async, Kind::Graph])?;
        let kind = state.memory.get(range.addr).map(|it| it.kind);
        if let Some(capture) = state.stream(key)?.capture {
            state.check_valid(capture)?;
            let ours = state.captures.get(&capture).is_some_and(|it| it.graph.allocates().any(|own| own == range));
            if !ours {
                let why = "a capture freed memory that was not allocated in it";
                return state.break_rule(capture, Code::INVALID_VALUE, why);
            }
        } else if kind == Some(Kind::Graph) {
            state.set_outstanding(&[range], false);
        } else if let Some(it) = state.memory.get_mut(range.addr) {
            it.freeing = true;
        }
        state.submit(key, Op::Free(range))
    }

    fn cuMemHostAlloc(pointer: Out<Handle>, bytes: usize, _flags: c_uint) {
        host_alloc(&pointer, bytes)
    }

    fn cuMemAllocHost_v2(pointer: Out<Handle>, bytes: usize) {
        host_alloc(&pointer, bytes)
    }

    fn cuMemFreeHost(pointer: Handle) {
        let (mut state, context) = enter()?;
        state.check_unsafe_call("cuMemFreeHost")?;
        let range = owned(&mut state, pointer, &[Kind::Pinned])?;
        state.run_context(context);
        state.outcome(context)?;
        state.release_memory(range.addr);
        Ok(())
    }

    fn cuMemHostGetDevicePointer_v2(device: Out<u64>, pointer: Handle, _flags: c_uint) {
        let (mut state, _) = enter()?;
        find(&mut state, pointer)?;
        device.set(pointer as u64)
    }

    fn cuMemGetAddressRange_v2(base: Out<u64>, bytes: Out<usize>, pointer: u64) {
        let (mut state, _) = enter()?;
        let range = find(&mut state, pointer as usize)?;
        base.set_if_wanted(range.addr as u64);
        bytes.set_if_wanted(range.len);
        Ok(())
    }

    /// The one attribute that says what kind of memory an address is in.
    fn cuPointerGetAttribute(value: Out<c_uint>, attribute: c_int, pointer: u64) {
        /// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`.
        const MEMORY_TYPE: c_int = 2;
        /// `CU_MEMORYTYPE_HOST` and `CU_MEMORYTYPE_DEVICE`.
        const TYPES: (c_uint, c_uint) = (1, 2);
        let (mut state, _) = enter()?;
        let range = find(&mut state, pointer as usize)?;
        if attribute != MEMORY_TYPE {
            return state.refuse(Code::NOT_SUPPORTED, format!("attribute {attribute} of a pointer"));
        }
        let pinned = state.memory.get(range.addr).is_some_and(|it| it.kind == Kind::Pinned);
        value.set(if pinned { TYPES.0 } else { TYPES.1 })
    }

    fn cuDeviceGetDefaultMemPool(pool: Out<Handle>, device: c_int) {
        crate::driver::state::lock()?.check_device(device)?;
        pool.set(POOL)
    }

    fn cuDeviceGetMemPool(pool: Out<Handle>, device: c_int) {
        crate::driver::state::lock()?.check_device(device)?;
        pool.set(POOL)
    }

    fn cuMemPoolSetAttribute(pool: Handle, _attribute: c_uint, _value: Handle) {
        if pool == POOL { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    fn cuMemPoolTrimTo(pool: Handle, _keep: usize) {
        if pool == POOL { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }
}

fn alloc_async(pointer: &Out<u64>, bytes: usize, stream: Handle) -> Result {
    let (mut state, context) = enter()?;
    let key = state.stream_key(context, stream)?;
    let capture = state.stream(key)?.capture;
    if let Some(capture) = capture {
        state.check_valid(capture)?;
    }
    let kind = if capture.is_some() { Kind::Graph } else { Kind::Async };
    let range = allocate(&mut state, bytes, kind, context)?;
    if let Err(code) = state.submit(key, Op::Alloc(range)) {
        state.release_memory(range.addr);
        return Err(code);
    }
    pointer.set(range.addr as u64)
}

/// Device memory. Where it is short, pending work runs first: there may be frees in it.
fn allocate(state: &mut State, bytes: usize, kind: Kind, context: Handle) -> Result<Range> {
    let limit = state.settings.memory_bytes;
    match state.memory.allocate(bytes, kind, context, limit) {
        Err(Code::OUT_OF_MEMORY) => {
            state.run_context(context);
            state.outcome(context)?;
            state.memory.allocate(bytes, kind, context, limit)
        }
        outcome => outcome,
    }
}

fn host_alloc(pointer: &Out<Handle>, bytes: usize) -> Result {
    let (mut state, context) = enter()?;
    state.check_unsafe_call("cuMemHostAlloc")?;
    let range = state.memory.allocate(bytes, Kind::Pinned, context, usize::MAX)?;
    pointer.set(range.addr)
}

/// The allocation that begins at an address, which a free must name exactly.
fn owned(state: &mut State, addr: usize, kinds: &[Kind]) -> Result<Range> {
    match state.memory.get(addr) {
        Some(it) if kinds.contains(&it.kind) && !it.freeing => Ok(it.range()),
        _ => {
            let why = match state.memory.find(addr, 0) {
                Err(refusal) => refusal.to_string(),
                Ok(_) => "is not the start of an allocation of this kind".to_owned(),
            };
            state.refuse(Code::INVALID_VALUE, format!("a free of {addr:#x}, which {why}"))
        }
    }
}

/// The allocation that an address lies in.
fn find(state: &mut State, addr: usize) -> Result<Range> {
    let found =
        state.memory.iter().map(|it| it.range()).find(|it| (it.addr..it.addr + it.len).contains(&addr));
    found.map_or_else(|| state.refuse(Code::INVALID_VALUE, format!("{addr:#x} is in no allocation")), Ok)
}
