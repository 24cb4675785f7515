//! Failures on demand, and errors that poison a context.
use super::*;
use stand_in_driver::Fired;

#[test]
fn one_call_of_a_function_fails_once() {
    let session = session();
    let (_context, stream) = start();
    session.fail_once("cuMemAllocAsync", 2, 2);
    stream.alloc_zeros::<u8>(8).expect("the first call");
    assert_eq!(session.fired(), []);
    assert_eq!(code(stream.alloc_zeros::<u8>(8)), 2);
    stream.alloc_zeros::<u8>(8).expect("the third call");
    let [Fired { function, call }] = &session.fired()[..] else { panic!("{:?}", session.fired()) };
    assert_eq!(function, "cuMemAllocAsync");
    assert!((1..=session.total_calls()).contains(call));
}

#[test]
fn a_failure_that_is_never_reached_has_not_fired() {
    let session = session();
    let (_context, stream) = start();
    session.fail_once("cuGraphLaunch", 1, 2);
    stream.synchronize().expect("wait");
    assert_eq!(session.fired(), []);
}

#[test]
#[should_panic(expected = "no function cuNothing")]
fn a_function_that_is_not_there_cannot_fail() {
    session().fail_once("cuNothing", 1, 2);
}

/// Makes a context, allocates, captures, launches, reads back. Gives the numbers, or the first error.
fn scenario() -> Result<Vec<u32>, DriverError> {
    let context = CudaContext::new(0)?;
    // SAFETY: there is one stream.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream()?;
    let input = stream.clone_htod(&[1u32, 2])?;
    let mut output = stream.alloc_zeros::<u32>(2)?;
    stream.begin_capture(THREAD_LOCAL)?;
    stream.memcpy_dtod(&input, &mut output)?;
    let graph = stream.end_capture(NO_FLAGS)?.expect("a graph");
    graph.launch()?;
    stream.clone_dtoh(&output)
}

/// Whichever call fails: an error or the right numbers, and the next run works. Leaks are cudarc's here (it
/// does not retry a failed free, nor end a capture that it began), so they are not asked for.
#[test]
fn each_call_of_a_scenario_can_be_made_to_fail() {
    let session = session();
    assert_eq!(scenario().expect("nothing fails"), [1, 2]);
    let calls = session.total_calls();
    assert!(calls > 20, "{calls}");
    let mut errors = 0;
    for call in 1..=calls {
        for error in [1, 2, 801] {
            session.reset();
            session.fail_call(call, error);
            match scenario() {
                Ok(numbers) => assert_eq!(numbers, [1, 2], "call {call}, error {error}"),
                Err(_) => errors += 1,
            }
            let fired = session.fired();
            assert_eq!(fired.len(), 1, "call {call}, error {error}");
            assert_eq!(fired[0].call, call);
            session.reset();
            assert_eq!(scenario().expect("the next run"), [1, 2], "after call {call}, error {error}");
        }
    }
    assert!(errors > calls, "{errors} errors in {} runs", 3 * calls);
}

#[test]
fn errors_700_and_719_poison_the_context_until_it_is_reset() {
    for poison in [700, 719] {
        let session = session();
        let (context, stream) = start();
        let data = stream.clone_htod(&[1u32]).expect("memory");
        session.fail_once("cuStreamSynchronize", 1, poison);
        assert_eq!(code(stream.synchronize()), poison as u32);
        assert_eq!(code(stream.synchronize()), poison as u32);
        assert_eq!(code(stream.alloc_zeros::<u8>(1)), poison as u32);
        assert_eq!(code(context.new_stream()), poison as u32);
        assert_eq!(code(stream.clone_dtoh(&data)), poison as u32);
        assert_eq!(code(stream.begin_capture(THREAD_LOCAL)), poison as u32);
        // What does not need the context answers still.
        assert_eq!(CudaContext::device_count().expect("count"), 1);
        drop((data, stream));
        assert_eq!(code(context.check_err()), poison as u32, "the free failed too, and cudarc kept that");
        drop(context);
        assert!(session.live().is_zero(), "{:?}", session.live());
        assert_eq!(scenario().expect("a new context"), [1, 2]);
    }
}

#[test]
fn resetting_the_primary_context_ends_the_poison() {
    let session = session();
    let (context, stream) = start();
    session.fail_once("cuStreamSynchronize", 1, 700);
    assert_eq!(code(stream.synchronize()), 700);
    // SAFETY: the device is there. What the program held in the context is void.
    unsafe { sys::cuDevicePrimaryCtxReset_v2(0) }.result().expect("reset");
    context.new_stream().expect("a stream in the fresh context");
    assert_eq!(code(stream.synchronize()), 400, "the old stream went with the old contents");
}
