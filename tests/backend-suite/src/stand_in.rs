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
    let images = |source: &KernelSource| image(source.name, &source.expanded());
    // Memory goes back to the driver when it is dropped, so that the stand-in sees who uses it later.
    Cuda::with_options(0, CudaOptions::default().images(images).keep_memory(0))
}

/// The image of a source with its headers, compiled once per process; `None` without a compiler.
///
/// # Panics
/// The compiler refuses it.
pub fn image(name: &str, text: &str) -> Option<Vec<u8>> {
    static IMAGES: Mutex<BTreeMap<String, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let images = || IMAGES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(image) = images().get(text) {
        return Some(image.clone());
    }
    // Not under the lock: threads may compile different sources at the same time.
    let compiled = Compiler::find()?.compile_text(text, name, Path::new("."));
    let image = compiled.unwrap_or_else(|error| panic!("{name}: {error}")).image().into_bytes();
    images().insert(text.to_owned(), image.clone());
    Some(image)
}
