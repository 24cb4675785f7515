//! A driver that lacks functions: an error that names them. This program loads a library of that kind under the driver's
//! name, made here by the machine's C compiler.

use std::{path::PathBuf, process::Command};

use graph_cuda::Cuda;

/// A library of that name that has nothing to do with CUDA.
const FOREIGN: &str = "int answer(void) { return 42; }\n";

const POOR: &str = r#"
int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
int cuInit(unsigned flags) { return 0; }
"#;

/// What the backend calls, beside the two.
const LACKING: &[&str] = &[
    "cuLaunchKernel",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuPointerGetAttribute",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemsetD8Async",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuStreamQuery",
    "cuStreamWaitEvent",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuStreamIsCapturing",
    "cuStreamGetCaptureInfo_v3",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventSynchronize",
    "cuEventDestroy_v2",
    "cuGraphGetNodes",
    "cuGraphGetEdges_v2",
    "cuGraphNodeGetType",
    "cuGraphKernelNodeGetParams_v2",
    "cuGraphMemcpyNodeGetParams",
    "cuGraphDestroy",
    "cuGraphInstantiateWithFlags",
    "cuGraphUpload",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuFuncGetName",
    "cuFuncSetAttribute",
];

/// Compiles and loads a library that calls itself `libcuda.so`.
fn load(name: &str, text: &str) -> Option<libloading::Library> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, library) = (folder.join(format!("{name}.c")), folder.join(format!("lib{name}_driver.so")));
    std::fs::write(&source, text).expect("a source");
    let compile = |compiler: &str| {
        let mut compile = Command::new(compiler);
        compile.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so", "-o"]).arg(&library).arg(&source);
        compile.status().is_ok_and(|status| status.success())
    };
    if !["cc", "gcc", "clang"].into_iter().any(compile) {
        return None;
    }
    // SAFETY: the library is one of the above, whose initialisers do nothing.
    Some(unsafe { libloading::Library::new(&library) }.expect("the library"))
}

#[test]
fn a_driver_that_lacks_functions_is_refused_by_their_names() {
    let test = "a_driver_that_lacks_functions_is_refused_by_their_names";
    let foreign = cfg!(target_os = "linux").then(|| load("foreign", FOREIGN)).flatten();
    let Some(foreign) = foreign else {
        eprintln!("NOT RUN: {test}: no C compiler");
        return;
    };
    let start = "cuda: loading the driver failed: CUDA_ERROR_NOT_FOUND (500): ";
    let error = Cuda::new(0).expect_err("no driver at all").to_string();
    assert_eq!(error, format!("{start}the library has no cuDriverGetVersion: it is no CUDA driver"));
    assert_eq!(Cuda::available().expect_err("no driver at all").to_string(), error);

    // The loader finds the next one only when this one is gone.
    drop(foreign);
    std::mem::forget(load("poor", POOR));
    let error = Cuda::new(0).expect_err("a driver without functions").to_string();
    assert_eq!(error, format!("{start}driver 13.0 has no {}", LACKING.join(", ")));
    assert_eq!(Cuda::available().expect_err("a driver without functions").to_string(), error);
}
