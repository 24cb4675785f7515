//! CUDA devices over the stand-in driver, whose kernels are their own source compiled for the host.

use std::{collections::BTreeMap, path::Path, sync::Mutex};

use graph_core::Result;
use graph_cuda::{Cuda, CudaOptions, KernelSource};
use stand_in_driver::{Compiler, Session};

/// The driver for one test, or `None` and a line that says that the test did not run.
///
/// # Panics
/// The stand-in cannot be loaded.
pub fn session(test: &str) -> Option<Session<'static>> {
    let driver = stand_in_driver::load().expect("the stand-in driver");
    if Compiler::find().is_none() {
        stand_in_driver::not_run(test);
        return None;
    }
    Some(driver.session())
}

/// A device whose kernels are compiled by the C++ compiler, each source once per process.
///
/// # Errors
/// As [`Cuda::with_options`].
pub fn open() -> Result<Cuda> {
    static IMAGES: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let once = |source: &KernelSource| {
        let text = source.expanded();
        let mut images = IMAGES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !images.contains_key(&text) {
            images.insert(text.clone(), image(source.name, &text)?);
        }
        images.get(&text).cloned()
    };
    // Memory goes back to the driver when it is dropped, so that the stand-in sees who uses it later.
    Cuda::with_options(0, CudaOptions::default().images(once).keep_memory(0))
}

/// The image of a source with its headers; `None` without a compiler.
///
/// # Panics
/// The compiler refuses it.
pub fn image(name: &str, text: &str) -> Option<Vec<u8>> {
    let compiled = Compiler::find()?.compile_text(text, name, Path::new("."));
    Some(compiled.unwrap_or_else(|error| panic!("{name}: {error}")).image().into_bytes())
}
