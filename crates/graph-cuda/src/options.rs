//! What may be said when a device is opened.

use std::{fmt, sync::Arc};

use crate::KernelSource;

/// Whether a graph may contain nodes that allocate or free memory.
///
/// ```no_run
/// use graph_core::Backend;
/// use graph_cuda::{Cuda, CudaOptions, MemoryNodes};
///
/// // For a library that allocates on the stream while it is captured.
/// let cuda = Cuda::with_options(0, CudaOptions::default().memory_nodes(MemoryNodes::Allow))?;
/// # let stream = cuda.stream()?;
/// Cuda::begin_capture(&stream)?;
/// // .. its calls, in a raw block
/// let captured = Cuda::end_capture(&stream)?; // with `Reject`, an error that names the node
/// # let _ = captured;
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryNodes {
    /// A capture that recorded one fails with a message that names it.
    #[default]
    Reject,
    /// They are part of the graph, which frees at every launch what the last one left allocated.
    Allow,
}

/// Gives the module image of a source, or nothing.
pub(crate) type Images = dyn Fn(&KernelSource) -> Option<Vec<u8>> + Send + Sync;

/// Options of a device.
///
/// ```
/// use graph_cuda::{CudaOptions, MemoryNodes};
/// let options = CudaOptions::default()
///     .memory_nodes(MemoryNodes::Allow)
///     .images(|source| (source.name == "mine.cu").then(|| b"(the PTX of mine.cu)".to_vec()));
/// ```
#[derive(Clone)]
pub struct CudaOptions {
    pub(crate) memory_nodes: MemoryNodes,
    pub(crate) images: Option<Arc<Images>>,
    pub(crate) keep_memory: usize,
}

impl Default for CudaOptions {
    fn default() -> Self {
        CudaOptions { memory_nodes: MemoryNodes::Reject, images: None, keep_memory: 256 << 20 }
    }
}

impl CudaOptions {
    /// Whether graphs may contain nodes that allocate or free memory (default: no).
    pub fn memory_nodes(mut self, policy: MemoryNodes) -> Self {
        self.memory_nodes = policy;
        self
    }

    /// How many bytes of dropped device memory are kept for later allocations (default: 256 MiB; 0 for none).
    ///
    /// The driver waits for the whole device when memory is freed, which an eager forward would do at every call. Blocks
    /// of more than 16 MiB are not kept, and none while the device has a second stream.
    pub fn keep_memory(mut self, bytes: usize) -> Self {
        self.keep_memory = bytes;
        self
    }

    /// Where module images come from: PTX or a cubin, compiled beforehand, per source; what it gives nothing for is
    /// compiled by NVRTC. The images must hold the kernels that the source declares.
    ///
    /// This is how a machine does without NVRTC, and how tests run on a stand-in driver, whose images are its own.
    pub fn images(
        mut self,
        images: impl Fn(&KernelSource) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        self.images = Some(Arc::new(images));
        self
    }
}

impl fmt::Debug for CudaOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let images = self.images.is_some();
        f.debug_struct("CudaOptions")
            .field("memory_nodes", &self.memory_nodes)
            .field("images", &images)
            .field("keep_memory", &self.keep_memory)
            .finish()
    }
}
