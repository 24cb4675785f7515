//! Errors that leave the context unusable end the device, and the next one works.

use super::*;

#[test]
fn invariant_13_errors_700_and_719_end_the_device_with_a_clear_message() {
    let Some(session) =
        support::session("invariant_13_errors_700_and_719_end_the_device_with_a_clear_message")
    else {
        return;
    };
    for poison in [700, 719] {
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
            let name = graph_cuda::codes::name(poison as u32);
            assert!(error.contains(&format!("{name} ({poison})")), "{call}: {error}");
            let calls = session.total_calls();
            let later = text(toy::run(&engine, &mut runner, 3));
            let want = format!(
                "{name} ({poison}): device 0 ended when {call} reported this; drop everything that is on it and open it \
                 again"
            );
            assert!(later.contains(&want), "{later}");
            assert!(text(cuda.alloc(4)).contains(&want) && text(cuda.stream()).contains(&want));
            assert_eq!(session.total_calls(), calls, "nothing is asked of a driver that would refuse");
            assert!(cuda.ended().is_some_and(|e| e.to_string().contains(&want)));
            drop((runner, engine, cuda));
            assert!(session.live().is_zero(), "{call}: {:?}", session.live());
            let (engine, mut runner) = toy::build(support::open().unwrap()).unwrap();
            assert_eq!(toy::run(&engine, &mut runner, 5).unwrap(), (true, toy::expected(5)));
            drop((runner, engine));
            assert!(session.live().is_zero(), "{call}: {:?}", session.live());
        }
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
