//! A driver that lacks functions: an error that names them. This program loads a library of that kind under the driver's
//! name, made here by the machine's C compiler.

use std::{path::PathBuf, process::Command};

use graph_cuda::Cuda;

const SOURCE: &str = r#"
int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
int cuInit(unsigned flags) { return 0; }
"#;

/// Compiles a library that calls itself `libcuda.so` and stays in the process.
fn load_a_poor_driver() -> Option<()> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, library) = (folder.join("poor.c"), folder.join("libpoor_driver.so"));
    std::fs::write(&source, SOURCE).expect("a source");
    let compile = |compiler: &str| {
        let mut compile = Command::new(compiler);
        compile.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so", "-o"]).arg(&library).arg(&source);
        compile.status().is_ok_and(|status| status.success())
    };
    if !["cc", "gcc", "clang"].into_iter().any(compile) {
        return None;
    }
    // SAFETY: the library is the one above, whose initialisers do nothing.
    let library = unsafe { libloading::Library::new(&library) }.expect("the library");
    std::mem::forget(library);
    Some(())
}

#[test]
fn a_driver_that_lacks_functions_is_refused_by_their_names() {
    if cfg!(not(target_os = "linux")) || load_a_poor_driver().is_none() {
        eprintln!("NOT RUN: a_driver_that_lacks_functions_is_refused_by_their_names: no C compiler");
        return;
    }
    let error = Cuda::new(0).expect_err("a driver without functions").to_string();
    let start = "cuda: loading the driver failed: CUDA_ERROR_NOT_FOUND (500): driver 13.0 has no cuLaunchKernel, cuDeviceGetCount, ";
    assert!(error.starts_with(start), "{error}");
    assert!(error.contains(", cuGraphLaunch, ") && error.ends_with(", cuFuncSetAttribute"), "{error}");
    assert!(!error.contains("cuInit"), "{error}");
    assert!(Cuda::available().is_err());
}
