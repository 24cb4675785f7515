//! What a graph's nodes are, and replacing a kernel node of an executable graph.
use crate::driver::abi::{Handle, HostFn, In, Out, Params};
use crate::driver::codes::{Code, Result};
use crate::driver::memory::Kind;
use crate::driver::module::Shape;
use crate::driver::op::{End, Op};
use crate::driver::probe::driver_functions;
use crate::driver::state::{State, enter};
use std::ffi::c_uint;

/// `CUDA_KERNEL_NODE_PARAMS` from version 2 on.
#[repr(C)]
#[derive(Clone, Copy)]
struct KernelParams {
    function: Handle,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    params: Params,
    extra: Handle,
    kernel: Handle,
    context: Handle,
}

/// One end of `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Default)]
struct CopyEnd {
    x: usize,
    y: usize,
    z: usize,
    lod: usize,
    memory_type: c_uint,
    host: usize,
    device: u64,
    array: usize,
    reserved: usize,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
struct CopyParams {
    src: CopyEnd,
    dst: CopyEnd,
    width: usize,
    height: usize,
    depth: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
struct MemsetParams {
    dst: u64,
    pitch: usize,
    value: c_uint,
    element_size: c_uint,
    width: usize,
    height: usize,
}

/// `CUDA_HOST_NODE_PARAMS`.
#[repr(C)]
struct HostParams {
    function: HostFn,
    data: usize,
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`.
#[repr(C)]
struct AllocParams {
    /// `CUmemPoolProps`: pinned device memory without handles, at device 0.
    pool: [u32; 4],
    security: usize,
    reserved: [u8; 64],
    access: usize,
    access_count: usize,
    bytes: usize,
    pointer: u64,
}

driver_functions! {
    fn cuGraphNodeGetType(node: Handle, node_type: Out<c_uint>) {
        let (state, _) = enter()?;
        node_type.set(state.node(node)?.1.op.node_type())
    }

    fn cuGraphKernelNodeGetParams_v2(node: Handle, params: Out<KernelParams>) {
        let (state, context) = enter()?;
        let Op::Kernel(launch) = &state.node(node)?.1.op else { return Err(Code::INVALID_VALUE) };
        params.set(KernelParams {
            function: launch.function.handle,
            grid: launch.shape.grid,
            block: launch.shape.block,
            shared_bytes: launch.shape.shared_bytes,
            params: Params::to(&launch.pointers),
            extra: 0,
            kernel: 0,
            context,
        })
    }

    fn cuGraphMemcpyNodeGetParams(node: Handle, params: Out<CopyParams>) {
        let (state, _) = enter()?;
        let Op::Copy { dst, src, len } = &state.node(node)?.1.op else { return Err(Code::INVALID_VALUE) };
        let (src, dst) = (copy_end(&state, src), copy_end(&state, dst));
        params.set(CopyParams { src, dst, width: *len, height: 1, depth: 1 })
    }

    fn cuGraphMemsetNodeGetParams(node: Handle, params: Out<MemsetParams>) {
        let (state, _) = enter()?;
        let Op::Set { dst, value, width, count } = state.node(node)?.1.op else { return Err(Code::INVALID_VALUE) };
        let element_size = width as c_uint;
        params.set(MemsetParams { dst: dst.addr as u64, pitch: 0, value, element_size, width: count, height: 1 })
    }

    fn cuGraphHostNodeGetParams(node: Handle, params: Out<HostParams>) {
        let (state, _) = enter()?;
        let Op::Host { function, data } = state.node(node)?.1.op else { return Err(Code::INVALID_VALUE) };
        params.set(HostParams { function, data })
    }

    fn cuGraphMemAllocNodeGetParams(node: Handle, params: Out<AllocParams>) {
        let (state, _) = enter()?;
        let Op::Alloc(range) = state.node(node)?.1.op else { return Err(Code::INVALID_VALUE) };
        params.set(AllocParams {
            pool: [1, 0, 1, 0],
            security: 0,
            reserved: [0; 64],
            access: 0,
            access_count: 0,
            bytes: range.len,
            pointer: range.addr as u64,
        })
    }

    fn cuGraphMemFreeNodeGetParams(node: Handle, pointer: Out<u64>) {
        let (state, _) = enter()?;
        let Op::Free(range) = state.node(node)?.1.op else { return Err(Code::INVALID_VALUE) };
        pointer.set(range.addr as u64)
    }

    fn cuGraphNodeGetDependencies(node: Handle, nodes: Out<Handle>, count: Out<usize>) {
        dependencies(node, &nodes, &count)
    }

    fn cuGraphNodeGetDependencies_v2(node: Handle, nodes: Out<Handle>, data: Out<u64>, count: Out<usize>) {
        if !data.is_null() {
            data.fill(std::iter::repeat_n(0, count.get()?));
        }
        dependencies(node, &nodes, &count)
    }

    fn cuGraphExecKernelNodeSetParams_v2(exec: Handle, node: Handle, params: In<KernelParams>) {
        let (mut state, _) = enter()?;
        let new = params.get()?;
        if new.extra != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let shape = Shape { grid: new.grid, block: new.block, shared_bytes: new.shared_bytes };
        let op = state.kernel_op(new.function, shape, new.params)?;
        state.replace_node(exec, node, op)
    }
}

fn copy_end(state: &State, end: &End) -> CopyEnd {
    /// `CU_MEMORYTYPE_HOST` and `CU_MEMORYTYPE_DEVICE`.
    const TYPES: (c_uint, c_uint) = (1, 2);
    let host = |host| CopyEnd { memory_type: TYPES.0, host, ..CopyEnd::default() };
    match end {
        End::Ours(range) if state.memory.kind_at(*range) != Some(Kind::Pinned) => {
            CopyEnd { memory_type: TYPES.1, device: range.addr as u64, ..CopyEnd::default() }
        }
        End::Ours(range) => host(range.addr),
        End::Pageable(addr) => host(*addr),
        End::Staged(bytes) => host(bytes.as_ptr() as usize),
    }
}

fn dependencies(node: Handle, nodes: &Out<Handle>, count: &Out<usize>) -> Result {
    let (state, _) = enter()?;
    let (graph, node) = state.node(node)?;
    super::graph::list(node.after.iter().map(|before| graph.nodes[*before].handle), nodes, count)
}
