//! Graphs: recorded operations that run again, in order, on the memory that they recorded.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
};

use graph_core::{Error, Result};

use crate::{
    Captured, Host, Stream,
    codes::{self, INVALID_HANDLE},
    device::Aside,
    hooks::Call,
    issued,
    stream::panicked,
    timeline::Step,
    turn::Turn,
};

/// A recorded operation's body.
pub(crate) type Body = Box<dyn Fn(&mut Turn<'_>) + Send>;

/// An executable graph. It owns the memory that its operations recorded, so their addresses never move (invariant 3).
///
/// ```
/// use graph_core::Backend;
/// use graph_host::Host;
/// let host = Host::new();
/// let (stream, buffer) = (host.stream()?, host.alloc(16)?);
/// Host::begin_capture(&stream)?;
/// Host::zero(&stream, &buffer, 0, 16)?;
/// let graph = host.instantiate(Host::end_capture(&stream)?)?;
/// drop(buffer); // the graph has it
/// assert!(graph.operations().eq(["zero"]));
/// Host::launch(&graph, &stream)?;
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Graph {
    host: Host,
    /// There until the drop.
    program: Option<Program>,
}

/// The parts of a graph: bodies apart, so that a replay walks through nothing else.
pub(crate) struct Program {
    bodies: Box<[Body]>,
    steps: Box<[Step]>,
}

impl Graph {
    /// The names of its operations, in order.
    pub fn operations(&self) -> impl Iterator<Item = &'static str> {
        self.program.iter().flat_map(|p| p.steps.iter().map(|s| s.label.name))
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.operations()).finish()
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Some(program) = self.program.take() {
            self.host.0.discard(Aside::Graph(program));
        }
    }
}

impl Host {
    pub(crate) fn instantiate_graph(&self, captured: Captured) -> Result<Graph> {
        let (device, call) = (&self.0, Call::Instantiate.name());
        device.enter(Call::Instantiate, call)?;
        if device.gate.id() != captured.host.0.gate.id() {
            return Err(codes::error(call, INVALID_HANDLE, "the capture is of another device"));
        }
        let corrupted = device.hooks.corrupted(captured.nodes.iter().map(|n| n.label.name));
        let (mut bodies, mut steps) = (Vec::new(), Vec::new());
        for node in captured.nodes {
            bodies.push(node.body);
            let stream = (node.stream != captured.origin).then_some(node.stream);
            steps.push(Step { label: node.label, stream, after: node.after });
        }
        if let Some(i) = corrupted {
            bodies[i] = Box::new(|_| {});
        }
        device.graphs.fetch_add(1, Ordering::Relaxed);
        let program = Program { bodies: bodies.into(), steps: steps.into() };
        Ok(Graph { host: self.clone(), program: Some(program) })
    }
}

impl Stream {
    /// Runs a graph: one lock, then the bodies one after the other.
    #[inline]
    pub(crate) fn launch(&self, graph: &Graph) -> Result<()> {
        let (device, call) = (self.device(), Call::Launch.name());
        device.hooks.check(Call::Launch, call)?;
        self.accepts(graph, call)?;
        let Some(Program { bodies, steps }) = &graph.program else { return Ok(()) };
        let mut turn = device.gate.enter(call)?;
        let mut running = 0;
        let ran = catch_unwind(AssertUnwindSafe(|| {
            for body in bodies {
                body(&mut turn);
                running += 1;
            }
        }));
        if device.timeline.is_on() {
            device.timeline.graph(&self.0, steps);
        }
        drop(turn);
        issued::bump(device);
        ran.map_err(|panic| panicked(steps[running].label.name, panic))
    }

    pub(crate) fn upload_graph(&self, graph: &Graph) -> Result<()> {
        let call = Call::UploadGraph.name();
        self.device().enter(Call::UploadGraph, call)?;
        self.accepts(graph, call)
    }

    /// Whether a graph may run here: of this device, and the stream does not capture (graphs do not nest here).
    #[inline]
    fn accepts(&self, graph: &Graph, call: &str) -> Result<()> {
        if self.device().gate.id() != graph.host.0.gate.id() {
            return Err(other_device(call));
        }
        match self.is_capturing() {
            false => Ok(()),
            true => self.device().not_capturing(call, Some(self)),
        }
    }
}

#[cold]
fn other_device(call: &str) -> Error {
    codes::error(call, INVALID_HANDLE, "the graph is of another device")
}
