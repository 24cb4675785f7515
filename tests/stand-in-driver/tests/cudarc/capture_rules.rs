//! Each of the capture errors 900 to 908, provoked through cudarc, and what is left of the capture
//! afterwards.
use super::*;
use cudarc::driver::CudaEvent;

/// Ends a capture that a broken rule has invalidated, and sees that the stream is usable again.
fn ends_invalidated(stream: &Arc<CudaStream>) {
    assert_eq!(code(stream.end_capture(NO_FLAGS)), 901);
    stream.begin_capture(THREAD_LOCAL).expect("the stream is free again");
    assert!(stream.end_capture(NO_FLAGS).expect("an empty capture").is_some());
}

fn event(stream: &Arc<CudaStream>) -> CudaEvent {
    stream.record_event(None).expect("an event")
}

#[test]
fn waiting_for_a_captured_stream_is_900_and_901_from_then_on() {
    let _session = session();
    let (_context, stream) = start();
    let mut data = stream.alloc_zeros::<u32>(4).expect("memory");
    for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
        stream.begin_capture(mode).expect("begin");
        assert_eq!(code(stream.synchronize()), 900, "{mode:?}");
        assert_eq!(
            stream.capture_status().expect("status"),
            sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_INVALIDATED
        );
        assert_eq!(code(stream.memset_zeros(&mut data)), 901);
        ends_invalidated(&stream);
    }
}

#[test]
fn the_legacy_stream_cannot_be_captured_900() {
    let _session = session();
    let (context, _stream) = start();
    assert_eq!(code(context.default_stream().begin_capture(RELAXED)), 900);
}

#[test]
fn a_wait_for_the_context_is_900_from_any_thread_in_any_mode() {
    let _session = session();
    for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
        let (context, stream) = start();
        stream.begin_capture(mode).expect("begin");
        let other = context.clone();
        assert_eq!(std::thread::spawn(move || code(other.synchronize())).join().expect("no panic"), 900);
        ends_invalidated(&stream);
    }
}

/// Allocates synchronously; the call that every mode but RELAXED prohibits.
fn allocate(context: &CudaContext) -> u32 {
    context.bind_to_thread().expect("bind");
    let mut pointer = 0;
    // SAFETY: the pointer is valid for the write.
    let result = unsafe { sys::cuMemAlloc_v2(&raw mut pointer, 64) };
    if pointer != 0 {
        // SAFETY: allocated just now.
        assert_eq!(raw(unsafe { sys::cuMemFree_v2(pointer) }), 0);
    }
    raw(result)
}

/// Calls `allocate` after the thread has exchanged its own mode.
fn allocate_in_mode(context: &CudaContext, mut mode: CaptureMode) -> u32 {
    context.bind_to_thread().expect("bind");
    // SAFETY: the pointer is valid for the exchange.
    assert_eq!(raw(unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) }), 0);
    let found = allocate(context);
    // SAFETY: as above; it puts the old mode back.
    assert_eq!(raw(unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) }), 0);
    found
}

#[test]
fn unsafe_calls_are_900_by_the_modes_of_capture_and_thread() {
    let _session = session();
    // Mode of the capture; mode of the calling thread; from the capturing thread; from another one.
    let cases = [
        (GLOBAL, GLOBAL, 900, 900),
        (GLOBAL, THREAD_LOCAL, 900, 0),
        (GLOBAL, RELAXED, 0, 0),
        (THREAD_LOCAL, GLOBAL, 900, 0),
        (THREAD_LOCAL, THREAD_LOCAL, 900, 0),
        (THREAD_LOCAL, RELAXED, 0, 0),
        (RELAXED, GLOBAL, 0, 0),
        (RELAXED, THREAD_LOCAL, 0, 0),
        (RELAXED, RELAXED, 0, 0),
    ];
    for (capture, thread, here, there) in cases {
        for (elsewhere, expected) in [(false, here), (true, there)] {
            let (context, stream) = start();
            stream.begin_capture(capture).expect("begin");
            let found = if elsewhere {
                let context = context.clone();
                std::thread::spawn(move || allocate_in_mode(&context, thread)).join().expect("no panic")
            } else {
                allocate_in_mode(&context, thread)
            };
            assert_eq!(
                found, expected,
                "{capture:?} captured, {thread:?} calls, another thread: {elsewhere}"
            );
            let end = code(stream.end_capture(NO_FLAGS));
            assert_eq!(end, if expected == 0 { 0 } else { 901 }, "{capture:?}, {thread:?}, {elsewhere}");
        }
    }
}

