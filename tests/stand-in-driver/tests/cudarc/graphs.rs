//! Capture, instantiate, upload, launch: numbers, order, memory nodes, update.
use super::*;
use cudarc::driver::{CudaGraph, CudaSlice, DevicePtr, DevicePtrMut};

/// Captures what `work` does in the stream.
fn capture(stream: &Arc<CudaStream>, work: impl FnOnce()) -> CudaGraph {
    stream.begin_capture(THREAD_LOCAL).expect("begin");
    work();
    stream.end_capture(NO_FLAGS).expect("end").expect("a graph")
}

/// The address of a slice.
fn address(slice: &CudaSlice<u32>) -> u64 {
    slice.device_ptr(slice.stream()).0
}

#[test]
fn a_captured_copy_runs_at_each_launch_with_the_data_of_that_time() {
    for lazy in [true, false] {
        let session = session();
        session.set_lazy(lazy);
        let (_context, stream) = start();
        let mut input = stream.clone_htod(&[1u32, 2, 3]).expect("memory");
        let mut output = stream.alloc_zeros::<u32>(3).expect("memory");
        stream.synchronize().expect("wait");
        let graph = capture(&stream, || stream.memcpy_dtod(&input, &mut output).expect("a copy"));
        graph.upload().expect("upload");
        assert_eq!(stream.clone_dtoh(&output).expect("read"), [0; 3], "a capture runs nothing");
        graph.launch().expect("launch");
        assert_eq!(stream.clone_dtoh(&output).expect("read"), [1, 2, 3]);
        stream.memcpy_htod(&[7u32, 8, 9], &mut input).expect("write");
        graph.launch().expect("launch");
        assert_eq!(stream.clone_dtoh(&output).expect("read"), [7, 8, 9]);
        drop((graph, input, output, stream, _context));
        assert!(session.live().is_zero(), "{:?}", session.live());
    }
}

#[test]
fn reversed_graphs_show_a_missing_edge() {
    let session = session();
    let (context, stream) = start();
    let fork = context.new_stream().expect("a stream");
    let source = stream.clone_htod(&[5u32]).expect("memory");
    let mut middle = stream.alloc_zeros::<u32>(1).expect("memory");
    let mut output = stream.alloc_zeros::<u32>(1).expect("memory");
    stream.synchronize().expect("wait");
    let mut run = |reversed: bool, with_edge: bool| {
        session.set_reversed_graphs(reversed);
        let graph = capture(&stream, || {
            fork.join(&stream).expect("fork");
            stream.memcpy_dtod(&source, &mut middle).expect("copy");
            if with_edge {
                fork.join(&stream).expect("edge");
            }
            fork.memcpy_dtod(&middle, &mut output).expect("copy");
            stream.join(&fork).expect("join");
        });
        stream.memset_zeros(&mut middle).expect("clear");
        graph.launch().expect("launch");
        stream.clone_dtoh(&output).expect("read")[0]
    };
    assert_eq!([run(false, true), run(true, true), run(false, false)], [5, 5, 5]);
    assert_eq!(run(true, false), 0, "without the edge the second copy may run first");
}

#[test]
fn a_graph_whose_memory_was_freed_fails_with_700() {
    let session = session();
    let (_context, stream) = start();
    let mut data = stream.alloc_zeros::<u32>(3).expect("memory");
    stream.synchronize().expect("wait");
    let graph = capture(&stream, || stream.memset_zeros(&mut data).expect("a memset"));
    drop(data);
    graph.launch().expect("enqueued");
    assert_eq!(code(stream.synchronize()), 700);
    assert!(session.faults().iter().any(|fault| fault.contains("freed")), "{:?}", session.faults());
}

