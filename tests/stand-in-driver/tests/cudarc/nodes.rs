//! What a graph's nodes say about themselves, edges, clones, updates.
use super::*;
use cudarc::driver::DevicePtr;
use std::ffi::c_void;
use std::ptr::null_mut;

fn nodes(graph: sys::CUgraph) -> Vec<sys::CUgraphNode> {
    let mut count = 0;
    // SAFETY: a null array asks for the count; then the array has room for it.
    unsafe {
        assert_eq!(raw(sys::cuGraphGetNodes(graph, null_mut(), &raw mut count)), 0);
        let mut nodes = vec![null_mut(); count];
        assert_eq!(raw(sys::cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count)), 0);
        nodes
    }
}

fn kind(node: sys::CUgraphNode) -> sys::CUgraphNodeType {
    let mut kind = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
    // SAFETY: the node is alive and the pointer valid for the write.
    assert_eq!(raw(unsafe { sys::cuGraphNodeGetType(node, &raw mut kind) }), 0);
    kind
}

/// # Safety
///
/// The node must be a copy.
unsafe fn copy_params(node: sys::CUgraphNode) -> sys::CUDA_MEMCPY3D {
    let mut params = std::mem::MaybeUninit::uninit();
    // SAFETY: the pointer is valid for the write, and the driver fills the whole struct for a copy.
    unsafe {
        assert_eq!(raw(sys::cuGraphMemcpyNodeGetParams(node, params.as_mut_ptr())), 0);
        params.assume_init()
    }
}

extern "C" fn count_up(data: *mut c_void) {
    // SAFETY: every launch below passes a counter that outlives the work.
    unsafe { *data.cast::<u32>() += 1 };
}

#[test]
fn copies_memsets_and_host_functions_show_their_parameters() {
    let _session = session();
    let (_context, stream) = start();
    let source = stream.clone_htod(&[1u32; 4]).expect("memory");
    let mut target = stream.alloc_zeros::<u32>(4).expect("memory");
    let mut counter = 0u32;
    let counter_pointer = (&raw mut counter).cast::<c_void>();
    stream.synchronize().expect("wait");
    stream.begin_capture(THREAD_LOCAL).expect("begin");
    stream.memcpy_dtod(&source, &mut target).expect("copy");
    stream.memset_zeros(&mut target).expect("memset");
    // SAFETY: the counter outlives the launches of the graph.
    assert_eq!(raw(unsafe { sys::cuLaunchHostFunc(stream.cu_stream(), Some(count_up), counter_pointer) }), 0);
    let graph = stream.end_capture(NO_FLAGS).expect("end").expect("a graph");
    let [copy, set, host] = nodes(graph.cu_graph())[..] else { panic!("three nodes") };
    use sys::CUgraphNodeType as Kind;
    assert_eq!(
        [copy, set, host].map(kind),
        [Kind::CU_GRAPH_NODE_TYPE_MEMCPY, Kind::CU_GRAPH_NODE_TYPE_MEMSET, Kind::CU_GRAPH_NODE_TYPE_HOST]
    );
    let (from, to) = (source.device_ptr(&stream).0, target.device_ptr(&stream).0);
    // SAFETY: both structs are plain data, for which zeros are valid; the nodes are of these kinds.
    unsafe {
        let params = copy_params(copy);
        assert_eq!((params.srcDevice, params.dstDevice, params.WidthInBytes), (from, to, 16));
        assert_eq!(params.srcMemoryType, sys::CUmemorytype::CU_MEMORYTYPE_DEVICE);
        let mut params: sys::CUDA_MEMSET_NODE_PARAMS = std::mem::zeroed();
        assert_eq!(raw(sys::cuGraphMemsetNodeGetParams(set, &raw mut params)), 0);
        assert_eq!((params.dst, params.value, params.elementSize, params.width), (to, 0, 1, 16));
        let mut params: sys::CUDA_HOST_NODE_PARAMS = std::mem::zeroed();
        assert_eq!(raw(sys::cuGraphHostNodeGetParams(host, &raw mut params)), 0);
        assert_eq!(params.userData, counter_pointer);
        assert_eq!(raw(sys::cuGraphHostNodeGetParams(copy, &raw mut params)), 1, "not a host node");
    }
    for _ in 0..3 {
        graph.launch().expect("launch");
    }
    stream.synchronize().expect("wait");
    assert_eq!(counter, 3);
}