#[test]
fn every_kind_of_unsafe_call_is_prohibited() {
    let _session = session();
    let (context, stream) = start();
    let other = context.new_stream().expect("a stream");
    let data = stream.clone_htod(&[1u8; 8]).expect("memory");
    let ready = event(&other);
    stream.synchronize().expect("wait");
    // SAFETY: all handles are alive; host memory outlives the calls, which are refused anyway.
    let calls: [(&str, &dyn Fn() -> u32); 7] = [
        ("pinned memory", &|| code(unsafe { context.alloc_pinned::<u8>(8) })),
        ("synchronous copy", &|| {
            let (pointer, mut byte) = (cudarc::driver::DevicePtr::device_ptr(&data, &other).0, [0u8; 8]);
            // SAFETY: the source is eight bytes long.
            code(unsafe { cudarc::driver::result::memcpy_dtoh_sync(&mut byte, pointer) })
        }),
        ("wait for another stream", &|| code(other.synchronize())),
        ("query of another stream", &|| raw(unsafe { sys::cuStreamQuery(other.cu_stream()) })),
        ("query of an event", &|| code(ready.try_is_complete())),
        ("wait for an event", &|| code(ready.synchronize())),
        ("module", &|| {
            code(context.load_module(cudarc::nvrtc::Ptx::from_src(".version 8.0\n.target sm_80\n")))
        }),
    ];
    for (what, call) in calls {
        assert_eq!(call(), 0, "{what} outside a capture");
        stream.begin_capture(THREAD_LOCAL).expect("begin");
        assert_eq!(call(), 900, "{what}");
        ends_invalidated(&stream);
    }
}

#[test]
fn a_wait_for_an_event_of_another_capture_is_902_and_ends_both() {
    let _session = session();
    let (context, a) = start();
    let b = context.new_stream().expect("a stream");
    a.begin_capture(RELAXED).expect("begin");
    b.begin_capture(RELAXED).expect("begin");
    let of_a = event(&a);
    assert_eq!(code(b.wait(&of_a)), 902);
    ends_invalidated(&b);
    ends_invalidated(&a);
}

#[test]
fn ending_a_capture_in_a_forked_stream_is_903() {
    let _session = session();
    let (context, stream) = start();
    let fork = context.new_stream().expect("a stream");
    stream.begin_capture(THREAD_LOCAL).expect("begin");
    fork.join(&stream).expect("fork");
    assert_eq!(code(fork.end_capture(NO_FLAGS)), 903);
    ends_invalidated(&stream);
}

#[test]
fn a_fork_that_is_not_joined_is_904_and_a_joined_one_is_not() {
    let _session = session();
    let (context, stream) = start();
    let fork = context.new_stream().expect("a stream");
    let mut data = stream.alloc_zeros::<u32>(4).expect("memory");
    stream.synchronize().expect("wait");
    stream.begin_capture(THREAD_LOCAL).expect("begin");
    fork.join(&stream).expect("fork");
    fork.memset_zeros(&mut data).expect("work in the fork");
    assert_eq!(code(stream.end_capture(NO_FLAGS)), 904);
    // The capture is over, for both streams.
    fork.memset_zeros(&mut data).expect("work outside a capture");
    fork.synchronize().expect("wait");

    stream.begin_capture(THREAD_LOCAL).expect("begin");
    fork.join(&stream).expect("fork");
    fork.memset_zeros(&mut data).expect("work in the fork");
    stream.join(&fork).expect("join");
    assert!(stream.end_capture(NO_FLAGS).expect("a graph").is_some());
}

#[test]
fn a_wait_for_an_event_from_before_the_capture_is_905() {
    let _session = session();
    let (_context, stream) = start();
    let before = event(&stream);
    stream.begin_capture(THREAD_LOCAL).expect("begin");
    assert_eq!(code(stream.wait(&before)), 905);
    ends_invalidated(&stream);
}

#[test]
fn cudarc_event_tracking_breaks_a_capture_with_905_while_its_calls_return_ok() {
    let _session = session();
    let context = CudaContext::new(0).expect("a context");
    let stream = context.new_stream().expect("a stream");
    let mut data = stream.alloc_zeros::<u32>(4).expect("tracked memory");
    stream.synchronize().expect("wait");
    stream.begin_capture(THREAD_LOCAL).expect("begin");
    // The wait for the slice's event fails inside a function that cannot say so: the error is parked.
    let parked = code(stream.memset_zeros(&mut data));
    assert_eq!(parked, 901, "the memset itself meets an invalid capture");
    assert_eq!(code(context.check_err()), 905);
    assert_eq!(code(stream.end_capture(NO_FLAGS)), 901);
}

