//! Copies and fills.
use crate::driver::abi::{Handle, HostPtr};
use crate::driver::codes::{Code, Result};
use crate::driver::context::legacy_stream;
use crate::driver::memory::{Kind, Range, Refusal};
use crate::driver::op::{End, Op};
use crate::driver::probe::driver_functions;
use crate::driver::state::{State, enter};
use std::ffi::{c_uchar, c_uint, c_ushort};

driver_functions! {
    fn cuMemcpyHtoD_v2(dst: u64, src: HostPtr, bytes: usize) {
        synchronous(|state, _| copy(state, Place::Device(dst), Place::Host(src), bytes, false))
    }

    fn cuMemcpyDtoH_v2(dst: HostPtr, src: u64, bytes: usize) {
        synchronous(|state, _| copy(state, Place::Host(dst), Place::Device(src), bytes, false))
    }

    fn cuMemcpyDtoD_v2(dst: u64, src: u64, bytes: usize) {
        synchronous(|state, _| copy(state, Place::Device(dst), Place::Device(src), bytes, false))
    }

    fn cuMemcpyHtoDAsync_v2(dst: u64, src: HostPtr, bytes: usize, stream: Handle) {
        asynchronous(stream, |state, capturing| {
            // Pageable memory is read before the call returns, unless the copy is captured.
            copy(state, Place::Device(dst), Place::Host(src), bytes, !capturing)
        })
    }

    fn cuMemcpyDtoHAsync_v2(dst: HostPtr, src: u64, bytes: usize, stream: Handle) {
        asynchronous(stream, |state, _| copy(state, Place::Host(dst), Place::Device(src), bytes, false))
    }

    fn cuMemcpyDtoDAsync_v2(dst: u64, src: u64, bytes: usize, stream: Handle) {
        asynchronous(stream, |state, _| copy(state, Place::Device(dst), Place::Device(src), bytes, false))
    }

    fn cuMemcpy(dst: HostPtr, src: HostPtr, bytes: usize) {
        synchronous(|state, _| copy(state, Place::Any(dst), Place::Any(src), bytes, false))
    }

    fn cuMemcpyAsync(dst: HostPtr, src: HostPtr, bytes: usize, stream: Handle) {
        asynchronous(stream, |state, capturing| {
            copy(state, Place::Any(dst), Place::Any(src), bytes, !capturing)
        })
    }

    fn cuMemsetD8_v2(dst: u64, value: c_uchar, count: usize) {
        synchronous(|state, _| set(state, dst, value.into(), 1, count))
    }

    fn cuMemsetD32_v2(dst: u64, value: c_uint, count: usize) {
        synchronous(|state, _| set(state, dst, value, 4, count))
    }

    fn cuMemsetD8Async(dst: u64, value: c_uchar, count: usize, stream: Handle) {
        asynchronous(stream, |state, _| set(state, dst, value.into(), 1, count))
    }

    fn cuMemsetD16Async(dst: u64, value: c_ushort, count: usize, stream: Handle) {
        asynchronous(stream, |state, _| set(state, dst, value.into(), 2, count))
    }

    fn cuMemsetD32Async(dst: u64, value: c_uint, count: usize, stream: Handle) {
        asynchronous(stream, |state, _| set(state, dst, value, 4, count))
    }
}

enum Place {
    Device(u64),
    Host(HostPtr),
    /// Whatever the address turns out to be.
    Any(HostPtr),
}

/// A synchronous call works in the legacy stream and waits for it.
fn synchronous(make: impl FnOnce(&mut State, bool) -> Result<Option<Op>>) -> Result {
    let (mut state, context) = enter()?;
    let key = legacy_stream(context);
    state.check_legacy(key)?;
    state.check_unsafe_call("a synchronous copy or memset")?;
    if let Some(op) = make(&mut state, false)? {
        state.submit(key, op)?;
        state.synchronise(key)?;
    }
    Ok(())
}

fn asynchronous(stream: Handle, make: impl FnOnce(&mut State, bool) -> Result<Option<Op>>) -> Result {
    let (mut state, context) = enter()?;
    let key = state.stream_key(context, stream)?;
    let capturing = state.stream(key)?.capture.is_some();
    let Some(op) = make(&mut state, capturing)? else { return Ok(()) };
    // A copy to pageable memory is over when the call returns.
    let wait = !capturing && matches!(op, Op::Copy { dst: End::Pageable(_), .. });
    state.submit(key, op)?;
    if wait {
        state.synchronise(key)?;
    }
    Ok(())
}

fn copy(state: &mut State, dst: Place, src: Place, len: usize, stage: bool) -> Result<Option<Op>> {
    if len == 0 {
        return Ok(None);
    }
    let src = match end(state, &src, len)? {
        End::Pageable(addr) if stage => End::Staged(HostPtr::of(addr).read(len).into()),
        end => end,
    };
    let dst = end(state, &dst, len)?;
    Ok(Some(Op::Copy { dst, src, len }))
}

fn set(state: &mut State, dst: u64, value: u32, width: usize, count: usize) -> Result<Option<Op>> {
    if count == 0 {
        return Ok(None);
    }
    if !(dst as usize).is_multiple_of(width) {
        return Err(Code::INVALID_VALUE);
    }
    let bytes = count.checked_mul(width).ok_or(Code::INVALID_VALUE)?;
    let dst = device(state, dst as usize, bytes)?;
    Ok(Some(Op::Set { dst, value, width, count }))
}

fn device(state: &mut State, addr: usize, len: usize) -> Result<Range> {
    match state.memory.find(addr, len) {
        Ok(range) => Ok(range),
        Err(refusal) => state.refuse(Code::INVALID_VALUE, format!("{len} bytes at {addr:#x}: it {refusal}")),
    }
}

/// One end of a copy. A host pointer must not be device memory, nor pinned memory that was freed.
fn end(state: &mut State, place: &Place, len: usize) -> Result<End> {
    let pointer = match place {
        Place::Device(addr) => return device(state, *addr as usize, len).map(End::Ours),
        Place::Host(pointer) | Place::Any(pointer) => pointer.addr(),
    };
    if pointer == 0 {
        return Err(Code::INVALID_VALUE);
    }
    match state.memory.find(pointer, len) {
        Ok(range) if matches!(place, Place::Any(_)) => Ok(End::Ours(range)),
        Ok(range) if state.memory.kind_at(range) == Some(Kind::Pinned) => Ok(End::Ours(range)),
        Ok(_) => state.refuse(Code::INVALID_VALUE, format!("{pointer:#x} is device memory, not the host's")),
        Err(Refusal::Foreign) => Ok(End::Pageable(pointer)),
        Err(refusal) => state.refuse(Code::INVALID_VALUE, format!("host memory at {pointer:#x} {refusal}")),
    }
}