#[test]
fn a_copy_from_pinned_memory_shows_its_host_end() {
    let _session = session();
    let (context, stream) = start();
    let mut target = stream.alloc_zeros::<u32>(4).expect("memory");
    // SAFETY: written before it is read.
    let mut pinned = unsafe { context.alloc_pinned::<u32>(4) }.expect("pinned memory");
    let pointer = pinned.as_mut_ptr().expect("pointer");
    stream.synchronize().expect("wait");
    stream.begin_capture(THREAD_LOCAL).expect("begin");
    let to = cudarc::driver::DevicePtrMut::device_ptr_mut(&mut target, &stream).0;
    // SAFETY: both ends are sixteen bytes long and outlive the graph.
    let copied = unsafe { sys::cuMemcpyHtoDAsync_v2(to, pointer.cast(), 16, stream.cu_stream()) };
    assert_eq!(raw(copied), 0);
    let graph = stream.end_capture(NO_FLAGS).expect("end").expect("a graph");
    // SAFETY: the node is a copy.
    unsafe {
        let params = copy_params(nodes(graph.cu_graph())[0]);
        assert_eq!(params.srcMemoryType, sys::CUmemorytype::CU_MEMORYTYPE_HOST);
        assert_eq!(params.srcHost, pointer.cast_const().cast());
    }
    for round in [3u32, 4] {
        pinned.as_mut_slice().expect("host side").fill(round);
        graph.launch().expect("launch");
        assert_eq!(stream.clone_dtoh(&target).expect("read"), [round; 4]);
    }
}

#[test]
fn forks_and_joins_become_edges() {
    let _session = session();
    let (context, stream) = start();
    let fork = context.new_stream().expect("a stream");
    let mut slices = [(); 4].map(|()| stream.alloc_zeros::<u32>(1).expect("memory"));
    stream.synchronize().expect("wait");
    let [a, b, c, d] = &mut slices;
    stream.begin_capture(THREAD_LOCAL).expect("begin");
    stream.memset_zeros(a).expect("memset");
    fork.join(&stream).expect("fork");
    stream.memset_zeros(b).expect("memset");
    fork.memset_zeros(c).expect("memset");
    stream.join(&fork).expect("join");
    stream.memset_zeros(d).expect("memset");
    let graph = stream.end_capture(NO_FLAGS).expect("end").expect("a graph");
    let order = nodes(graph.cu_graph());
    let (mut from, mut to, mut count) = (vec![null_mut(); 8], vec![null_mut(); 8], 8);
    // SAFETY: the arrays have room for eight edges.
    let found = unsafe {
        sys::cuGraphGetEdges_v2(
            graph.cu_graph(),
            from.as_mut_ptr(),
            to.as_mut_ptr(),
            null_mut(),
            &raw mut count,
        )
    };
    assert_eq!((raw(found), count), (0, 4));
    let place =
        |node: &sys::CUgraphNode| order.iter().position(|it| it == node).expect("a node of the graph");
    let mut edges: Vec<_> = (0..count).map(|edge| (place(&from[edge]), place(&to[edge]))).collect();
    edges.sort_unstable();
    assert_eq!(edges, [(0, 1), (0, 2), (1, 3), (2, 3)]);
}

#[test]
fn an_exec_takes_over_a_graph_of_the_same_shape_only() {
    let _session = session();
    let (_context, stream) = start();
    let sources = [stream.clone_htod(&[1u32]).expect("memory"), stream.clone_htod(&[2u32]).expect("memory")];
    let mut target = stream.alloc_zeros::<u32>(1).expect("memory");
    stream.synchronize().expect("wait");
    let mut captured = |source: usize, copies: usize| {
        stream.begin_capture(THREAD_LOCAL).expect("begin");
        for _ in 0..copies {
            stream.memcpy_dtod(&sources[source], &mut target).expect("copy");
        }
        stream.end_capture(NO_FLAGS).expect("end").expect("a graph")
    };
    let (first, second, longer) = (captured(0, 1), captured(1, 1), captured(1, 2));
    // SAFETY: plain data; the handles are alive.
    let update = |graph: &cudarc::driver::CudaGraph| unsafe {
        let mut info: sys::CUgraphExecUpdateResultInfo = std::mem::zeroed();
        raw(sys::cuGraphExecUpdate_v2(first.cu_graph_exec(), graph.cu_graph(), &raw mut info))
    };
    assert_eq!(update(&longer), 910);
    first.launch().expect("launch");
    assert_eq!(stream.clone_dtoh(&target).expect("read"), [1]);
    assert_eq!(update(&second), 0);
    first.launch().expect("launch");
    assert_eq!(stream.clone_dtoh(&target).expect("read"), [2]);
}

#[test]
fn a_capture_says_what_it_has_so_far() {
    let _session = session();
    let (_context, stream) = start();
    let mut data = stream.alloc_zeros::<u32>(1).expect("memory");
    stream.begin_capture(THREAD_LOCAL).expect("begin");
    stream.memset_zeros(&mut data).expect("memset");
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    let (mut id, mut graph, mut tail, mut edges, mut count) =
        (0, null_mut(), std::ptr::null(), std::ptr::null(), 0);
    // SAFETY: the pointers are valid for the writes.
    let found = unsafe {
        sys::cuStreamGetCaptureInfo_v3(
            stream.cu_stream(),
            &raw mut status,
            &raw mut id,
            &raw mut graph,
            &raw mut tail,
            &raw mut edges,
            &raw mut count,
        )
    };
    assert_eq!((raw(found), count), (0, 1));
    assert_eq!(status, sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE);
    // SAFETY: the driver keeps the array until the next such call on the stream.
    assert_eq!(nodes(graph), [unsafe { *tail }]);
    let ended = stream.end_capture(NO_FLAGS).expect("end").expect("a graph");
    assert_eq!(ended.cu_graph(), graph);
}
