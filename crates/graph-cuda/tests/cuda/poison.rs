//! Errors that leave the context unusable end the device, and the next one works.

use super::*;

#[test]
fn invariant_13_error_700_an_illegal_address_ends_the_device() {
    let test = "invariant_13_error_700_an_illegal_address_ends_the_device";
    let Some(session) = support::session(test) else { return };
    ends_the_device(&session, 700, "CUDA_ERROR_ILLEGAL_ADDRESS (700)");
}

#[test]
fn invariant_13_error_719_a_failed_launch_ends_the_device() {
    let test = "invariant_13_error_719_a_failed_launch_ends_the_device";
    let Some(session) = support::session(test) else { return };
    ends_the_device(&session, 719, "CUDA_ERROR_LAUNCH_FAILED (719)");
}

/// Whichever call reports it: every later call says so without asking the driver, everything can be dropped, and the
/// device can be opened again.
fn ends_the_device(session: &Session<'_>, poison: i32, name: &str) {
    for call in
        ["cuStreamSynchronize", "cuGraphLaunch", "cuMemFree_v2", "cuMemcpyDtoHAsync_v2", "cuMemAlloc_v2"]
    {
        session.reset();
        let cuda = support::open().unwrap();
        let (engine, mut runner) = toy::build(cuda.clone()).unwrap();
        toy::run(&engine, &mut runner, 3).unwrap();
        session.fail_once(call, 1, poison);
        // A failed free is nobody's result; the call after it says so.
        let error = toy::run(&engine, &mut runner, 3)
            .and_then(|_| toy::run(&engine, &mut runner, 3))
            .expect_err("the device has ended")
            .to_string();
        assert_eq!(session.fired().len(), 1, "{call}");
        assert!(error.contains(name), "{call}: {error}");
        let calls = session.total_calls();
        let said = |by: &str| {
            format!(
                "cuda: {by} failed: {name}: device 0 ended when {call} reported this; drop everything that is on it and \
                 open it again"
            )
        };
        assert_eq!(text(toy::run(&engine, &mut runner, 3)), said("alloc"));
        assert_eq!((text(cuda.alloc(4)), text(cuda.stream())), (said("alloc"), said("stream")));
        assert_eq!(session.total_calls(), calls, "nothing is asked of a driver that would refuse");
        assert_eq!(cuda.ended().expect("it has").to_string(), said("the device"));
        drop((runner, engine, cuda));
        assert!(session.live().is_zero(), "{call}: {:?}", session.live());
        let (engine, mut runner) = toy::build(support::open().unwrap()).unwrap();
        assert_eq!(toy::run(&engine, &mut runner, 5).unwrap(), (true, toy::expected(5)));
        drop((runner, engine));
        assert!(session.live().is_zero(), "{call}: {:?}", session.live());
    }
}

#[test]
fn a_poisoned_capture_ends_and_the_next_device_captures() {
    let (session, cuda, stream) = start!("a_poisoned_capture_ends_and_the_next_device_captures");
    let buffer = cuda.alloc(4).unwrap();
    session.fail_once("cuMemsetD8Async", 1, 719);
    assert_eq!(code(captured(&stream, || Cuda::zero(&stream, &buffer, 0, 4))), 719);
    assert!(!Cuda::is_capturing(&stream));
    drop((buffer, stream, cuda));
    assert!(session.live().is_zero(), "{:?}", session.live());
    let cuda = support::open().unwrap();
    let stream = cuda.stream().unwrap();
    let buffer = cuda.alloc(4).unwrap();
    captured(&stream, || Cuda::zero(&stream, &buffer, 0, 4)).unwrap();
}
