//! The operations on the CPU: each is one kernel over slices of `f32`, rounded at the end where the activations are not.

use graph_core::{In, Out, Result, Tensor};
use graph_host::{Host, Stream};
use graph_resources::sample_rows;
use model_support::{Activation, Stored};

use crate::{
    LlamaOps, PagedRows,
    kernels::{self, Cache, Heads, Pages, Queries},
};

impl LlamaOps for Host {
    type Kernels = ();
    /// Widened: the products would do it at every use.
    type Weight = Tensor<Host, f32, 2>;

    fn kernels(_device: &Host) -> Result<()> {
        Ok(())
    }

    fn weight(
        _kernels: &(),
        device: &Host,
        stream: &Stream,
        stored: &Stored,
        dims: [usize; 2],
    ) -> Result<Self::Weight> {
        Tensor::from_slice(device, stream, &stored.widened(), dims)
    }

    fn embed<A: Activation>(
        stream: &Stream,
        table: &Self::Weight,
        tokens: In<'_, Host, i32, 1>,
        y: Out<'_, Host, A, 2>,
    ) -> Result<()> {
        let [_, width] = table.dims();
        stream.kernel("embed", (table.view(), tokens), (y,), move |(table, tokens), (y,)| {
            A::write(y, |y| kernels::gather(table, tokens, width, y));
        })
    }

    fn gather<A: Activation>(
        stream: &Stream,
        x: In<'_, Host, A, 2>,
        rows: In<'_, Host, i32, 1>,
        y: Out<'_, Host, A, 2>,
    ) -> Result<()> {
        let [_, width] = x.dims();
        stream.kernel("gather", (x, rows), (y,), move |(x, rows), (y,)| kernels::gather(x, rows, width, y))
    }

    fn rms_norm<X: Activation, Y: Activation>(
        stream: &Stream,
        x: In<'_, Host, X, 2>,
        weight: In<'_, Host, f32, 1>,
        eps: f32,
        y: Out<'_, Host, Y, 2>,
    ) -> Result<()> {
        stream.kernel("rms_norm", (x, weight), (y,), move |(x, weight), (y,)| {
            Y::write(y, |y| kernels::rms_norm(&X::widen(x), weight, eps, y));
        })
    }

    fn linear<X: Activation, Y: Activation>(
        stream: &Stream,
        x: In<'_, Host, X, 2>,
        weight: &Self::Weight,
        y: Out<'_, Host, Y, 2>,
    ) -> Result<()> {
        let [_, inner] = x.dims();
        stream.kernel("linear", (x, weight.view()), (y,), move |(x, weight), (y,)| {
            Y::write(y, |y| kernels::linear(&X::widen(x), weight, inner, y));
        })
    }

    fn rotary<A: Activation>(
        stream: &Stream,
        x: In<'_, Host, A, 2>,
        positions: In<'_, Host, i32, 1>,
        inverse_frequencies: In<'_, Host, f32, 1>,
        y: Out<'_, Host, A, 2>,
    ) -> Result<()> {
        let reads = (x, positions, inverse_frequencies);
        stream.kernel("rotary", reads, (y,), |(x, positions, frequencies), (y,)| {
            A::write(y, |y| kernels::rotary(&A::widen(x), positions, frequencies, y));
        })
    }

    fn store_kv<A: Activation>(
        stream: &Stream,
        k: In<'_, Host, A, 2>,
        v: In<'_, Host, A, 2>,
        slot_mapping: In<'_, Host, i32, 1>,
        keys: Out<'_, Host, A, 2>,
        values: Out<'_, Host, A, 2>,
    ) -> Result<()> {
        let [_, width] = k.dims();
        let (reads, writes) = ((k, v, slot_mapping), (keys, values));
        stream.kernel("store_kv", reads, writes, move |(k, v, slot_mapping), (keys, values)| {
            kernels::store(k, slot_mapping, width, keys);
            kernels::store(v, slot_mapping, width, values);
        })
    }

    fn attend_decode<A: Activation>(
        stream: &Stream,
        q: In<'_, Host, A, 2>,
        keys: In<'_, Host, A, 2>,
        values: In<'_, Host, A, 2>,
        rows: PagedRows<'_, Host>,
        heads: Heads,
        y: Out<'_, Host, A, 2>,
    ) -> Result<()> {
        let page_size = rows.page_size;
        let reads = (q, keys, values, rows.page_indptr, rows.page_indices, rows.last_page_len);
        stream.kernel("attend_decode", reads, (y,), move |(q, keys, values, indptr, indices, last), (y,)| {
            let (cache, pages) = (Cache { keys, values }, Pages { indptr, indices, page_size });
            A::write(y, |y| kernels::attend_decode(&A::widen(q), cache, pages, last, heads, y));
        })
    }

    fn attend_packed<A: Activation>(
        stream: &Stream,
        q: In<'_, Host, A, 2>,
        keys: In<'_, Host, A, 2>,
        values: In<'_, Host, A, 2>,
        rows: PagedRows<'_, Host>,
        heads: Heads,
        y: Out<'_, Host, A, 2>,
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
                let queries = Queries { indptr, positions };
                A::write(y, |y| kernels::attend_packed(&A::widen(q), cache, pages, queries, heads, y));
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

    fn silu_mul<A: Activation>(
        stream: &Stream,
        gate: In<'_, Host, A, 2>,
        up: In<'_, Host, A, 2>,
        y: Out<'_, Host, A, 2>,
    ) -> Result<()> {
        stream.kernel("silu_mul", (gate, up), (y,), |(gate, up), (y,)| {
            A::write(y, |y| kernels::silu_mul(&A::widen(gate), &A::widen(up), y));
        })
    }

    fn add<A: Activation, Y: Activation>(
        stream: &Stream,
        a: In<'_, Host, A, 2>,
        b: In<'_, Host, f32, 2>,
        y: Out<'_, Host, Y, 2>,
    ) -> Result<()> {
        stream.kernel("add", (a, b), (y,), |(a, b), (y,)| {
            Y::write(y, |y| kernels::add(&A::widen(a), b, y));
        })
    }
}
