//! Handles, bytes and calls are counted, per kind and per function.
use super::*;
use cudarc::nvrtc::Ptx;
use stand_in_driver::Live;

#[test]
fn everything_that_is_made_is_counted_and_gone_at_the_end() {
    let session = session();
    let (context, stream) = start();
    let data = stream.alloc_zeros::<u32>(10).expect("memory");
    // SAFETY: never read.
    let pinned = unsafe { context.alloc_pinned::<u8>(5) }.expect("pinned memory");
    let module = context.load_module(Ptx::from_src(".version 8.0\n.target sm_80\n")).expect("a module");
    let event = stream.record_event(None).expect("an event");
    stream.begin_capture(THREAD_LOCAL).expect("begin");
    assert_eq!(session.live().captures, 1);
    let graph = stream.end_capture(NO_FLAGS).expect("end").expect("a graph");
    let expected = Live {
        contexts: 1,
        device_allocations: 1,
        device_bytes: 40,
        pinned_allocations: 1,
        pinned_bytes: 5,
        streams: 1,
        // One of them is the pinned memory's.
        events: 2,
        modules: 1,
        graphs: 1,
        execs: 1,
        ..Live::default()
    };
    assert_eq!(session.live(), expected);
    drop((graph, event, module, pinned, data, stream, context));
    assert!(session.live().is_zero(), "{:?}", session.live());
}

#[test]
fn what_a_context_still_owned_stays_counted() {
    let session = session();
    let (context, stream) = start();
    std::mem::forget(stream.alloc_zeros::<u32>(10).expect("memory"));
    // The forgotten slice keeps the context alive; release it as the program's end would.
    // SAFETY: the context was retained once, and nothing uses it afterwards.
    unsafe { sys::cuDevicePrimaryCtxRelease_v2(context.cu_device()) }.result().expect("release");
    let live = session.live();
    assert_eq!((live.contexts, live.device_allocations, live.device_bytes, live.streams), (0, 1, 40, 1));
    assert!(session.faults()[0].contains("still owned"), "{:?}", session.faults());
    std::mem::forget((context, stream));
}

#[test]
fn calls_are_counted_by_function() {
    let session = session();
    let (_context, stream) = start();
    let before = session.total_calls();
    let counted = session.calls("cuStreamSynchronize");
    stream.synchronize().expect("wait");
    // One question for the current context, then the call itself.
    assert_eq!(session.total_calls(), before + 2);
    assert_eq!(session.calls("cuStreamSynchronize"), counted + 1);
    session.reset();
    assert_eq!(session.total_calls(), 0);
}

#[test]
#[should_panic(expected = "no function cuNothing")]
fn a_function_that_is_not_there_cannot_be_counted() {
    session().calls("cuNothing");
}
