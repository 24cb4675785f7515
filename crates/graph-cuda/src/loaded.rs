//! Modules by their source: one per device, for operations that are called with a stream and nothing else.

use std::{
    ptr,
    sync::{Arc, PoisonError},
};

use graph_core::Result;

use crate::{Cuda, KernelSource, Module, codes};

impl Cuda {
    /// As [`load`](Cuda::load), once per device: whoever asks again while the module lives gets the same. The model whose
    /// operations need the kernels holds it; the operations find it with [`loaded`](Cuda::loaded).
    ///
    /// # Errors
    /// As [`load`](Cuda::load).
    pub fn load_once(&self, source: &'static KernelSource) -> Result<Module> {
        if let Some(module) = self.find(source) {
            return Ok(module);
        }
        let module = self.load(source)?;
        let mut loaded = self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.retain(|module| module.strong_count() > 0);
        loaded.push(Arc::downgrade(&module.0));
        Ok(module)
    }

    /// The module of a source that [`load_once`](Cuda::load_once) has loaded, while somebody holds it: no driver call.
    ///
    /// # Errors
    /// No such module.
    pub fn loaded(&self, source: &'static KernelSource) -> Result<Module> {
        self.find(source).ok_or_else(|| {
            let detail = format_args!("{} is not loaded on this device, or nobody holds it", source.name);
            codes::error("loaded", codes::NOT_FOUND, detail)
        })
    }

    fn find(&self, source: &'static KernelSource) -> Option<Module> {
        let loaded = self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let alive = loaded.iter().filter_map(|module| module.upgrade());
        alive.map(Module).find(|module| ptr::eq(module.0.source, source))
    }
}
