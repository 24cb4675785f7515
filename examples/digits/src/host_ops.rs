//! The operations on the CPU: each is one kernel over slices.

use graph_core::{In, Out, Result};
use graph_host::{Host, Stream};

use crate::{DigitsOps, kernels};

impl DigitsOps for Host {
    type Kernels = ();

    fn kernels(_device: &Host) -> Result<()> {
        Ok(())
    }

    fn linear(
        stream: &Stream,
        x: In<'_, Host, f32, 2>,
        weight: In<'_, Host, f32, 2>,
        y: Out<'_, Host, f32, 2>,
    ) -> Result<()> {
        let [_, inner] = x.dims();
        stream.kernel("linear", (x, weight), (y,), move |(x, weight), (y,)| {
            kernels::linear(x, weight, inner, y);
        })
    }

    fn add(
        stream: &Stream,
        a: In<'_, Host, f32, 2>,
        b: In<'_, Host, f32, 2>,
        y: Out<'_, Host, f32, 2>,
    ) -> Result<()> {
        stream.kernel("add", (a, b), (y,), |(a, b), (y,)| kernels::add(a, b, y))
    }

    fn rms_norm(
        stream: &Stream,
        x: In<'_, Host, f32, 2>,
        weight: In<'_, Host, f32, 1>,
        eps: f32,
        y: Out<'_, Host, f32, 2>,
    ) -> Result<()> {
        stream.kernel("rms_norm", (x, weight), (y,), move |(x, weight), (y,)| {
            kernels::rms_norm(x, weight, eps, y);
        })
    }

    fn attend(
        stream: &Stream,
        q: In<'_, Host, f32, 2>,
        keys: In<'_, Host, f32, 2>,
        values: In<'_, Host, f32, 2>,
        heads: usize,
        y: Out<'_, Host, f32, 2>,
    ) -> Result<()> {
        let [_, width] = q.dims();
        stream.kernel("attend", (q, keys, values), (y,), move |(q, keys, values), (y,)| {
            kernels::attend(q, keys, values, heads, width, y);
        })
    }

    fn silu(stream: &Stream, x: In<'_, Host, f32, 2>, y: Out<'_, Host, f32, 2>) -> Result<()> {
        stream.kernel("silu", (x,), (y,), |(x,), (y,)| kernels::silu(x, y))
    }

    fn mean(stream: &Stream, x: In<'_, Host, f32, 2>, y: Out<'_, Host, f32, 2>) -> Result<()> {
        let [_, width] = x.dims();
        stream.kernel("mean", (x,), (y,), move |(x,), (y,)| kernels::mean(x, width, y))
    }
}
