//! Poison, bounds, use after free, foreign pointers, limits.
use super::*;
use cudarc::driver::{DevicePtr, DevicePtrMut, result};

#[test]
fn fresh_memory_reads_as_nan_and_freed_memory_cannot_be_read() {
    let _session = session();
    let (context, stream) = start();
    // SAFETY: reading it before it is written is what the test is about.
    let data = unsafe { stream.alloc::<f32>(3) }.expect("memory");
    assert!(stream.clone_dtoh(&data).expect("read").iter().all(|value| value.is_nan()));
    let stale = data.device_ptr(&stream).0;
    drop(data);
    let mut bytes = [0u8; 4];
    // SAFETY: the driver refuses the pointer.
    assert_eq!(code(unsafe { result::memcpy_dtoh_async(&mut bytes, stale, stream.cu_stream()) }), 1);
    stream.synchronize().expect("wait");
    // SAFETY: as above.
    assert_eq!(code(unsafe { result::memcpy_dtoh_sync(&mut bytes, stale) }), 1);
    assert_eq!(code(context.check_err()), 0);
    assert_eq!(bytes, [0; 4]);
}

#[test]
fn freed_pinned_memory_is_poisoned_where_it_was() {
    let session = session();
    let (context, stream) = start();
    // SAFETY: written before it is read.
    let mut pinned = unsafe { context.alloc_pinned::<u8>(4) }.expect("pinned memory");
    pinned.as_mut_slice().expect("host side").fill(1);
    let stale = pinned.as_mut_ptr().expect("pointer");
    drop(pinned);
    // SAFETY: the stand-in keeps freed memory for a while; on a real driver this read would be undefined.
    assert_eq!(unsafe { stale.read_volatile() }, 0xDD);
    assert_eq!(session.faults(), Vec::<String>::new());
    // SAFETY: as above.
    unsafe { stale.write_volatile(9) };
    assert!(session.faults()[0].contains("after the free"), "{:?}", session.faults());
    let mut data = stream.alloc_zeros::<u8>(4).expect("memory");
    // SAFETY: the driver refuses the source.
    let copied = unsafe {
        sys::cuMemcpyHtoDAsync_v2(data.device_ptr_mut(&stream).0, stale.cast(), 4, stream.cu_stream())
    };
    assert_eq!(raw(copied), 1);
}

#[test]
fn copies_and_memsets_stay_within_one_allocation() {
    let session = session();
    let (_context, stream) = start();
    let data = stream.alloc_zeros::<u8>(8).expect("memory");
    let pointer = data.device_ptr(&stream).0;
    let on = stream.cu_stream();
    let mut host = [0u8; 9];
    // SAFETY: the driver refuses what is out of bounds.
    unsafe {
        assert_eq!(code(result::memcpy_htod_async(pointer, &host, on)), 1);
        assert_eq!(code(result::memcpy_dtoh_async(&mut host, pointer, on)), 1);
        assert_eq!(code(result::memcpy_dtod_async(pointer + 4, pointer, 5, on)), 1);
        assert_eq!(code(result::memset_d8_async(pointer + 8, 0, 1, on)), 1);
        assert_eq!(code(result::memset_d8_async(pointer + 7, 0, 1, on)), 0);
        assert_eq!(code(result::memcpy_htod_async(pointer, &host[..8], on)), 0);
    }
    assert_eq!(session.faults().len(), 4, "{:?}", session.faults());
}

#[test]
fn pointers_that_the_driver_did_not_give_out_are_refused() {
    let _session = session();
    let (_context, stream) = start();
    let data = stream.alloc_zeros::<u8>(8).expect("memory");
    let pointer = data.device_ptr(&stream).0;
    let mut host = [0u8; 8];
    let on = stream.cu_stream();
    let foreign = host.as_ptr() as u64;
    // SAFETY: the driver refuses all of it.
    unsafe {
        assert_eq!(
            code(result::memcpy_dtod_async(pointer, foreign, 8, on)),
            1,
            "host memory as device memory"
        );
        assert_eq!(
            raw(sys::cuMemcpyHtoDAsync_v2(pointer, pointer as *const _, 8, on)),
            1,
            "and the other way"
        );
        assert_eq!(code(result::free_async(foreign, on)), 1);
        assert_eq!(code(result::free_async(pointer + 1, on)), 1, "not the start of an allocation");
        assert_eq!(code(result::free_host(host.as_mut_ptr().cast())), 1);
        assert_eq!(code(result::free_async(pointer, on)), 0);
        assert_eq!(code(result::free_async(pointer, on)), 1, "a second free");
    }
    std::mem::forget(data);
}

