//! What may be said when a device is opened.

use std::{fmt, sync::Arc};

use crate::KernelSource;

/// Whether a graph may contain nodes that allocate or free memory.
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
#[derive(Clone, Default)]
pub struct CudaOptions {
    pub(crate) memory_nodes: MemoryNodes,
    pub(crate) images: Option<Arc<Images>>,
}

impl CudaOptions {
    /// Whether graphs may contain nodes that allocate or free memory (default: no).
    pub fn memory_nodes(mut self, policy: MemoryNodes) -> Self {
        self.memory_nodes = policy;
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
            .finish()
    }
}
