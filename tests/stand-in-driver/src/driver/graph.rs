//! Graphs and executable graphs: nodes, order, launch, update, and the memory that their nodes own.
use super::abi::Handle;
use super::codes::{Code, Result};
use super::memory::{Kind, Range};
use super::op::Op;
use super::state::State;
use std::collections::HashSet;
use std::sync::Arc;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
pub(crate) const AUTO_FREE: u64 = 1;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD`.
pub(crate) const UPLOAD: u64 = 2;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`.
pub(crate) const DEVICE_LAUNCH: u64 = 4;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY`.
pub(crate) const NODE_PRIORITY: u64 = 8;

pub(crate) struct Node {
    pub(crate) handle: Handle,
    pub(crate) op: Op,
    /// The nodes that must have run before.
    pub(crate) after: Vec<usize>,
}

pub(crate) struct Graph {
    pub(crate) context: Handle,
    /// In the order of capture, in which every node comes behind those that it depends on.
    pub(crate) nodes: Vec<Node>,
}

pub(crate) struct Exec {
    pub(crate) context: Handle,
    pub(crate) flags: u64,
    /// Handles of the graph's nodes and what each does, in the graph's order, with the edges.
    nodes: Vec<(Handle, Vec<usize>)>,
    ops: Vec<Op>,
    /// What a launch enqueues: `ops` in the order in which they run.
    order: Arc<[Op]>,
    /// Whether a node allocates or frees memory.
    has_memory: bool,
    /// The last launch: one exec never runs beside itself.
    last: Option<(Handle, u64)>,
}

impl Graph {
    pub(crate) fn new(context: Handle) -> Self {
        Self { context, nodes: Vec::new() }
    }

    pub(crate) fn push(&mut self, handle: Handle, op: Op, after: Vec<usize>) -> usize {
        self.nodes.push(Node { handle, op, after });
        self.nodes.len() - 1
    }

    /// The memory that the graph's nodes allocate.
    pub(crate) fn allocates(&self) -> impl Iterator<Item = Range> {
        allocated(self.nodes.iter().map(|node| &node.op))
    }
}

impl Op {
    /// `CUgraphNodeType`.
    pub(crate) fn node_type(&self) -> u32 {
        match self {
            Self::Kernel(_) => 0,
            Self::Copy { .. } => 1,
            Self::Set { .. } => 2,
            Self::Host { .. } => 3,
            Self::Graph(_) => 4,
            Self::Wait { .. } => 6,
            Self::Record { .. } => 7,
            Self::Alloc(_) => 10,
            Self::Free(_) => 11,
        }
    }
}

fn allocated<'a>(ops: impl Iterator<Item = &'a Op>) -> impl Iterator<Item = Range> {
    ops.filter_map(|op| if let Op::Alloc(range) = op { Some(*range) } else { None })
}

/// Puts the nodes in the order in which they run. Branches that do not depend on each other have no order;
/// reversed, the last one captured runs first, which shows a missing edge.
fn order(ops: &[Op], nodes: &[(Handle, Vec<usize>)], reversed: bool) -> Arc<[Op]> {
    if !reversed {
        return ops.into();
    }
    let mut done = HashSet::new();
    let mut sorted = Vec::new();
    while sorted.len() < ops.len() {
        let ready =
            |index: &usize| !done.contains(index) && nodes[*index].1.iter().all(|it| done.contains(it));
        let Some(next) = (0..ops.len()).rev().find(ready) else { break };
        done.insert(next);
        sorted.push(ops[next].clone());
    }
    sorted.into()
}

impl State {
    /// A graph by handle, one that is still being captured included.
    pub(crate) fn graph(&self, handle: Handle) -> Result<&Graph> {
        let captured = || self.captures.values().find(|it| it.graph_handle == handle).map(|it| &it.graph);
        self.graphs.get(&handle).or_else(captured).ok_or(Code::INVALID_VALUE)
    }

    pub(crate) fn node(&self, handle: Handle) -> Result<(&Graph, &Node)> {
        let captured = self.captures.values().map(|it| &it.graph);
        let mut graphs = self.graphs.values().chain(captured);
        let found = graphs.find_map(|graph| {
            graph.nodes.iter().find(|node| node.handle == handle).map(|node| (graph, node))
        });
        found.ok_or(Code::INVALID_VALUE)
    }

    pub(crate) fn instantiate(&mut self, handle: Handle, flags: u64) -> Result<Handle> {
        let known = AUTO_FREE | UPLOAD | DEVICE_LAUNCH | NODE_PRIORITY;
        let clash = AUTO_FREE | DEVICE_LAUNCH;
        if flags & !known != 0 || flags & clash == clash {
            return self.refuse(Code::INVALID_VALUE, format!("instantiation flags {flags:#x}"));
        }
        if flags & DEVICE_LAUNCH != 0 {
            return self.refuse(Code::NOT_SUPPORTED, "launch from the device".into());
        }
        let graph = self.graphs.get(&handle).ok_or(Code::INVALID_VALUE)?;
        if graph.allocates().any(|range| self.memory_of_exec(range)) {
            return self
                .refuse(Code::INVALID_VALUE, "a graph with memory nodes has one exec at a time".into());
        }
        let nodes: Vec<_> = graph.nodes.iter().map(|node| (node.handle, node.after.clone())).collect();
        let ops: Vec<Op> = graph.nodes.iter().map(|node| node.op.clone()).collect();
        let order = order(&ops, &nodes, self.settings.reversed_graphs);
        let has_memory = ops.iter().any(|op| matches!(op, Op::Alloc(_) | Op::Free(_)));
        let exec = Exec { context: graph.context, flags, nodes, ops, order, has_memory, last: None };
        let handle = self.new_handle();
        self.execs.insert(handle, exec);
        Ok(handle)
    }

    fn memory_of_exec(&self, range: Range) -> bool {
        self.execs.values().any(|exec| allocated(exec.ops.iter()).any(|it| it == range))
    }

    pub(crate) fn launch_graph(&mut self, handle: Handle, key: Handle) -> Result {
        let exec = self.execs.get(&handle).ok_or(Code::INVALID_VALUE)?;
        let (order, last, has_memory) = (exec.order.clone(), exec.last, exec.has_memory);
        if self.stream(key)?.context != exec.context {
            return self
                .refuse(Code::INVALID_HANDLE, "a graph was launched into another context's stream".into());
        }
        if let Some((stream, upto)) = last
            && stream != key
        {
            self.submit(key, Op::Wait { stream, upto })?;
        }
        if has_memory {
            self.prepare_memory(handle, key, &order)?;
        }
        self.submit(key, Op::Graph(order))?;
        let tail = self.stream(key)?.tail();
        if let Some(exec) = self.execs.get_mut(&handle) {
            exec.last = Some((key, tail));
        }
        Ok(())
    }

    /// What a launch of a graph with memory nodes needs: the memory of its last launch is freed, or is freed
    /// now.
    fn prepare_memory(&mut self, exec: Handle, key: Handle, order: &[Op]) -> Result {
        let flags = self.execs.get(&exec).ok_or(Code::INVALID_VALUE)?.flags;
        let allocated: Vec<Range> = allocated(order.iter()).collect();
        let left: Vec<Range> = allocated.iter().filter(|range| self.outstanding(**range)).copied().collect();
        if !left.is_empty() && flags & AUTO_FREE == 0 {
            let why = "a graph was launched again before the memory of its last launch was freed";
            return self.refuse(Code::INVALID_VALUE, why.into());
        }
        for range in left {
            self.submit(key, Op::Free(range))?;
        }
        self.set_outstanding(&allocated, true);
        let freed = order.iter().filter_map(|op| if let Op::Free(range) = op { Some(*range) } else { None });
        self.set_outstanding(&freed.collect::<Vec<_>>(), false);
        Ok(())
    }

    fn outstanding(&self, range: Range) -> bool {
        self.memory.get(range.addr).is_some_and(|it| it.outstanding)
    }

    pub(crate) fn set_outstanding(&mut self, ranges: &[Range], outstanding: bool) {
        for range in ranges {
            if let Some(it) = self.memory.get_mut(range.addr) {
                it.outstanding = outstanding;
            }
        }
    }

    /// Takes over another graph's work where node by node type and edges agree. `None`: done; else the node
    /// that differs, if it is a single one.
    pub(crate) fn update_exec(&mut self, exec: Handle, graph: Handle) -> Result<Option<Handle>> {
        let new = self.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?;
        let old = self.execs.get(&exec).ok_or(Code::INVALID_VALUE)?;
        if new.nodes.len() != old.nodes.len() {
            return Ok(Some(0));
        }
        let same = |(index, node): (usize, &Node)| {
            node.op.node_type() == old.ops[index].node_type() && node.after == old.nodes[index].1
        };
        if let Some(index) = (0..new.nodes.len()).find(|index| !same((*index, &new.nodes[*index]))) {
            return Ok(Some(new.nodes[index].handle));
        }
        let ops: Vec<Op> = new.nodes.iter().map(|node| node.op.clone()).collect();
        self.replace_ops(exec, ops);
        Ok(None)
    }

    /// Replaces what one node of an exec does; launches that are under way keep the old work.
    pub(crate) fn replace_node(&mut self, exec: Handle, node: Handle, op: Op) -> Result {
        let it = self.execs.get(&exec).ok_or(Code::INVALID_VALUE)?;
        let index = it.nodes.iter().position(|(handle, _)| *handle == node).ok_or(Code::INVALID_VALUE)?;
        if it.ops[index].node_type() != op.node_type() {
            return Err(Code::INVALID_VALUE);
        }
        let mut ops = it.ops.clone();
        ops[index] = op;
        self.replace_ops(exec, ops);
        Ok(())
    }

    fn replace_ops(&mut self, exec: Handle, ops: Vec<Op>) {
        let reversed = self.settings.reversed_graphs;
        if let Some(it) = self.execs.get_mut(&exec) {
            it.order = order(&ops, &it.nodes, reversed);
            it.ops = ops;
        }
    }

    pub(crate) fn clone_graph(&mut self, handle: Handle) -> Result<Handle> {
        let graph = self.graphs.get(&handle).ok_or(Code::INVALID_VALUE)?;
        if graph.nodes.iter().any(|node| matches!(node.op, Op::Alloc(_) | Op::Free(_))) {
            return self.refuse(Code::NOT_SUPPORTED, "a graph with memory nodes was cloned".into());
        }
        let mut copy = Graph::new(graph.context);
        let nodes: Vec<(Op, Vec<usize>)> =
            graph.nodes.iter().map(|node| (node.op.clone(), node.after.clone())).collect();
        for (op, after) in nodes {
            copy.push(self.new_handle(), op, after);
        }
        let handle = self.new_handle();
        self.graphs.insert(handle, copy);
        Ok(handle)
    }

    /// Lets the memory of graphs go that no graph, capture or exec names any more, no program still has to
    /// free, and no pending work can use.
    pub(crate) fn sweep_graph_memory(&mut self) {
        if !self.memory.has_graph_memory() || self.streams.values().any(|stream| !stream.is_idle()) {
            return;
        }
        let graphs = self.graphs.values().chain(self.captures.values().map(|it| &it.graph));
        let mut named: HashSet<usize> =
            graphs.flat_map(|graph| graph.allocates()).map(|it| it.addr).collect();
        named.extend(self.execs.values().flat_map(|exec| allocated(exec.ops.iter())).map(|it| it.addr));
        let unnamed = |it: &&super::memory::Allocation| {
            it.kind == Kind::Graph && !it.backed && !it.outstanding && !named.contains(&it.range().addr)
        };
        let gone: Vec<usize> = self.memory.iter().filter(unnamed).map(|it| it.range().addr).collect();
        gone.into_iter().for_each(|addr| self.release_memory(addr));
    }
}
