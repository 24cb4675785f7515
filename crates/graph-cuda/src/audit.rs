//! What a capture recorded: read from the driver's graph, node by node, in order, and refused where it may not be in a
//! graph.

use std::{
    ffi::{CStr, c_void},
    mem::MaybeUninit,
    ptr::{null, null_mut},
};

use cudarc::driver::sys::{self, CUgraphEdgeData, CUgraphNode, CUpointer_attribute_enum};
use graph_core::Result;

use crate::{
    Captured, MemoryNodes,
    calls::{self, Failure},
    capture::{HostEnd, Notes, RawGraph},
    codes,
    device::Device,
};

/// Kinds of nodes, as numbers: a newer driver may have kinds that these bindings do not know.
mod kind {
    pub(super) const KERNEL: u32 = 0;
    pub(super) const COPY: u32 = 1;
    pub(super) const SET: u32 = 2;
    pub(super) const HOST: u32 = 3;
    pub(super) const CHILD: u32 = 4;
    pub(super) const EMPTY: u32 = 5;
    pub(super) const ALLOC: u32 = 10;
    pub(super) const FREE: u32 = 11;
}

/// Names the recorded operations, or refuses the graph.
pub(crate) fn check(graph: RawGraph, notes: Notes) -> Result<Captured> {
    let device = &*graph.device;
    let nodes = in_order(device, &graph)?;
    let (mut operations, mut told, mut memory_nodes) = (Vec::new(), vec![false; notes.raw.len()], false);
    for (i, node) in nodes.iter().enumerate() {
        let block = notes.raw.iter().position(|block| block.nodes.contains(node));
        let within =
            || block.map_or(String::new(), |b| format!(", recorded by raw block `{}`", notes.raw[b].name));
        let refuse = |what: &str| {
            let detail = format_args!("operation {i} of the capture is {what}{}", within());
            Err(codes::error("the audit of the capture", codes::STREAM_CAPTURE_UNSUPPORTED, detail))
        };
        let mut kind = 0_u32;
        // SAFETY: the node is the graph's. A kind is a C enum of this size; read as a number it may have any value.
        unsafe { calls::node_type(*node, (&raw mut kind).cast()) }.map_err(|f| device.fail(f))?;
        let name = match kind {
            kind::KERNEL => kernel_name(*node).map_err(|f| device.fail(f))?,
            kind::COPY => match copy_name(*node, &notes.ends).map_err(|f| device.fail(f))? {
                Some(name) => name.into(),
                None => {
                    return refuse(
                        "a copy from or to memory of the host, which is there for the capture only; \
                         copy before the graph or after it",
                    );
                }
            },
            kind::SET => "zero".into(),
            kind::HOST => return refuse("a call of a host function, which a graph may not contain"),
            kind::CHILD => {
                return refuse(
                    "a graph of its own, with operations that nobody has checked; launch it before the capture's or \
                     after it",
                );
            }
            kind::EMPTY => continue,
            kind::ALLOC | kind::FREE => {
                let what = if kind == kind::ALLOC { "an allocation" } else { "a free" };
                if device.options.memory_nodes == MemoryNodes::Reject {
                    return refuse(&format!(
                        "{what} of device memory; allocate before the capture, or allow memory nodes in the options"
                    ));
                }
                memory_nodes = true;
                what.into()
            }
            other => format!("(node of kind {other})"),
        };
        match block {
            None => operations.push(name),
            // A block is one operation, as it was when it ran eagerly.
            Some(b) if !std::mem::replace(&mut told[b], true) => {
                operations.push(format!("raw: {}", notes.raw[b].name));
            }
            Some(_) => {}
        }
    }
    let unchecked = notes.raw.iter().map(|block| block.name).collect();
    Ok(Captured { graph, operations, unchecked, memory_nodes, kept: notes.kept })
}

/// The nodes of a graph, each behind those that it depends on, as recorded where that leaves a choice.
fn in_order(device: &Device, graph: &RawGraph) -> Result<Vec<CUgraphNode>> {
    // SAFETY: the graph is alive, and nobody else uses it.
    let nodes = unsafe { nodes(graph.raw.raw()) }.map_err(|f| device.fail(f))?;
    let mut count = 0;
    // SAFETY: a query without room gives the count.
    unsafe { calls::graph_edges(graph.raw.raw(), null_mut(), null_mut(), null_mut(), &raw mut count) }
        .map_err(|f| device.fail(f))?;
    let (mut from, mut to) = (vec![null_mut(); count], vec![null_mut(); count]);
    let plain = CUgraphEdgeData { from_port: 0, to_port: 0, type_: 0, reserved: [0; 5] };
    let mut data = vec![plain; count];
    if count > 0 {
        let (from, to, data) = (from.as_mut_ptr(), to.as_mut_ptr(), data.as_mut_ptr());
        // SAFETY: there is room for `count` edges in each.
        unsafe { calls::graph_edges(graph.raw.raw(), from, to, data, &raw mut count) }
            .map_err(|f| device.fail(f))?;
    }
    let mut left: Vec<(CUgraphNode, usize)> =
        nodes.iter().map(|node| (*node, to.iter().filter(|to| *to == node).count())).collect();
    let mut order = Vec::new();
    while let Some(ready) = left.iter().position(|(_, before)| *before == 0) {
        let (node, _) = left.remove(ready);
        order.push(node);
        for (_, after) in from.iter().zip(&to).filter(|(from, _)| **from == node) {
            left.iter_mut().filter(|(node, _)| node == after).for_each(|(_, before)| *before -= 1);
        }
    }
    Ok(order)
}

