//! Destruction: put aside while a capture runs, tried again where the driver refuses, named where it goes on refusing.

use super::*;

#[test]
fn invariant_14_what_is_dropped_inside_a_capture_is_destroyed_after_it() {
    let (session, cuda, stream) =
        start!("invariant_14_what_is_dropped_inside_a_capture_is_destroyed_after_it");
    let second = support::open().unwrap();
    let foreign = second.alloc(8).unwrap();
    let things = (
        cuda.alloc(8).unwrap(),
        cuda.alloc_pinned(8).unwrap(),
        cuda.stream().unwrap(),
        Cuda::record_event(&stream).unwrap(),
        captured(&stream, || Ok(())).unwrap(),
        cuda.instantiate(captured(&stream, || Ok(())).unwrap()).unwrap(),
        cuda.load(&toy::SOURCE).unwrap(),
    );
    let alive = session.live();
    Cuda::begin_capture(&stream).unwrap();
    let calls = session.total_calls();
    drop((things, foreign));
    assert_eq!(session.total_calls(), calls, "no driver call from a drop inside a capture");
    assert_eq!((cuda.put_aside(), second.put_aside()), ((7, 7), (1, 1)));
    Cuda::end_capture(&stream).unwrap();
    assert_eq!((cuda.put_aside(), second.put_aside()), ((0, 7), (0, 1)));
    let live = session.live();
    assert_eq!(live.device_allocations, alive.device_allocations - 2);
    let kinds = (live.pinned_allocations, live.streams, live.events, live.graphs, live.execs, live.modules);
    assert_eq!(kinds, (0, 1, 0, 0, 0, 2), "the two modules that pad");
    drop((stream, cuda, second));
    nothing_left(&session);
}

#[test]
fn what_another_thread_drops_waits_for_the_capture_too() {
    let (session, cuda, stream) = start!("what_another_thread_drops_waits_for_the_capture_too");
    let buffer = cuda.alloc(8).unwrap();
    let inside = captured(&stream, || {
        std::thread::scope(|scope| scope.spawn(|| drop(buffer)).join().expect("no panic"));
        assert_eq!(cuda.put_aside().0, 1);
        Ok(())
    });
    drop(inside);
    assert_eq!(cuda.put_aside().0, 0);
    drop((stream, cuda));
    nothing_left(&session);
}

#[test]
fn a_free_that_fails_twice_is_named_and_tried_again() {
    let (session, cuda, stream) = start!("a_free_that_fails_twice_is_named_and_tried_again");
    let buffer = cuda.alloc(8).unwrap();
    for code in [1, 801] {
        session.fail_once("cuMemFree_v2", 1, code);
    }
    // The second order counts from the call after the first failure.
    drop(buffer);
    assert_eq!(session.fired().len(), 2);
    assert_eq!(session.live().device_allocations, 1);
    for _ in 0..2 {
        session.fail_once("cuMemFree_v2", 1, 1);
    }
    let leaked = cuda.leaked();
    assert_eq!(leaked.len(), 1);
    assert_eq!(leaked[0].to_string(), "memory of 8 bytes: cuMemFree_v2 failed: CUDA_ERROR_INVALID_VALUE (1)");
    assert!(cuda.leaked().is_empty(), "it was freed in the end");
    assert_eq!(session.live().device_allocations, 0);

    let lost = graph_cuda::lost().len();
    drop(stream);
    for _ in 0..2 {
        session.fail_once("cuDevicePrimaryCtxRelease_v2", 1, 1);
    }
    drop(cuda);
    let lost = graph_cuda::lost().split_off(lost);
    assert_eq!(lost.len(), 1);
    assert_eq!(
        lost[0].to_string(),
        "context: cuDevicePrimaryCtxRelease_v2 failed: CUDA_ERROR_INVALID_VALUE (1)"
    );
    assert_eq!(session.live().contexts, 1);
}
