//! What must be there before the first call: the library, every function, a driver that is new enough. cudarc panics
//! where a library or a function is missing; this module asks first.

use std::{
    ffi::{c_int, c_void},
    fmt::Write as _,
};

use graph_core::{Error, Result};
use libloading::Library;

use crate::{
    calls::{self, CALLS},
    codes,
};

/// The oldest CUDA version that works, as the driver writes versions.
const OLDEST: c_int = 12030;

#[cfg(windows)]
const DRIVER: &[&str] = &["nvcuda.dll"];
/// The names under which cudarc finds a driver. A machine has the second one, and the first one too if it compiles
/// CUDA programs.
#[cfg(not(windows))]
const DRIVER: &[&str] = &["libcuda.so", "libcuda.so.1"];

#[cfg(windows)]
const NVRTC: &[&str] = &["nvrtc.dll", "nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_12.dll"];
#[cfg(not(windows))]
const NVRTC: &[&str] = &["libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"];

/// `cuFuncGetParamInfo`, which drivers have from 12.4 on.
pub(crate) type ParamInfo =
    unsafe extern "C" fn(cudarc::driver::sys::CUfunction, usize, *mut usize, *mut usize) -> u32;

/// A driver that is there, has every function, and is new enough. `cuInit` was called.
pub(crate) struct Driver {
    library: Library,
    /// Such as 13000.
    pub(crate) version: c_int,
    pub(crate) devices: c_int,
}

impl Driver {
    /// Looks for the driver; an error says what is missing.
    pub(crate) fn find() -> Result<Driver> {
        let library = open(DRIVER).ok_or_else(|| {
            let tried = DRIVER.join(", ");
            codes::error(
                "loading the driver",
                codes::NOT_FOUND,
                format_args!("there is no {tried} on this machine"),
            )
        })?;
        let lacks = |name: &str| !has(&library, name);
        if lacks("cuDriverGetVersion") {
            let detail = "the library has no cuDriverGetVersion: it is no CUDA driver";
            return Err(codes::error("loading the driver", codes::NOT_FOUND, detail));
        }
        let failed = |f: calls::Failure| codes::error(f.call, f.code, "");
        let mut version = 0;
        // SAFETY: the library has the function, and the pointer is valid for the write.
        unsafe { calls::driver_version(&raw mut version) }.map_err(failed)?;
        if version < OLDEST {
            let missing = CALLS.iter().filter(|(name, since)| *since > version || lacks(name));
            return Err(too_old(version, missing.map(|(name, _)| *name)));
        }
        let missing: Vec<_> = CALLS.iter().map(|(name, _)| *name).filter(|name| lacks(name)).collect();
        if !missing.is_empty() {
            let detail = format!("driver {} has no {}", dotted(version), missing.join(", "));
            return Err(codes::error("loading the driver", codes::NOT_FOUND, detail));
        }
        let mut devices = 0;
        // SAFETY: the library has both functions, and the pointer is valid for the write.
        unsafe { calls::init(0).and_then(|()| calls::device_count(&raw mut devices)) }.map_err(failed)?;
        Ok(Driver { library, version, devices })
    }

    /// Where the parameters of a function can be asked for.
    pub(crate) fn param_info(&self) -> Option<ParamInfo> {
        // SAFETY: the type is the function's, with the result as the plain number that it is in C.
        unsafe { self.library.get::<ParamInfo>(c"cuFuncGetParamInfo") }.ok().map(|function| *function)
    }
}

/// Whether the compiler for kernels is there.
pub(crate) fn nvrtc() -> Result<()> {
    let tried = NVRTC.join(", ");
    let detail =
        || format!("there is no {tried} on this machine; install CUDA's NVRTC, or give module images");
    open(NVRTC).map(drop).ok_or_else(|| codes::error("loading NVRTC", codes::NOT_FOUND, detail()))
}

/// As people write it: 13000 is 13.0.
pub(crate) fn dotted(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

fn too_old<'n>(version: c_int, missing: impl Iterator<Item = &'n str>) -> Error {
    let mut detail =
        format!("the driver supports CUDA {}, {} is the oldest that works", dotted(version), dotted(OLDEST));
    let missing = missing.collect::<Vec<_>>().join(", ");
    if !missing.is_empty() {
        let _ = write!(detail, "; it lacks {missing}");
    }
    codes::error("loading the driver", codes::CALL_REQUIRES_NEWER_DRIVER, detail)
}

fn open(names: &[&str]) -> Option<Library> {
    // SAFETY: loading NVIDIA's libraries has no effect but their initialisers', and cudarc is about to do the same.
    names.iter().find_map(|name| unsafe { Library::new(*name) }.ok())
}

fn has(library: &Library, name: &str) -> bool {
    // SAFETY: the address is not used.
    unsafe { library.get::<*const c_void>(name) }.is_ok()
}
