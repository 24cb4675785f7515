//! Compiling kernels at run time, where NVRTC is there.

use std::{
    ffi::{CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
};

use cudarc::nvrtc::{
    result::{self, NvrtcError},
    sys::{nvrtcProgram, nvrtcResult},
};
use graph_core::{Error, Result};

use crate::{KernelSource, codes, loading};

/// What an NVRTC of any age that works here can compile for, newest first: PTX for one of these runs on newer devices.
const FALLBACKS: [i32; 3] = [90, 80, 75];

/// The PTX of a source, for devices of that compute capability and newer.
pub(crate) fn compile(source: &KernelSource, (major, minor): (i32, i32)) -> Result<Vec<u8>> {
    loading::nvrtc()?;
    // cudarc panics if it looks for the library under fewer names than we do.
    catch_unwind(AssertUnwindSafe(|| compile_for(source, 10 * major + minor))).unwrap_or_else(|_| {
        Err(codes::error("loading NVRTC", codes::NOT_FOUND, "cudarc does not find the library"))
    })
}

fn compile_for(source: &KernelSource, device: i32) -> Result<Vec<u8>> {
    let bad = |_| {
        codes::error("compiling", codes::INVALID_VALUE, format_args!("{}: a zero in the text", source.name))
    };
    let (text, name) =
        (CString::new(source.expanded()).map_err(bad)?, CString::new(source.name).map_err(bad)?);
    let program = result::create_program(&text, Some(&name)).map_err(|e| failed(source, e, ""))?;
    // `text` and `name` live until the program is destroyed.
    let program = Program(program);
    let mut outcome = Err(NvrtcError(nvrtcResult::NVRTC_ERROR_INVALID_OPTION));
    let older = FALLBACKS.into_iter().filter(|arch| *arch < device);
    for arch in [device].into_iter().chain(older) {
        let mut options = vec![format!("--gpu-architecture=compute_{arch}"), "--std=c++17".into()];
        options.extend(source.options.iter().map(|option| (*option).into()));
        // SAFETY: the program is alive.
        outcome = unsafe { result::compile_program(program.0, &options) };
        if outcome != Err(NvrtcError(nvrtcResult::NVRTC_ERROR_INVALID_OPTION)) {
            break; // another answer than "no such architecture"
        }
    }
    if let Err(error) = outcome {
        // SAFETY: the program is alive.
        let log = unsafe { result::get_program_log(program.0) }.unwrap_or_default();
        return Err(failed(source, error, &text_of(&log)));
    }
    // SAFETY: the program is alive, and compiled.
    let ptx = unsafe { result::get_ptx(program.0) }.map_err(|e| failed(source, e, ""))?;
    Ok(text_of(&ptx).into_bytes())
}

/// A program that is destroyed with this.
struct Program(nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: nobody else has the program. A failure leaves some memory of the host behind and nothing else.
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

#[cold]
fn failed(source: &KernelSource, error: NvrtcError, log: &str) -> Error {
    let detail = format!("NVRTC: {:?} ({}) for {}\n{log}", error.0, error.0 as u32, source.name);
    codes::error("compiling", codes::INVALID_VALUE, detail.trim_end())
}

fn text_of(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|c| c.to_ne_bytes()[0]).take_while(|c| *c != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
