//! The stand-in driver under the real cudarc: rules of capture, streams, memory, faults, and kernels from
//! `.cu` source.
mod accounting;
mod capture_rules;
mod graphs;
mod injected;
mod kernels;
mod kernels_strict;
mod memory;
mod nodes;
mod streams;

use cudarc::driver::{CudaContext, CudaStream, DriverError, sys};
use stand_in_driver::{Driver, Session};
use std::sync::Arc;

type CaptureMode = sys::CUstreamCaptureMode;
const GLOBAL: CaptureMode = CaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
const THREAD_LOCAL: CaptureMode = CaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
const RELAXED: CaptureMode = CaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
const NO_FLAGS: sys::CUgraphInstantiate_flags = sys::CUgraphInstantiate_flags(0);

/// The driver for this test alone, freshly reset.
fn session() -> Session<'static> {
    driver().session()
}

fn driver() -> &'static Driver {
    stand_in_driver::load().expect("the stand-in driver")
}

/// A context without event tracking, and a stream of it that is not the default one.
fn start() -> (Arc<CudaContext>, Arc<CudaStream>) {
    let context = CudaContext::new(0).expect("a context");
    // SAFETY: every test orders its own streams.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().expect("a stream");
    (context, stream)
}

/// The number of an outcome's error, 0 if there is none.
fn code<T>(outcome: Result<T, DriverError>) -> u32 {
    outcome.err().map_or(0, |error| error.0 as u32)
}

/// The number of a raw call's error, 0 if there is none.
fn raw(result: sys::CUresult) -> u32 {
    result as u32
}
