//! Graphs: what a capture recorded, and what can be launched.

use std::{cell::Cell, fmt, marker::PhantomData, ptr::null_mut, sync::Arc};

use cudarc::driver::sys::{CUgraphExec, CUgraphExec_st};
use graph_core::Result;

use crate::{
    Cuda, Stream,
    calls::{self, Failure},
    capture::{Keep, RawGraph},
    codes,
    control::Doomed,
    device::Device,
    handle::Handle,
    issued,
    memory::foreign,
};

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`: a graph that allocates can be launched again.
const AUTO_FREE_ON_LAUNCH: u64 = 1;

/// What a capture recorded, audited, before [`instantiate`](graph_core::Backend::instantiate).
///
/// ```no_run
/// use graph_core::Backend;
/// use graph_cuda::Cuda;
///
/// let cuda = Cuda::new(0)?;
/// let (stream, buffer) = (cuda.stream()?, cuda.alloc(64)?);
/// Cuda::begin_capture(&stream)?;
/// Cuda::zero(&stream, &buffer, 0, 64)?;
/// let captured = Cuda::end_capture(&stream)?; // audited, node by node
/// assert_eq!(Cuda::operations(&captured).len(), 1);
/// assert!(captured.unchecked().is_empty(), "no raw block");
/// let graph = cuda.instantiate(captured)?;
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Captured {
    pub(crate) graph: RawGraph,
    pub(crate) operations: Vec<String>,
    pub(crate) unchecked: Vec<&'static str>,
    pub(crate) memory_nodes: bool,
    /// Behind the graph, so that it goes after it.
    pub(crate) kept: Vec<Keep>,
}

/// An executable graph. It keeps everything alive that it recorded, so its addresses never move (invariant 3), the raw
/// blocks' own memory excepted. One thread at a time launches it: it is `Send`, not `Sync`.
///
/// ```no_run
/// use graph_core::Backend;
/// use graph_cuda::Cuda;
///
/// # let cuda = Cuda::new(0)?;
/// # let (stream, buffer) = (cuda.stream()?, cuda.alloc(64)?);
/// Cuda::begin_capture(&stream)?;
/// Cuda::zero(&stream, &buffer, 0, 64)?;
/// let graph = cuda.instantiate(Cuda::end_capture(&stream)?)?;
/// drop(buffer); // the graph keeps its memory
/// Cuda::launch(&graph, &stream)?;
/// println!("{:?}", graph.operations());
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Graph {
    exec: Exec,
    operations: Vec<String>,
    unchecked: Vec<&'static str>,
    /// Of a graph that allocates: it lives as long as the executable, whose memory it names.
    _captured: Option<RawGraph>,
    /// Behind the executable, so that it goes after it.
    _kept: Vec<Keep>,
    not_sync: PhantomData<Cell<()>>,
}

struct Exec {
    device: Arc<Device>,
    raw: Handle<CUgraphExec_st>,
}

impl Drop for Exec {
    fn drop(&mut self) {
        self.device.discard(Doomed::Exec(self.raw));
    }
}

impl Graph {
    /// The names of its operations, in order; a raw block is one operation, `raw: NAME`.
    pub fn operations(&self) -> &[String] {
        &self.operations
    }

    /// The driver's handle, for calls that this crate does not make, such as in a [`raw`](Stream::raw) block: valid while
    /// the graph lives. A launch through it is the caller's to keep from running beside one of [`Graph`]'s own.
    pub fn cu_graph_exec(&self) -> CUgraphExec {
        self.exec.raw.raw()
    }

    /// The raw blocks that were recorded into it: what they launch, and whether its memory lives, nobody has checked.
    pub fn unchecked(&self) -> &[&'static str] {
        &self.unchecked
    }
}

impl Captured {
    /// As [`Graph::unchecked`].
    pub fn unchecked(&self) -> &[&'static str] {
        &self.unchecked
    }
}

impl Cuda {
    pub(crate) fn instantiate_graph(&self, captured: Captured) -> Result<Graph> {
        let Captured { graph, operations, unchecked, memory_nodes, kept } = captured;
        if graph.device.id != self.0.id {
            return Err(foreign("instantiate", "capture"));
        }
        self.0.may_wait("instantiate", None)?;
        self.0.enter_surely("instantiate")?;
        let flags = if memory_nodes { AUTO_FREE_ON_LAUNCH } else { 0 };
        let mut raw = null_mut();
        // SAFETY: the context is current, the graph is alive and nobody else uses it, and the pointer is valid for the
        // write. If this fails, `graph` is dropped, and the driver's graph with it.
        let mut instantiate = || unsafe { calls::instantiate(&raw mut raw, graph.raw.raw(), flags) };
        let made = instantiate().or_else(|f| if self.0.makes_room(f) { instantiate() } else { Err(f) });
        made.map_err(|f| self.0.fail(f))?;
        let exec = Exec { device: self.0.clone(), raw: Handle::new(raw) };
        let captured = memory_nodes.then_some(graph);
        Ok(Graph { exec, operations, unchecked, _captured: captured, _kept: kept, not_sync: PhantomData })
    }
}

impl Stream {
    pub(crate) fn upload_graph(&self, graph: &Graph) -> Result<()> {
        self.accepts(graph, "upload_graph")?;
        let device = self.on();
        device.enter("upload_graph")?;
        // SAFETY: both handles are alive, of this context.
        unsafe { calls::graph_upload(graph.exec.raw.raw(), self.raw_stream()) }.map_err(|f| device.fail(f))
    }

    /// One driver call.
    #[inline]
    pub(crate) fn launch(&self, graph: &Graph) -> Result<()> {
        self.accepts(graph, "launch")?;
        let device = self.on();
        device.enter("launch")?;
        // SAFETY: both handles are alive, of this context; the graph is not `Sync`, so no other thread launches it at
        // this moment; it keeps what it uses.
        let launch = || unsafe { calls::graph_launch(graph.exec.raw.raw(), self.raw_stream()) };
        launch().or_else(|f| self.launch_again(f, launch))?;
        issued::bump(device.id);
        Ok(())
    }

    /// Somebody else may have made another context current on this thread, which is not asked about before a launch.
    #[cold]
    fn launch_again(&self, failure: Failure, launch: impl Fn() -> Result<(), Failure>) -> Result<()> {
        let device = self.on();
        if matches!(failure.code, codes::INVALID_CONTEXT | codes::INVALID_HANDLE) && device.bind().is_ok() {
            return launch().map_err(|f| device.fail(f));
        }
        Err(device.fail(failure))
    }

    /// Whether a graph may run here: of this device, and the stream does not capture (graphs do not nest here).
    #[inline]
    fn accepts(&self, graph: &Graph, call: &'static str) -> Result<()> {
        if graph.exec.device.id != self.on().id {
            return Err(foreign(call, "graph"));
        }
        match self.is_recording() {
            false => Ok(()),
            true => Err(self.on().refuse(call, Some(self))),
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.operations).finish()
    }
}

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.operations).finish()
    }
}
