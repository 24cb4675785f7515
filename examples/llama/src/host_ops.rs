//! The operations on the CPU: each is one kernel over slices.

use graph_core::{In, Out, Result};
use graph_host::{Host, Stream};

use crate::{
    KvAt, LlamaOps,
    kernels::{self, Heads, KvRows},
};

impl LlamaOps for Host {
    fn gather(
        stream: &Stream,
        table: In<'_, Host, f32, 2>,
        rows: In<'_, Host, i32, 1>,
        y: Out<'_, Host, f32, 2>,
    ) -> Result<()> {
        let [_, width] = table.dims();
        stream.kernel("gather", (table, rows), (y,), move |(table, rows), (y,)| {
            kernels::gather(table, rows, width, y);
        })
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

    fn rotary(
        stream: &Stream,
        x: In<'_, Host, f32, 2>,
        positions: In<'_, Host, i32, 1>,
        inverse_frequencies: In<'_, Host, f32, 1>,
        y: Out<'_, Host, f32, 2>,
    ) -> Result<()> {
        let reads = (x, positions, inverse_frequencies);
        stream.kernel("rotary", reads, (y,), |(x, positions, frequencies), (y,)| {
            kernels::rotary(x, positions, frequencies, y);
        })
    }

    fn store_kv(
        stream: &Stream,
        x: In<'_, Host, f32, 2>,
        at: KvAt<'_, Host>,
        cache: Out<'_, Host, f32, 2>,
    ) -> Result<()> {
        let ([_, width], layout) = (x.dims(), at.layout);
        let reads = (x, at.slots, at.positions);
        stream.kernel("store_kv", reads, (cache,), move |(x, slots, positions), (cache,)| {
            kernels::store_kv(x, KvRows { slots, positions, layout }, width, cache);
        })
    }

    fn attend(
        stream: &Stream,
        q: In<'_, Host, f32, 2>,
        keys: In<'_, Host, f32, 2>,
        values: In<'_, Host, f32, 2>,
        at: KvAt<'_, Host>,
        heads: Heads,
        y: Out<'_, Host, f32, 2>,
    ) -> Result<()> {
        let layout = at.layout;
        let reads = (q, keys, values, at.slots, at.positions);
        stream.kernel("attend", reads, (y,), move |(q, keys, values, slots, positions), (y,)| {
            kernels::attend(q, keys, values, KvRows { slots, positions, layout }, heads, y);
        })
    }

    fn silu_mul(
        stream: &Stream,
        gate: In<'_, Host, f32, 2>,
        up: In<'_, Host, f32, 2>,
        y: Out<'_, Host, f32, 2>,
    ) -> Result<()> {
        stream.kernel("silu_mul", (gate, up), (y,), |(gate, up), (y,)| kernels::silu_mul(gate, up, y))
    }

    fn add(
        stream: &Stream,
        a: In<'_, Host, f32, 2>,
        b: In<'_, Host, f32, 2>,
        y: Out<'_, Host, f32, 2>,
    ) -> Result<()> {
        stream.kernel("add", (a, b), (y,), |(a, b), (y,)| kernels::add(a, b, y))
    }
}
