//! Capture: what is recorded, what is refused, and that it ends on every path.

use super::*;
use graph_cuda::{MemoryNodes, cudarc::driver::sys};

#[test]
fn a_capture_records_names_in_order_and_runs_nothing() {
    let (session, cuda, stream) = start!("a_capture_records_names_in_order_and_runs_nothing");
    let (a, b) = (tensor(&cuda, &stream, &[1.0, 2.0]), tensor(&cuda, &stream, &[3.0, 4.0]));
    let (pinned, block) = (cuda.alloc_pinned(8).unwrap(), cuda.alloc(8).unwrap());
    let recorded = captured(&stream, || {
        assert!(Cuda::is_capturing(&stream));
        Cuda::upload_block(&stream, &pinned, &block, 8)?;
        b.view_mut().copy_from(&stream, a.view())?;
        Cuda::zero(&stream, a.view().buffer(), 0, 8)?;
        Cuda::signal(&stream, (&block, 0), (&pinned, 4))
    })
    .unwrap();
    assert!(!Cuda::is_capturing(&stream));
    assert_eq!(Cuda::operations(&recorded), ["upload_block", "copy", "zero", "signal"]);
    assert_eq!(b.to_vec(&stream).unwrap(), [3.0, 4.0]);
    let graph = cuda.instantiate(recorded).unwrap();
    Cuda::upload_graph(&graph, &stream).unwrap();
    Cuda::launch(&graph, &stream).unwrap();
    assert_eq!((a.to_vec(&stream).unwrap(), b.to_vec(&stream).unwrap()), (vec![0.0; 2], vec![1.0, 2.0]));
    drop((a, b, pinned, block, graph, stream, cuda));
    nothing_left(&session);
}

#[test]
fn calls_that_wait_or_allocate_are_900_by_name_and_break_the_capture() {
    let (session, cuda, stream) = start!("calls_that_wait_or_allocate_are_900_by_name_and_break_the_capture");
    let (buffer, other) = (cuda.alloc(8).unwrap(), cuda.stream().unwrap());
    let empty = || cuda.instantiate(captured(&stream, || Ok(())).unwrap());
    let graph = empty().unwrap();
    type Call<'c> = (&'static str, &'c dyn Fn() -> Result<()>);
    let pinned = cuda.alloc_pinned(4).unwrap();
    let calls: [Call<'_>; 10] = [
        ("await_signal", &|| Cuda::await_signal(&stream, (&pinned, 0), 0)),
        ("alloc", &|| cuda.alloc(8).map(drop)),
        ("alloc_pinned", &|| cuda.alloc_pinned(8).map(drop)),
        ("synchronize", &|| Cuda::synchronize(&stream)),
        ("synchronize", &|| Cuda::synchronize(&other)),
        ("upload", &|| Cuda::upload(&stream, &[1], &buffer, 0)),
        ("download", &|| Cuda::download(&stream, &buffer, 0, &mut [0])),
        ("launch", &|| Cuda::launch(&graph, &stream)),
        ("upload_graph", &|| Cuda::upload_graph(&graph, &stream)),
        ("load", &|| cuda.load(&toy::SOURCE).map(drop)),
    ];
    for (name, call) in calls {
        let ended = captured(&stream, || {
            let error = text(call());
            let start = format!(
                "cuda: {name} failed: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): not permitted while "
            );
            assert!(error.starts_with(&start), "{error}");
            Ok(()) // as if the author dropped it
        });
        assert_eq!(
            text(ended),
            format!(
                "cuda: end_capture failed: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901): the capture was broken by `{name}`"
            )
        );
        assert!(empty().is_ok(), "the stream is usable again after {name}");
    }
    drop((graph, pinned, buffer, other, stream, cuda));
    nothing_left(&session);
}

