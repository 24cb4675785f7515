//! The operations on the CPU: each is one kernel over slices.

use graph_core::{In, Out, Result};
use graph_host::{Host, Stream};

use graph_resources::sample_rows;

use crate::{
    LlamaOps, PagedRows,
    kernels::{self, Cache, Heads, Pages, Queries},
};

impl LlamaOps for Host {
    type Kernels = ();

    fn kernels(_device: &Host) -> Result<()> {
        Ok(())
    }

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
        k: In<'_, Host, f32, 2>,
        v: In<'_, Host, f32, 2>,
        slot_mapping: In<'_, Host, i32, 1>,
        keys: Out<'_, Host, f32, 2>,
        values: Out<'_, Host, f32, 2>,
    ) -> Result<()> {
        let [_, width] = k.dims();
        let (reads, writes) = ((k, v, slot_mapping), (keys, values));
        stream.kernel("store_kv", reads, writes, move |(k, v, slot_mapping), (keys, values)| {
            kernels::store(k, slot_mapping, width, keys);
            kernels::store(v, slot_mapping, width, values);
        })
    }

    fn attend_decode(
        stream: &Stream,
        q: In<'_, Host, f32, 2>,
        keys: In<'_, Host, f32, 2>,
        values: In<'_, Host, f32, 2>,
        rows: PagedRows<'_, Host>,
        heads: Heads,
        y: Out<'_, Host, f32, 2>,
    ) -> Result<()> {
        let page_size = rows.page_size;
        let reads = (q, keys, values, rows.page_indptr, rows.page_indices, rows.last_page_len);
        stream.kernel("attend_decode", reads, (y,), move |(q, keys, values, indptr, indices, last), (y,)| {
            let (cache, pages) = (Cache { keys, values }, Pages { indptr, indices, page_size });
            kernels::attend_decode(q, cache, pages, last, heads, y);
        })
    }

    fn attend_packed(
        stream: &Stream,
        q: In<'_, Host, f32, 2>,
        keys: In<'_, Host, f32, 2>,
        values: In<'_, Host, f32, 2>,
        rows: PagedRows<'_, Host>,
        heads: Heads,
        y: Out<'_, Host, f32, 2>,
    ) -> Result<()> {
        let page_size = rows.page_size;
        let PagedRows { page_indptr, page_indices, indptr, positions, .. } = rows;
        let reads = (q, keys, values, page_indptr, page_indices, indptr, positions);
        stream.kernel(
            "attend_packed",
            reads,
            (y,),
            move |(q, keys, values, ends, indices, indptr, positions), (y,)| {
                let (cache, pages) = (Cache { keys, values }, Pages { indptr: ends, indices, page_size });
                kernels::attend_packed(q, cache, pages, Queries { indptr, positions }, heads, y);
            },
        )
    }

    fn sample(
        stream: &Stream,
        logits: In<'_, Host, f32, 2>,
        rows: In<'_, Host, i32, 1>,
        state: Out<'_, Host, u32, 2>,
        tokens: Out<'_, Host, i32, 1>,
    ) -> Result<()> {
        stream.kernel("sample", (logits, rows), (state, tokens), |(logits, rows), (state, tokens)| {
            sample_rows(logits, rows, state, tokens);
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
