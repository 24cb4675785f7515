//! The CUDA backend over the stand-in driver. Nothing here says anything about a GPU.

mod capture;
mod destruction;
mod errors;
mod graphs;
mod kept;
mod kernels;
mod nvrtc;
mod operations;
mod poison;
mod raw;
mod staging;
mod threads;

#[path = "../support/mod.rs"]
mod support;
#[path = "../support/toy.rs"]
mod toy;

use graph_core::{Backend, ErrorKind, Result, Tensor};
use graph_cuda::{Cuda, Stream};
use stand_in_driver::Session;

type T1 = Tensor<Cuda, f32, 1>;

/// The driver for this test alone, a device and a stream; or the test returns and says that it did not run.
macro_rules! start {
    ($name:literal) => {
        match $crate::support::session($name) {
            None => return,
            Some(session) => {
                let cuda = $crate::support::open().expect("a device");
                let stream = graph_core::Backend::stream(&cuda).expect("a stream");
                (session, cuda, stream)
            }
        }
    };
}
pub(crate) use start;

fn tensor(cuda: &Cuda, stream: &Stream, data: &[f32]) -> T1 {
    T1::from_slice(cuda, stream, data, [data.len()]).expect("a tensor")
}

/// The code of a driver error; panics on any other.
fn code<T>(result: Result<T>) -> u32 {
    match result.err().expect("an error").kind() {
        ErrorKind::Driver { code, .. } => *code,
        other => panic!("not a driver error: {other}"),
    }
}

fn text<T>(result: Result<T>) -> String {
    result.err().expect("an error").to_string()
}

/// Records what the closure does.
fn captured(stream: &Stream, record: impl FnOnce() -> Result<()>) -> Result<graph_cuda::Captured> {
    Cuda::begin_capture(stream)?;
    let recorded = record();
    let ended = Cuda::end_capture(stream);
    recorded.and(ended)
}

/// Everything that this test made is gone, and nothing was done wrong on the way.
fn nothing_left(session: &Session<'_>) {
    assert!(session.live().is_zero(), "{:?}", session.live());
    assert!(session.faults().is_empty(), "{:?}", session.faults());
}
