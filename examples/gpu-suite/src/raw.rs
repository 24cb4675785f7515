//! What the driver's own call costs, beside which a replay's cost is seen: on one and the same graph.

use std::time::Instant;

use anyhow::Result;
use backend_suite::SuiteOps;
use graph_core::{Backend, Tensor};
use graph_cuda::{
    Cuda,
    cudarc::driver::{
        DriverError,
        sys::{CUresult, cuGraphLaunch},
    },
};

use crate::report::{Launch, spread};

/// Host time of launches of a graph of the operations that graph-core records for `toy.three`: its block's upload, its
/// kernel, its completion word.
pub(crate) fn launch(device: &Cuda, rounds: usize) -> Result<Launch> {
    let (stream, _kernels) = (device.stream()?, Cuda::suite_kernels(device)?);
    let (pinned, block) = (device.alloc_pinned(24)?, device.alloc(20)?);
    let rows = Tensor::<Cuda, f32, 1>::zeros(device, &stream, [1])?;
    let (x, y) = (Tensor::zeros(device, &stream, [1, 2])?, Tensor::alloc(device, [1, 2])?);
    Cuda::begin_capture(&stream)?;
    let recorded = Cuda::upload_block(&stream, &pinned, &block, 20)
        .and_then(|()| Cuda::spread(&stream, x.view(), rows.view(), rows.view(), y.view_mut()))
        .and_then(|()| Cuda::signal(&stream, (&block, 16), (&pinned, 20)));
    let captured = Cuda::end_capture(&stream);
    recorded?;
    let graph = device.instantiate(captured?)?;
    Cuda::upload_graph(&graph, &stream)?;

    let mut times = [Vec::with_capacity(rounds), Vec::with_capacity(rounds)];
    // The first of each is not counted.
    for round in 0..=rounds {
        Cuda::synchronize(&stream)?;
        // SAFETY: the graph lives until its launches are waited for, and nobody else launches it.
        let driver = unsafe {
            stream.raw("cuGraphLaunch", |s| {
                let (exec, on) = (graph.cu_graph_exec(), s.cu_stream());
                let start = Instant::now();
                let result = cuGraphLaunch(exec, on);
                let taken = start.elapsed();
                match result {
                    CUresult::CUDA_SUCCESS => Ok(taken),
                    failed => Err(DriverError(failed)),
                }
            })
        }?;
        Cuda::synchronize(&stream)?;
        let start = Instant::now();
        Cuda::launch(&graph, &stream)?;
        let backend = start.elapsed();
        if round > 0 {
            times[0].push(driver);
            times[1].push(backend);
        }
    }
    Cuda::synchronize(&stream)?;
    let [driver, backend] = &mut times;
    Ok(Launch { driver: spread(driver), backend: spread(backend) })
}