#[test]
fn memory_allocated_in_a_capture_is_there_between_its_nodes_only() {
    let session = session();
    let (_context, stream) = start();
    let mut output = stream.alloc_zeros::<u32>(2).expect("memory");
    stream.synchronize().expect("wait");
    let mut inner = 0;
    let graph = capture(&stream, || {
        let scratch = stream.clone_htod(&[4u32, 5]).expect("an allocation node and a copy");
        inner = address(&scratch);
        stream.memcpy_dtod(&scratch, &mut output).expect("copy");
    });
    assert_eq!((session.live().graph_allocations, session.live().graph_bytes), (1, 8));
    // Twice: the free node makes a second launch possible.
    for _ in 0..2 {
        graph.launch().expect("launch");
        stream.synchronize().expect("wait");
    }
    // SAFETY: both pointers are valid in type and size; the source is not there any more, which the copy
    // finds.
    let late = unsafe {
        let to = output.device_ptr_mut(&stream).0;
        cudarc::driver::result::memcpy_dtod_async(to, inner, 8, stream.cu_stream())
    };
    late.expect("enqueued");
    assert_eq!(code(stream.synchronize()), 700);
}

#[test]
fn a_graph_that_leaves_its_memory_cannot_be_launched_again_unless_it_frees_by_itself() {
    let session = session();
    let (context, stream) = start();
    let auto = sys::CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    for (flags, second) in [(NO_FLAGS, 1), (auto, 0)] {
        stream.begin_capture(THREAD_LOCAL).expect("begin");
        let kept = stream.alloc_zeros::<u32>(2).expect("an allocation node");
        let graph = stream.end_capture(flags).expect("end").expect("a graph");
        graph.launch().expect("launch");
        assert_eq!(code(graph.launch()), second);
        drop(kept);
        graph.launch().expect("its memory was freed");
        // SAFETY: the memory is the graph's; this frees the last launch's.
        let freed =
            unsafe { cudarc::driver::result::free_async(session_pointer(&graph), stream.cu_stream()) };
        freed.expect("free");
        drop(graph);
        stream.synchronize().expect("wait");
        context.check_err().expect("nothing parked");
        assert_eq!(session.live().graph_allocations, 0);
    }
}

/// The memory that a graph's first node allocates.
fn session_pointer(graph: &CudaGraph) -> u64 {
    let mut node = std::ptr::null_mut();
    let mut params = std::mem::MaybeUninit::<sys::CUDA_MEM_ALLOC_NODE_PARAMS>::zeroed();
    // SAFETY: the graph has a node; the pointers are valid for the writes.
    unsafe {
        assert_eq!(raw(sys::cuGraphGetNodes(graph.cu_graph(), &raw mut node, &mut 1)), 0);
        assert_eq!(raw(sys::cuGraphMemAllocNodeGetParams(node, params.as_mut_ptr())), 0);
        params.assume_init().dptr
    }
}

#[test]
fn freeing_memory_from_before_the_capture_inside_it_is_refused_and_breaks_it() {
    let _session = session();
    let (context, stream) = start();
    let data = stream.alloc_zeros::<u32>(2).expect("memory");
    stream.begin_capture(THREAD_LOCAL).expect("begin");
    drop(data);
    assert_eq!(code(context.check_err()), 1);
    assert_eq!(code(stream.end_capture(NO_FLAGS)), 901);
}

#[test]
fn flags_are_checked() {
    let _session = session();
    let (_context, stream) = start();
    type Flags = sys::CUgraphInstantiate_flags;
    let clash = Flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH
        | Flags::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    for (flags, expected) in [(clash, 1), (Flags::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH, 801)] {
        stream.begin_capture(THREAD_LOCAL).expect("begin");
        assert_eq!(code(stream.end_capture(flags)), expected);
    }
}

#[test]
fn launches_of_one_graph_in_two_streams_follow_each_other() {
    let session = session();
    let (context, stream) = start();
    let other = context.new_stream().expect("a stream");
    let mut data = stream.clone_htod(&[1u32]).expect("memory");
    let mut copy = stream.alloc_zeros::<u32>(1).expect("memory");
    stream.synchronize().expect("wait");
    let graph = capture(&stream, || stream.memcpy_dtod(&data, &mut copy).expect("copy"));
    stream.memcpy_htod(&[2u32], &mut data).expect("write");
    graph.launch().expect("launch");
    // SAFETY: both handles are alive.
    assert_eq!(raw(unsafe { sys::cuGraphLaunch(graph.cu_graph_exec(), other.cu_stream()) }), 0);
    other.synchronize().expect("wait for the second launch only");
    assert_eq!(session.faults(), Vec::<String>::new());
    assert_eq!(
        other.clone_dtoh(&copy).expect("read"),
        [2],
        "the first launch and the write before it have run"
    );
}