/// The nodes of a graph.
///
/// # Safety
/// The graph is alive, a capture that is still running included, and nobody else changes it.
pub(crate) unsafe fn nodes(graph: sys::CUgraph) -> Result<Vec<CUgraphNode>, Failure> {
    let mut count = 0;
    // SAFETY: a query without room gives the count.
    unsafe { calls::graph_nodes(graph, null_mut(), &raw mut count) }?;
    let mut nodes = vec![null_mut(); count];
    if count > 0 {
        // SAFETY: there is room for `count` nodes.
        unsafe { calls::graph_nodes(graph, nodes.as_mut_ptr(), &raw mut count) }?;
    }
    nodes.truncate(count);
    Ok(nodes)
}

fn kernel_name(node: CUgraphNode) -> Result<String, Failure> {
    let mut params = MaybeUninit::<sys::CUDA_KERNEL_NODE_PARAMS>::zeroed();
    // SAFETY: the node is a kernel's, and the pointer is valid for the write.
    unsafe { calls::node_kernel(node, params.as_mut_ptr()) }?;
    // SAFETY: every field is a number or a pointer, for which zeros and whatever the driver writes are values.
    let function = unsafe { params.assume_init() }.func;
    if function.is_null() {
        return Ok("kernel".into()); // of a library, which has another type
    }
    let mut name = null();
    // SAFETY: the function is the node's, and the pointer is valid for the write.
    unsafe { calls::function_name(&raw mut name, function) }?;
    if name.is_null() {
        return Ok("kernel".into());
    }
    // SAFETY: the driver gives a text that lives as long as the function.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    Ok(if name.starts_with("pad_rows_") { "pad_rows".into() } else { name.into_owned() })
}

/// Where an end of a copy lies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Host(usize),
    Device(u64),
    /// An array, or a kind of memory that these lines do not know.
    Other,
}

/// The name of a copy that a graph may contain: between device memory, or one of `ends`.
fn copy_name(node: CUgraphNode, ends: &[HostEnd]) -> Result<Option<&'static str>, Failure> {
    let mut params = MaybeUninit::<sys::CUDA_MEMCPY3D>::zeroed();
    let p = params.as_mut_ptr();
    // SAFETY: the node is a copy's, and the pointer is valid for the write. The fields are read one by one through the
    // pointer, the two memory types as numbers, since another driver may know more of them than the enum does.
    let (src, dst, bytes) = unsafe {
        calls::node_copy(node, p)?;
        let src = ((&raw const (*p).srcMemoryType).cast::<u32>().read(), (*p).srcHost.addr(), (*p).srcDevice);
        let dst = ((&raw const (*p).dstMemoryType).cast::<u32>().read(), (*p).dstHost.addr(), (*p).dstDevice);
        (place(src)?, place(dst)?, (*p).WidthInBytes)
    };
    Ok(match (src, dst) {
        (Place::Host(host), Place::Device(device)) | (Place::Device(device), Place::Host(host)) => {
            let own = ends.iter().find(|end| (end.host, end.device, end.bytes) == (host, device, bytes));
            own.map(|end| end.name)
        }
        (Place::Host(_), Place::Host(_)) => None,
        _ => Some("copy"),
    })
}

fn place((memory_type, host, device): (u32, usize, u64)) -> Result<Place, Failure> {
    /// `CU_MEMORYTYPE_HOST`, `_DEVICE`, `_UNIFIED`.
    const TYPES: (u32, u32, u32) = (1, 2, 4);
    Ok(match memory_type {
        t if t == TYPES.0 => Place::Host(host),
        t if t == TYPES.1 => Place::Device(device),
        // An address that the driver has to be asked about; it knows no address of pageable memory.
        t if t == TYPES.2 => {
            let mut found = 0_u32;
            let which = CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
            // SAFETY: the attribute is a number of this size.
            match unsafe { calls::pointer_attribute((&raw mut found).cast::<c_void>(), which, device) } {
                Ok(()) if found == TYPES.1 => Place::Device(device),
                Ok(()) => Place::Host(device as usize),
                Err(f) if f.code == codes::INVALID_VALUE => Place::Host(device as usize),
                Err(f) => return Err(f),
            }
        }
        _ => Place::Other,
    })
}