#[test]
fn the_end_belongs_to_the_stream_and_thread_of_the_begin() {
    let (_session, cuda, stream) = start!("the_end_belongs_to_the_stream_and_thread_of_the_begin");
    let other = cuda.stream().unwrap();
    assert_eq!(code(Cuda::end_capture(&stream)), 401, "no begin");
    Cuda::begin_capture(&stream).unwrap();
    assert_eq!(code(Cuda::begin_capture(&stream)), 401, "a second begin");
    let there = std::thread::scope(|scope| scope.spawn(|| code(Cuda::end_capture(&stream))).join().unwrap());
    assert_eq!(there, 908);
    let event = Cuda::record_event(&stream).unwrap();
    Cuda::wait_event(&other, &event).unwrap();
    assert!(Cuda::is_capturing(&other), "it has joined");
    assert_eq!(code(Cuda::end_capture(&other)), 903);
    Cuda::end_capture(&stream).unwrap();
    assert!(!Cuda::is_capturing(&other));
}

#[test]
fn a_fork_and_a_join_are_one_graph_and_a_missing_join_is_904() {
    let (session, cuda, stream) = start!("a_fork_and_a_join_are_one_graph_and_a_missing_join_is_904");
    let other = cuda.stream().unwrap();
    let (a, b) = (tensor(&cuda, &stream, &[1.0]), tensor(&cuda, &stream, &[2.0]));
    let forked = |join: bool| {
        captured(&stream, || {
            Cuda::zero(&stream, a.view().buffer(), 0, 4)?;
            Cuda::wait_event(&other, &Cuda::record_event(&stream)?)?;
            b.view_mut().copy_from(&other, a.view())?;
            if join {
                Cuda::wait_event(&stream, &Cuda::record_event(&other)?)?;
            }
            Ok(())
        })
    };
    assert_eq!(code(forked(false)), 904);
    let recorded = forked(true).unwrap();
    assert_eq!(Cuda::operations(&recorded), ["zero", "copy"]);
    let graph = cuda.instantiate(recorded).unwrap();
    Cuda::launch(&graph, &stream).unwrap();
    assert_eq!(b.to_vec(&stream).unwrap(), [0.0]);
    let before = Cuda::record_event(&other).unwrap();
    assert_eq!(code(captured(&stream, || Cuda::wait_event(&stream, &before))), 905);
    captured(&stream, || Ok(())).unwrap();
    drop((before, graph, a, b, other, stream, cuda));
    assert!(session.live().is_zero(), "{:?}", session.live());
}

#[test]
fn an_end_that_the_driver_refuses_is_asked_for_again() {
    let (session, cuda, stream) = start!("an_end_that_the_driver_refuses_is_asked_for_again");
    session.fail_once("cuStreamEndCapture", 1, 801);
    assert_eq!(code(captured(&stream, || Ok(()))), 801);
    assert_eq!(session.live().captures, 0);
    captured(&stream, || Ok(())).unwrap();
    drop((stream, cuda));
    nothing_left(&session);
}

#[test]
fn a_stream_that_is_dropped_while_it_captures_takes_the_capture_with_it() {
    let (session, cuda, stream) =
        start!("a_stream_that_is_dropped_while_it_captures_takes_the_capture_with_it");
    let buffer = cuda.alloc(8).unwrap();
    Cuda::begin_capture(&stream).unwrap();
    Cuda::zero(&stream, &buffer, 0, 8).unwrap();
    drop((stream, buffer));
    assert_eq!((session.live().captures, session.live().device_allocations), (0, 0));
    cuda.alloc(8).unwrap(); // this thread captures no more
    drop(cuda);
    nothing_left(&session);
}

/// Allocates from the stream's pool and frees again: two nodes in a capture.
fn alloc_and_free(stream: &sys::CUstream) -> Result<()> {
    let mut pointer = 0;
    // SAFETY: the stream is alive, and the memory is freed where it was allocated.
    let codes = unsafe {
        let alloc = sys::cuMemAllocAsync(&raw mut pointer, 64, *stream) as u32;
        (alloc, sys::cuMemFreeAsync(pointer, *stream) as u32)
    };
    assert_eq!(codes, (0, 0));
    Ok(())
}

