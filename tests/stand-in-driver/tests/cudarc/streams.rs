//! When work runs, and what a missing wait shows.
use super::*;

#[test]
fn lazy_streams_show_a_missing_wait_and_eager_ones_hide_it() {
    let session = session();
    let (context, a) = start();
    let b = context.new_stream().expect("a stream");
    let mut data = a.alloc_zeros::<u32>(2).expect("memory");
    a.synchronize().expect("wait");
    a.memcpy_htod(&[7u32, 7], &mut data).expect("write");
    assert_eq!(b.clone_dtoh(&data).expect("read"), [0, 0], "b did not wait for a");
    b.join(&a).expect("wait");
    assert_eq!(b.clone_dtoh(&data).expect("read"), [7, 7]);
    session.set_lazy(false);
    a.memcpy_htod(&[8u32, 8], &mut data).expect("write");
    assert_eq!(b.clone_dtoh(&data).expect("read"), [8, 8]);
}

#[test]
fn a_wait_is_for_the_record_that_came_before_it() {
    let _session = session();
    let (context, a) = start();
    let b = context.new_stream().expect("a stream");
    let mut data = a.alloc_zeros::<u32>(1).expect("memory");
    let event = a.record_event(None).expect("an event");
    b.wait(&event).expect("wait");
    a.memcpy_htod(&[7u32], &mut data).expect("write");
    event.record(&a).expect("a later record");
    assert_eq!(b.clone_dtoh(&data).expect("read"), [0], "the wait does not see the second record");
}

#[test]
fn memory_of_one_stream_is_not_there_for_another_before_its_allocation_has_run() {
    let session = session();
    let (context, a) = start();
    let b = context.new_stream().expect("a stream");
    // SAFETY: written before it is read.
    let mut data = unsafe { a.alloc::<u32>(1) }.expect("memory");
    b.memset_zeros(&mut data).expect("enqueued");
    assert_eq!(code(b.synchronize()), 700);
    assert!(session.faults().last().is_some_and(|fault| fault.contains("before its allocation")));
}

#[test]
fn pageable_memory_is_read_before_an_asynchronous_copy_returns_and_pinned_memory_is_not() {
    let _session = session();
    let (context, stream) = start();
    let mut data = stream.alloc_zeros::<u32>(1).expect("memory");
    let mut pageable = [1u32];
    stream.memcpy_htod(&pageable, &mut data).expect("copy");
    pageable[0] = 2;
    assert_eq!(stream.clone_dtoh(&data).expect("read"), [1]);
    assert_eq!(pageable, [2]);
    // SAFETY: written before it is read.
    let mut pinned = unsafe { context.alloc_pinned::<u32>(1) }.expect("pinned memory");
    let pointer = pinned.as_mut_ptr().expect("pointer");
    // SAFETY: the pinned memory outlives the copy; changing it too early is what the test is about.
    unsafe {
        pointer.write(3);
        let to = cudarc::driver::DevicePtrMut::device_ptr_mut(&mut data, &stream).0;
        assert_eq!(raw(sys::cuMemcpyHtoDAsync_v2(to, pointer.cast(), 4, stream.cu_stream())), 0);
        pointer.write(4);
    }
    assert_eq!(stream.clone_dtoh(&data).expect("read"), [4], "the copy had not run when its source changed");
}

#[test]
fn polling_an_event_comes_to_an_end() {
    let _session = session();
    let (_context, stream) = start();
    let mut data = stream.alloc_zeros::<u32>(1).expect("memory");
    stream.memset_zeros(&mut data).expect("memset");
    let event = stream.record_event(None).expect("an event");
    assert!(!event.try_is_complete().expect("no error"), "nothing has waited yet");
    let polls = (0..100).take_while(|_| !event.try_is_complete().expect("no error")).count();
    assert!((1..100).contains(&polls), "{polls}");
}

#[test]
fn the_legacy_stream_and_blocking_streams_wait_for_each_other_and_others_do_not() {
    let _session = session();
    let (context, plain) = start();
    let legacy = context.default_stream();
    let mut data = legacy.alloc_zeros::<u32>(1).expect("memory");
    legacy.synchronize().expect("wait");
    legacy.memcpy_htod(&[5u32], &mut data).expect("write");
    assert_eq!(plain.clone_dtoh(&data).expect("read"), [0], "a non-blocking stream does not wait");
    let blocking = context.per_thread_stream();
    assert_eq!(blocking.clone_dtoh(&data).expect("read"), [5]);
    blocking.memcpy_htod(&[6u32], &mut data).expect("write");
    assert_eq!(legacy.clone_dtoh(&data).expect("read"), [6]);
}

#[test]
fn a_host_function_may_not_call_the_driver() {
    extern "C" fn ask(data: *mut std::ffi::c_void) {
        let mut count = 0;
        // SAFETY: the launch below passes a place for the answer that outlives the work.
        unsafe { *data.cast::<u32>() = sys::cuDeviceGetCount(&raw mut count) as u32 };
    }
    let _session = session();
    let (_context, stream) = start();
    let mut answer = 0u32;
    // SAFETY: the place for the answer outlives the work.
    unsafe { sys::cuLaunchHostFunc(stream.cu_stream(), Some(ask), (&raw mut answer).cast()) }
        .result()
        .expect("enqueued");
    stream.synchronize().expect("wait");
    assert_eq!(answer, 800);
}

#[test]
fn elapsed_time_needs_two_timed_events_that_have_happened() {
    let _session = session();
    let (context, stream) = start();
    let timed = Some(sys::CUevent_flags::CU_EVENT_DEFAULT);
    let (start, end) =
        (stream.record_event(timed).expect("event"), stream.record_event(timed).expect("event"));
    assert!(start.elapsed_ms(&end).expect("a time") >= 0.0);
    let untimed = stream.record_event(None).expect("event");
    assert_eq!(code(start.elapsed_ms(&untimed)), 400);
    let never = context.new_event(timed).expect("event");
    assert_eq!(code(start.elapsed_ms(&never)), 400);
}