#[test]
fn stream_ordered_memory_that_is_freed_too_early_is_700() {
    let session = session();
    let (context, a) = start();
    let b = context.new_stream().expect("a stream");
    let mut data = a.alloc_zeros::<u8>(8).expect("memory");
    a.synchronize().expect("wait");
    b.memset_zeros(&mut data).expect("enqueued");
    drop(data);
    a.synchronize().expect("the free has run, the memset of b has not");
    assert_eq!(code(b.synchronize()), 700);
    assert!(session.faults().last().is_some_and(|fault| fault.contains("freed before this work ran")));
}

#[test]
fn memory_is_limited_and_reported() {
    let session = session();
    session.set_memory(1000);
    let (context, stream) = start();
    assert_eq!(code(stream.alloc_zeros::<u8>(1001)), 2);
    let data = stream.alloc_zeros::<u8>(600).expect("memory");
    assert_eq!(context.mem_get_info().expect("info"), (400, 1000));
    assert_eq!(code(stream.alloc_zeros::<u8>(401)), 2);
    drop(data);
    drop(stream.alloc_zeros::<u8>(1000).expect("the free that is pending makes room"));
    stream.synchronize().expect("wait");
    assert_eq!(context.mem_get_info().expect("info"), (1000, 1000));
}

#[test]
fn without_stream_ordered_allocation_cudarc_takes_the_synchronous_calls() {
    let session = session();
    session.set_async_alloc(false);
    let (_context, stream) = start();
    let data = stream.alloc_zeros::<u8>(8).expect("memory");
    drop(data);
    assert_eq!((session.calls("cuMemAlloc_v2"), session.calls("cuMemFree_v2")), (1, 1));
    assert_eq!((session.calls("cuMemAllocAsync"), session.calls("cuMemFreeAsync")), (0, 0));
    assert_eq!(session.live().device_bytes, 0);
}

#[test]
fn a_copy_without_direction_finds_out_what_its_ends_are() {
    let _session = session();
    let (_context, stream) = start();
    let mut data = stream.alloc_zeros::<u8>(4).expect("memory");
    let pointer = data.device_ptr_mut(&stream).0;
    let (source, mut read) = ([1u8, 2, 3, 4], [0u8; 4]);
    let on = stream.cu_stream();
    // SAFETY: all three are four bytes long; the copy to pageable memory is over when its call returns.
    unsafe {
        assert_eq!(raw(sys::cuMemcpyAsync(pointer, source.as_ptr() as u64, 4, on)), 0);
        assert_eq!(raw(sys::cuMemcpyAsync(read.as_mut_ptr() as u64, pointer, 4, on)), 0);
        assert_eq!(read, source);
        assert_eq!(raw(sys::cuMemcpyAsync(read.as_mut_ptr() as u64, pointer, 5, on)), 1);
    }
}

#[test]
fn the_driver_knows_what_kind_of_memory_an_address_is_in() {
    let _session = session();
    let (context, stream) = start();
    let device = stream.clone_htod(&[1u8; 8]).expect("memory");
    // SAFETY: the memory is not read.
    let pinned = unsafe { context.alloc_pinned::<u8>(8) }.expect("memory");
    let kind = |pointer: u64| {
        let (mut kind, which) = (0u32, sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
        // SAFETY: the attribute is a number of this size.
        let code = raw(unsafe { sys::cuPointerGetAttribute((&raw mut kind).cast(), which, pointer) });
        (code, kind)
    };
    assert_eq!(kind(cudarc::driver::DevicePtr::device_ptr(&device, &stream).0 + 7), (0, 2));
    assert_eq!(kind(pinned.as_ptr().expect("no work on it") as u64), (0, 1));
    assert_eq!(kind(&raw const context as u64), (1, 0), "memory of the program");
}