#[test]
fn the_legacy_stream_is_906_while_a_blocking_stream_is_captured() {
    let _session = session();
    let (context, plain) = start();
    let mut data = plain.alloc_zeros::<u32>(4).expect("memory");
    plain.synchronize().expect("wait");
    let mut blocking = std::ptr::null_mut();
    // SAFETY: the pointer is valid for the write.
    assert_eq!(raw(unsafe { sys::cuStreamCreate(&raw mut blocking, 0) }), 0);
    // SAFETY: the stream lives until the end of the test.
    let blocking = unsafe { context.wrap_borrowed_stream(blocking) };
    let legacy = context.default_stream();
    blocking.begin_capture(RELAXED).expect("begin");
    assert_eq!(code(legacy.memset_zeros(&mut data)), 906);
    ends_invalidated(&blocking);
    blocking.begin_capture(RELAXED).expect("begin");
    assert_eq!(code(legacy.synchronize()), 906);
    ends_invalidated(&blocking);
    // A stream that does not block it is no concern of the legacy stream.
    plain.begin_capture(RELAXED).expect("begin");
    legacy.memset_zeros(&mut data).expect("work in the legacy stream");
    assert!(plain.end_capture(NO_FLAGS).expect("a graph").is_some());
    // SAFETY: the stream was created above and is used no more.
    assert_eq!(raw(unsafe { sys::cuStreamDestroy_v2(blocking.cu_stream()) }), 0);
}

#[test]
fn a_captured_event_is_907_to_queries_and_waits_even_after_the_capture() {
    let _session = session();
    let (context, stream) = start();
    let other = context.new_stream().expect("a stream");
    for ask in [CudaEvent::synchronize, |event: &CudaEvent| event.try_is_complete().map(|_| ())] {
        stream.begin_capture(RELAXED).expect("begin");
        let captured = event(&stream);
        assert_eq!(code(ask(&captured)), 907);
        ends_invalidated(&stream);
    }
    stream.begin_capture(RELAXED).expect("begin");
    let captured = event(&stream);
    assert!(stream.end_capture(NO_FLAGS).expect("a graph").is_some());
    assert_eq!(code(captured.synchronize()), 907);
    assert_eq!(code(other.wait(&captured)), 907);
    captured.record(&stream).expect("a record outside a capture");
    captured.synchronize().expect("an ordinary event again");
}

#[test]
fn ending_a_capture_in_another_thread_is_908_unless_it_is_relaxed() {
    let _session = session();
    for (mode, expected) in [(GLOBAL, 908), (THREAD_LOCAL, 908), (RELAXED, 0)] {
        let (_context, stream) = start();
        stream.begin_capture(mode).expect("begin");
        let there = stream.clone();
        let end = move || {
            let mut graph = std::ptr::null_mut();
            there.context().bind_to_thread().expect("bind");
            // SAFETY: the pointer is valid for the write.
            let found = unsafe { sys::cuStreamEndCapture(there.cu_stream(), &raw mut graph) };
            if !graph.is_null() {
                // SAFETY: the graph was made just now.
                assert_eq!(raw(unsafe { sys::cuGraphDestroy(graph) }), 0);
            }
            raw(found)
        };
        assert_eq!(std::thread::spawn(end).join().expect("no panic"), expected, "{mode:?}");
        if expected != 0 {
            ends_invalidated(&stream);
        }
    }
}

#[test]
fn beginning_twice_and_ending_nothing_are_illegal_states() {
    let _session = session();
    let (_context, stream) = start();
    assert_eq!(code(stream.end_capture(NO_FLAGS)), 401);
    stream.begin_capture(THREAD_LOCAL).expect("begin");
    assert_eq!(code(stream.begin_capture(THREAD_LOCAL)), 401);
    assert!(stream.end_capture(NO_FLAGS).expect("the first one is unharmed").is_some());
}

#[test]
fn destroying_a_graph_inside_a_capture_is_900() {
    let _session = session();
    let (context, stream) = start();
    stream.begin_capture(THREAD_LOCAL).expect("begin");
    let old = stream.end_capture(NO_FLAGS).expect("a graph").expect("a graph");
    stream.begin_capture(THREAD_LOCAL).expect("begin");
    drop(old);
    // A destructor cannot return its error: cudarc keeps it, and the capture is void.
    assert_eq!(code(context.check_err()), 900);
    assert_eq!(code(stream.end_capture(NO_FLAGS)), 901);
}