#[test]
fn memory_nodes_are_refused_by_name_or_allowed_by_an_option() {
    let (session, cuda, stream) = start!("memory_nodes_are_refused_by_name_or_allowed_by_an_option");
    // SAFETY: the block's memory lives within it.
    let block = |stream: &Stream| unsafe { stream.raw("own memory", |s| alloc_and_free(&s.cu_stream())) };
    block(&stream).unwrap();
    assert_eq!(
        text(captured(&stream, || block(&stream))),
        "cuda: the audit of the capture failed: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): operation 0 of the capture \
         is an allocation of device memory; allocate before the capture, or allow memory nodes in the options, recorded \
         by raw block `own memory`"
    );
    let options = support::options().memory_nodes(MemoryNodes::Allow);
    let lenient = Cuda::with_options(0, options).unwrap();
    let stream2 = lenient.stream().unwrap();
    block(&stream2).unwrap();
    let recorded = captured(&stream2, || block(&stream2)).unwrap();
    assert_eq!(Cuda::operations(&recorded), ["raw: own memory"]);
    let graph = lenient.instantiate(recorded).unwrap();
    for _ in 0..3 {
        Cuda::launch(&graph, &stream2).unwrap();
    }
    Cuda::synchronize(&stream2).unwrap();
    drop((graph, stream2, lenient, stream, cuda));
    assert!(session.live().is_zero(), "{:?}", session.live());
}

#[test]
fn host_functions_and_copies_from_the_host_are_refused_by_name() {
    let (session, cuda, stream) = start!("host_functions_and_copies_from_the_host_are_refused_by_name");
    extern "C" fn nothing(_: *mut std::ffi::c_void) {}
    let (buffer, pinned) = (cuda.alloc(8).unwrap(), cuda.alloc_pinned(8).unwrap());
    let (to, from) = (buffer.device_ptr(), Cuda::pinned_bytes(&pinned).cast().as_ptr());
    // SAFETY: the function takes what it is given, and the memory outlives the captures.
    let call = || unsafe {
        stream.raw("callback", |s| {
            assert_eq!(sys::cuLaunchHostFunc(s.cu_stream(), Some(nothing), std::ptr::null_mut()) as u32, 0);
            Ok::<_, graph_core::Error>(())
        })
    };
    // SAFETY: as above.
    let copy = |bytes| unsafe {
        stream.raw("own upload", |s| {
            assert_eq!(sys::cuMemcpyHtoDAsync_v2(to, from, bytes, s.cu_stream()) as u32, 0);
            Ok::<_, graph_core::Error>(())
        })
    };
    call().unwrap();
    let refused = text(captured(&stream, call));
    assert!(refused.contains("operation 0 of the capture is a call of a host function"), "{refused}");
    assert!(refused.ends_with("recorded by raw block `callback`"), "{refused}");
    let refused = text(captured(&stream, || {
        Cuda::upload_block(&stream, &pinned, &buffer, 8)?;
        copy(4)
    }));
    assert!(
        refused.contains("operation 1 of the capture is a copy from or to memory of the host"),
        "{refused}"
    );
    assert!(refused.ends_with("recorded by raw block `own upload`"), "{refused}");
    drop((buffer, pinned, stream, cuda));
    assert!(session.live().is_zero(), "{:?}", session.live());
}

#[test]
fn a_graph_launched_inside_a_capture_is_refused_by_name() {
    let (session, cuda, stream) = start!("a_graph_launched_inside_a_capture_is_refused_by_name");
    let (mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: the pointers are valid for the writes, and both are destroyed below.
    let made = unsafe {
        (
            sys::cuGraphCreate(&raw mut graph, 0) as u32,
            sys::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0) as u32,
        )
    };
    assert_eq!(made, (0, 0));
    // SAFETY: the inner graph outlives the captures.
    let launch = || unsafe {
        stream.raw("inner", |s| {
            assert_eq!(sys::cuGraphLaunch(exec, s.cu_stream()) as u32, 0);
            Ok::<_, graph_core::Error>(())
        })
    };
    launch().unwrap();
    let refused = text(captured(&stream, launch));
    assert!(refused.contains("operation 0 of the capture is a graph of its own"), "{refused}");
    assert!(refused.ends_with("recorded by raw block `inner`"), "{refused}");
    Cuda::synchronize(&stream).unwrap();
    // SAFETY: nothing uses them any more.
    let gone = unsafe { (sys::cuGraphExecDestroy(exec) as u32, sys::cuGraphDestroy(graph) as u32) };
    assert_eq!(gone, (0, 0));
    drop((stream, cuda));
    nothing_left(&session);
}
