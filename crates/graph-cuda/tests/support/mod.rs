//! What every test here shares: a device over the stand-in driver, which runs the kernels' own source.

use std::{collections::BTreeMap, path::Path, sync::Mutex};

use graph_core::Result;
use graph_cuda::{Cuda, CudaOptions, KernelSource};
use stand_in_driver::{Compiler, Session};

/// The driver for this test alone, or `None` and a line that says that the test did not run.
pub(crate) fn session(test: &str) -> Option<Session<'static>> {
    let driver = stand_in_driver::load().expect("the stand-in driver");
    if Compiler::find().is_none() {
        stand_in_driver::not_run(test);
        return None;
    }
    Some(driver.session())
}

/// The image of a source for the stand-in driver: the kernels compiled for the host, once per process.
pub(crate) fn image(source: &KernelSource) -> Option<Vec<u8>> {
    static IMAGES: Mutex<BTreeMap<&str, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let compile = || {
        let compiler = Compiler::find().expect("a C++ compiler: the session has asked");
        let compiled = compiler.compile_text(&source.expanded(), source.name, Path::new("."));
        compiled.unwrap_or_else(|error| panic!("{}: {error}", source.name)).image().into_bytes()
    };
    Some(IMAGES.lock().expect("no panic").entry(source.text).or_insert_with(compile).clone())
}

/// What is dropped is freed at once, so that use after it is noticed.
pub(crate) fn options() -> CudaOptions {
    CudaOptions::default().images(image).keep_memory(0)
}

pub(crate) fn open() -> Result<Cuda> {
    Cuda::with_options(0, options())
}
