//! NVRTC, where it is on the library path: this crate's kernels compile, and their PTX declares the parameters that the
//! host's compiler sees in the same source. Without NVRTC these tests check the error that says so; `tests/tier2/run
//! --check` runs them with it, and says by WITH_NVRTC that it must be there.

use super::*;
use graph_core::{Elem, Pad, PadRows};
use graph_cuda::{Arg, Kernel, KernelSource, PAD_SOURCE};

/// A device whose kernels NVRTC has compiled, or the error where there is no NVRTC.
fn open(session: &Session<'_>) -> Result<Cuda> {
    let compiler = stand_in_driver::Compiler::find().expect("a C++ compiler: the session has asked");
    let host = compiler.compile_text(PAD_SOURCE.text, PAD_SOURCE.name, ".".as_ref()).expect("host code");
    // PTX names the kernels, the stand-in driver finds the host's code for them and compares the parameters.
    session.register_kernels(&host).expect("registered");
    Cuda::new(0)
}

fn says_that_there_is_none(error: &graph_core::Error) {
    assert!(std::env::var_os("WITH_NVRTC").is_none(), "{error}");
    assert_eq!(
        error.to_string(),
        "cuda: loading NVRTC failed: CUDA_ERROR_NOT_FOUND (500): there is no libnvrtc.so, libnvrtc.so.13, \
         libnvrtc.so.12 on this machine; install CUDA's NVRTC, or give module images"
    );
}

#[test]
fn the_kernels_that_pad_compile_or_nvrtc_is_said_to_be_missing() {
    let test = "the_kernels_that_pad_compile_or_nvrtc_is_said_to_be_missing";
    let Some(session) = support::session(test) else { return };
    let cuda = match open(&session) {
        Ok(cuda) => cuda,
        Err(error) => {
            says_that_there_is_none(&error);
            return assert!(session.live().is_zero(), "{:?}", session.live());
        }
    };
    let stream = cuda.stream().unwrap();
    let (data, header) = (cuda.alloc(8).unwrap(), cuda.alloc(4).unwrap());
    Cuda::upload(&stream, &1_u32.to_ne_bytes(), &header, 0).unwrap();
    let (buffer, header) = (&data, &header);
    let pad = PadRows { buffer, offset: 0, row_bytes: 4, rows: 2, header, word: 0, pad: Pad::u32(7) };
    Cuda::pad_rows(&stream, pad).unwrap();
    let mut got = [0; 4];
    Cuda::download(&stream, &data, 4, &mut got).unwrap();
    assert_eq!(u32::from_ne_bytes(got), 7);
}

#[test]
fn a_source_that_nvrtc_refuses_is_an_error_with_its_log() {
    let Some(session) = support::session("a_source_that_nvrtc_refuses_is_an_error_with_its_log") else {
        return;
    };
    static WRONG: KernelSource = KernelSource {
        name: "wrong.cu",
        text: "extern \"C\" __global__ void wrong(float* x) { x[0] = nothing; }\n",
        headers: &[],
        options: &[],
        kernels: &[Kernel::new("wrong", &[Arg::Out(Elem::F32)])],
    };
    match open(&session) {
        Err(error) => says_that_there_is_none(&error),
        Ok(cuda) => {
            let error = text(cuda.load(&WRONG));
            let log = "wrong.cu(1): error: identifier \"nothing\" is undefined\n  extern \"C\" __global__ void wrong(float* x) \
                       { x[0] = nothing; }\n                                                      ^\n\n1 error detected in \
                       the compilation of \"wrong.cu\".";
            let start = "cuda: compiling failed: CUDA_ERROR_INVALID_VALUE (1): NVRTC: NVRTC_ERROR_COMPILATION (6) for wrong.cu";
            assert_eq!(error, format!("{start}\n{log}"));
        }
    }
}
