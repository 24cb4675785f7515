//! Every driver function that this crate calls, in one list: what is called and what is looked for before the first
//! call (`loading.rs`) cannot drift apart.

use std::{
    ffi::{c_char, c_int, c_uint, c_ulonglong, c_void},
    ptr::null_mut,
};

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUfunction_attribute,
    CUgraph, CUgraphEdgeData, CUgraphExec, CUgraphNode, CUgraphNodeType, CUmodule, CUpointer_attribute,
    CUstream, CUstreamCaptureMode, CUstreamCaptureStatus,
};

/// A call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) call: &'static str,
    pub(crate) code: u32,
}

macro_rules! calls {
    ($($since:literal $name:ident = $symbol:ident($($arg:ident: $type:ty),*);)*) => {
        /// Names, and the CUDA version that brought each (as the driver writes versions: 12030 is 12.3).
        pub(crate) const CALLS: &[(&str, c_int)] = &[("cuLaunchKernel", 4000), $((stringify!($symbol), $since)),*];
        $(
            /// The driver function.
            ///
            /// # Safety
            /// The driver library has it, and the arguments are what the driver's manual asks for.
            #[inline]
            pub(crate) unsafe fn $name($($arg: $type),*) -> Result<(), Failure> {
                // SAFETY: the caller's promise.
                outcome(stringify!($symbol), unsafe { sys::$symbol($($arg),*) })
            }
        )*
    };
}

calls! {
    2000 init = cuInit(flags: c_uint);
    2020 driver_version = cuDriverGetVersion(version: *mut c_int);
    2000 device_count = cuDeviceGetCount(count: *mut c_int);
    2000 device_get = cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
    2000 device_attribute = cuDeviceGetAttribute(value: *mut c_int, which: CUdevice_attribute, device: CUdevice);
    7000 context_retain = cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    11000 context_release = cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    4000 context_current = cuCtxGetCurrent(context: *mut CUcontext);
    4000 context_make_current = cuCtxSetCurrent(context: CUcontext);
    3020 mem_info = cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    3020 mem_alloc = cuMemAlloc_v2(pointer: *mut CUdeviceptr, bytes: usize);
    3020 mem_free = cuMemFree_v2(pointer: CUdeviceptr);
    2020 host_alloc = cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    2000 host_free = cuMemFreeHost(pointer: *mut c_void);
    4000 pointer_attribute = cuPointerGetAttribute(to: *mut c_void, which: CUpointer_attribute, pointer: CUdeviceptr);
    3020 copy_to_device = cuMemcpyHtoDAsync_v2(dst: CUdeviceptr, src: *const c_void, bytes: usize, stream: CUstream);
    3020 copy_to_host = cuMemcpyDtoHAsync_v2(dst: *mut c_void, src: CUdeviceptr, bytes: usize, stream: CUstream);
    3020 copy_on_device = cuMemcpyDtoDAsync_v2(dst: CUdeviceptr, src: CUdeviceptr, bytes: usize, stream: CUstream);
    3020 set_bytes = cuMemsetD8Async(dst: CUdeviceptr, value: u8, bytes: usize, stream: CUstream);
    2000 stream_create = cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    4000 stream_destroy = cuStreamDestroy_v2(stream: CUstream);
    2000 stream_synchronize = cuStreamSynchronize(stream: CUstream);
    2000 stream_query = cuStreamQuery(stream: CUstream);
    3020 stream_wait = cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint);
    10010 capture_begin = cuStreamBeginCapture_v2(stream: CUstream, mode: CUstreamCaptureMode);
    10000 capture_end = cuStreamEndCapture(stream: CUstream, graph: *mut CUgraph);
    10000 capture_status = cuStreamIsCapturing(stream: CUstream, status: *mut CUstreamCaptureStatus);
    12030 capture_info = cuStreamGetCaptureInfo_v3(
        stream: CUstream,
        status: *mut CUstreamCaptureStatus,
        id: *mut c_ulonglong,
        graph: *mut CUgraph,
        after: *mut *const CUgraphNode,
        edges: *mut *const CUgraphEdgeData,
        count: *mut usize
    );
    2000 event_create = cuEventCreate(event: *mut CUevent, flags: c_uint);
    2000 event_record = cuEventRecord(event: CUevent, stream: CUstream);
    2000 event_query = cuEventQuery(event: CUevent);
    2000 event_synchronize = cuEventSynchronize(event: CUevent);
    4000 event_destroy = cuEventDestroy_v2(event: CUevent);
    10000 graph_nodes = cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize);
    12030 graph_edges = cuGraphGetEdges_v2(
        graph: CUgraph,
        from: *mut CUgraphNode,
        to: *mut CUgraphNode,
        data: *mut CUgraphEdgeData,
        count: *mut usize
    );
    10000 node_type = cuGraphNodeGetType(node: CUgraphNode, kind: *mut CUgraphNodeType);
    12000 node_kernel = cuGraphKernelNodeGetParams_v2(node: CUgraphNode, to: *mut sys::CUDA_KERNEL_NODE_PARAMS);
    10000 node_copy = cuGraphMemcpyNodeGetParams(node: CUgraphNode, to: *mut sys::CUDA_MEMCPY3D);
    10000 graph_destroy = cuGraphDestroy(graph: CUgraph);
    11040 instantiate = cuGraphInstantiateWithFlags(exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong);
    11010 graph_upload = cuGraphUpload(exec: CUgraphExec, stream: CUstream);
    10000 graph_launch = cuGraphLaunch(exec: CUgraphExec, stream: CUstream);
    10000 exec_destroy = cuGraphExecDestroy(exec: CUgraphExec);
    2000 module_load = cuModuleLoadData(module: *mut CUmodule, image: *const c_void);
    2000 module_unload = cuModuleUnload(module: CUmodule);
    2000 module_function = cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    12030 function_name = cuFuncGetName(name: *mut *const c_char, function: CUfunction);
    9000 function_set = cuFuncSetAttribute(function: CUfunction, which: CUfunction_attribute, value: c_int);
}

/// The driver function that runs a kernel; dimensions as triples.
///
/// # Safety
/// As of every call above; the arguments are as many, and as long, as the kernel's parameters.
#[inline]
pub(crate) unsafe fn launch_kernel(
    function: CUfunction,
    [grid_x, grid_y, grid_z]: [c_uint; 3],
    [block_x, block_y, block_z]: [c_uint; 3],
    shared_bytes: c_uint,
    stream: CUstream,
    arguments: *mut *mut c_void,
) -> Result<(), Failure> {
    let extra = null_mut();
    // SAFETY: the caller's promise.
    let result = unsafe {
        sys::cuLaunchKernel(
            function,
            grid_x,
            grid_y,
            grid_z,
            block_x,
            block_y,
            block_z,
            shared_bytes,
            stream,
            arguments,
            extra,
        )
    };
    outcome("cuLaunchKernel", result)
}

#[inline]
fn outcome(call: &'static str, result: sys::CUresult) -> Result<(), Failure> {
    match result as u32 {
        0 => Ok(()),
        code => Err(Failure { call, code }),
    }
}
