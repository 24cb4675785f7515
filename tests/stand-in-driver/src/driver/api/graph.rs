//! Graphs and executable graphs.
use crate::driver::abi::{Handle, Out, Text};
use crate::driver::codes::{Code, Result};
use crate::driver::graph::{Graph, UPLOAD};
use crate::driver::probe::driver_functions;
use crate::driver::state::enter;
use std::ffi::{c_char, c_uint};
use std::fmt::Write as _;

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
struct InstantiateParams {
    flags: u64,
    upload_stream: Handle,
    error_node: Handle,
    result: c_uint,
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy)]
struct UpdateResult {
    result: c_uint,
    error_node: Handle,
    error_from_node: Handle,
}

/// `CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED`.
const TOPOLOGY_CHANGED: c_uint = 2;

driver_functions! {
    fn cuGraphCreate(graph: Out<Handle>, _flags: c_uint) {
        let (mut state, context) = enter()?;
        let handle = state.new_handle();
        state.graphs.insert(handle, Graph::new(context));
        graph.set(handle)
    }

    fn cuGraphDestroy(graph: Handle) {
        let (mut state, _) = enter()?;
        state.graphs.remove(&graph).ok_or(Code::INVALID_VALUE)?;
        state.sweep_graph_memory();
        Ok(())
    }

    fn cuGraphClone(clone: Out<Handle>, graph: Handle) {
        let (mut state, _) = enter()?;
        clone.set(state.clone_graph(graph)?)
    }

    fn cuGraphInstantiateWithFlags(exec: Out<Handle>, graph: Handle, flags: u64) {
        let (mut state, _) = enter()?;
        state.check_unsafe_call("cuGraphInstantiate")?;
        if flags & UPLOAD != 0 {
            return state.refuse(Code::INVALID_VALUE, "an upload at instantiation names no stream here".into());
        }
        exec.set(state.instantiate(graph, flags)?)
    }

    fn cuGraphInstantiateWithParams(exec: Out<Handle>, graph: Handle, params: Out<InstantiateParams>) {
        let (mut state, context) = enter()?;
        state.check_unsafe_call("cuGraphInstantiate")?;
        let asked = params.get()?;
        if asked.flags & UPLOAD != 0 {
            state.stream_key(context, asked.upload_stream)?;
        }
        exec.set(state.instantiate(graph, asked.flags)?)?;
        params.set(InstantiateParams { error_node: 0, result: 0, ..asked })
    }

    fn cuGraphExecGetFlags(exec: Handle, flags: Out<u64>) {
        let (state, _) = enter()?;
        flags.set(state.execs.get(&exec).ok_or(Code::INVALID_VALUE)?.flags)
    }

    fn cuGraphUpload(exec: Handle, stream: Handle) {
        let (mut state, context) = enter()?;
        let key = state.stream_key(context, stream)?;
        state.check_not_capturing(key, "an upload of a graph to a stream")?;
        if state.execs.contains_key(&exec) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    fn cuGraphLaunch(exec: Handle, stream: Handle) {
        let (mut state, context) = enter()?;
        let key = state.stream_key(context, stream)?;
        state.launch_graph(exec, key)
    }

    fn cuGraphExecDestroy(exec: Handle) {
        let (mut state, _) = enter()?;
        state.check_unsafe_call("cuGraphExecDestroy")?;
        state.execs.remove(&exec).ok_or(Code::INVALID_VALUE)?;
        state.sweep_graph_memory();
        Ok(())
    }

    fn cuGraphExecUpdate_v2(exec: Handle, graph: Handle, info: Out<UpdateResult>) {
        let (mut state, _) = enter()?;
        match state.update_exec(exec, graph)? {
            None => info.set(UpdateResult { result: 0, error_node: 0, error_from_node: 0 }),
            Some(error_node) => {
                info.set(UpdateResult { result: TOPOLOGY_CHANGED, error_node, error_from_node: 0 })?;
                Err(Code::GRAPH_UPDATE_FAILURE)
            }
        }
    }

    fn cuGraphGetNodes(graph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let (state, _) = enter()?;
        list(state.graph(graph)?.nodes.iter().map(|node| node.handle), &nodes, &count)
    }

    fn cuGraphGetRootNodes(graph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        let (state, _) = enter()?;
        let roots = state.graph(graph)?.nodes.iter().filter(|node| node.after.is_empty());
        list(roots.map(|node| node.handle), &nodes, &count)
    }

    fn cuGraphGetEdges(graph: Handle, from: Out<Handle>, to: Out<Handle>, count: Out<usize>) {
        edges(graph, &from, &to, &count)
    }

    fn cuGraphGetEdges_v2(graph: Handle, from: Out<Handle>, to: Out<Handle>, data: Out<u64>, count: Out<usize>) {
        // Every edge is a plain one, which is all zeros in eight bytes.
        if !data.is_null() {
            data.fill(std::iter::repeat_n(0, count.get()?));
        }
        edges(graph, &from, &to, &count)
    }

    /// Writes nodes with their kinds and edges; a driver writes more.
    fn cuGraphDebugDotPrint(graph: Handle, path: Text, _flags: c_uint) {
        let (state, _) = enter()?;
        let mut dot = String::from("digraph graph_1 {\n");
        for (index, node) in state.graph(graph)?.nodes.iter().enumerate() {
            let _ = writeln!(dot, "  n{index} [label=\"type {}\"];", node.op.node_type());
            for before in &node.after {
                let _ = writeln!(dot, "  n{before} -> n{index};");
            }
        }
        dot.push_str("}\n");
        std::fs::write(path.get()?, dot).map_err(|_| Code::INVALID_VALUE)
    }

    fn cuFuncGetName(name: Out<*const c_char>, function: Handle) {
        let (state, _) = enter()?;
        name.set(state.function(function)?.c_name.as_ptr())
    }
}

/// Answers a query that gives the number of values when there is no room, else fills what room there is.
pub(super) fn list(values: impl Iterator<Item = Handle>, out: &Out<Handle>, count: &Out<usize>) -> Result {
    if out.is_null() {
        return count.set(values.count());
    }
    let values: Vec<Handle> = values.take(count.get()?).collect();
    count.set(values.len())?;
    out.fill(values);
    Ok(())
}

fn edges(graph: Handle, from: &Out<Handle>, to: &Out<Handle>, count: &Out<usize>) -> Result {
    let (state, _) = enter()?;
    let nodes = &state.graph(graph)?.nodes;
    let pairs =
        nodes.iter().flat_map(|node| node.after.iter().map(|before| (nodes[*before].handle, node.handle)));
    if from.is_null() || to.is_null() {
        return count.set(pairs.count());
    }
    let pairs: Vec<(Handle, Handle)> = pairs.take(count.get()?).collect();
    count.set(pairs.len())?;
    from.fill(pairs.iter().map(|pair| pair.0));
    to.fill(pairs.iter().map(|pair| pair.1));
    Ok(())
}
