//! What the driver's own call costs, beside which a replay's cost is seen.

use std::time::Instant;

use anyhow::{Context as _, Result};
use graph_cuda::cudarc::driver::{CudaContext, sys};

use crate::report::{Spread, spread};

/// Host time of `cuGraphLaunch` alone, through cudarc: a graph that zeroes a few bytes.
pub(crate) fn graph_launch(rounds: usize) -> Result<Spread> {
    let context = CudaContext::new(0)?;
    // SAFETY: one stream is all that uses the memory below; a capture must not wait for events from before it.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream()?;
    let mut bytes = stream.alloc_zeros::<u8>(1024)?;
    stream.synchronize()?;
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    stream.memset_zeros(&mut bytes)?;
    // The graph is launched as it is: without flags.
    let flags = sys::CUgraphInstantiate_flags(0);
    let graph = stream.end_capture(flags)?.context("an empty capture")?;
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let start = Instant::now();
        graph.launch()?;
        times.push(start.elapsed());
        stream.synchronize()?;
    }
    Ok(spread(&mut times))
}
