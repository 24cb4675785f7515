//! The operations: the shared kernels', attention's, and those of `decoder.cu` and `sample.cu`.

use graph_core::{In, Out, Result};
use graph_cuda::{Cuda, Stream};
use graph_resources::SamplerRow;
use model_support::{
    Activation,
    Activations::{Bf16, F32},
    Stored,
    cuda::{self, Matrix, THREADS, Weight, blocks, check, kernel, size},
};

use super::{DECODER, PAGED, SAMPLE, paged};
use crate::{LlamaOps, PagedRows, kernels::Heads};

/// Threads of a row of `sample.cu`.
const SAMPLE_THREADS: u32 = 256;

impl LlamaOps for Cuda {
    type Kernels = cuda::Kernels;
    type Weight = Weight;

    fn kernels(device: &Cuda) -> Result<cuda::Kernels> {
        cuda::load(device, &[&DECODER, &PAGED, &SAMPLE])
    }

    fn weight(
        kernels: &cuda::Kernels,
        device: &Cuda,
        stream: &Stream,
        stored: &Stored,
        dims: [usize; 2],
    ) -> Result<Weight> {
        kernels.weight(device, stream, stored, dims)
    }

    fn embed<A: Activation>(
        stream: &Stream,
        table: &Weight,
        tokens: In<'_, Cuda, i32, 1>,
        y: Out<'_, Cuda, A, 2>,
    ) -> Result<()> {
        match table.matrix() {
            Matrix::F32(table) => gather(stream, table.view(), tokens, y),
            Matrix::Bf16(table) => gather(stream, table.view(), tokens, y),
        }
    }

    fn gather<A: Activation>(
        stream: &Stream,
        x: In<'_, Cuda, A, 2>,
        rows: In<'_, Cuda, i32, 1>,
        y: Out<'_, Cuda, A, 2>,
    ) -> Result<()> {
        gather(stream, x, rows, y)
    }

    fn rms_norm<X: Activation, Y: Activation>(
        stream: &Stream,
        x: In<'_, Cuda, X, 2>,
        weight: In<'_, Cuda, f32, 1>,
        eps: f32,
        y: Out<'_, Cuda, Y, 2>,
    ) -> Result<()> {
        cuda::rms_norm(stream, x, weight, eps, y)
    }

    fn linear<X: Activation, Y: Activation>(
        stream: &Stream,
        x: In<'_, Cuda, X, 2>,
        weight: &Weight,
        y: Out<'_, Cuda, Y, 2>,
    ) -> Result<()> {
        cuda::linear(stream, x, weight, y)
    }

    fn rotary<A: Activation>(
        stream: &Stream,
        x: In<'_, Cuda, A, 2>,
        positions: In<'_, Cuda, i32, 1>,
        inverse_frequencies: In<'_, Cuda, f32, 1>,
        y: Out<'_, Cuda, A, 2>,
    ) -> Result<()> {
        let ([tokens, width], half) = (x.dims(), inverse_frequencies.len());
        let whole = half > 0 && width % (2 * half) == 0;
        let fits = whole && positions.len() == tokens && y.dims() == x.dims();
        check("rotary", fits, &[&x.dims(), &positions.dims(), &[half], &y.dims()])?;
        let heads = width / (2 * half);
        let (pairs, half, heads) = (size(tokens * heads * half)?, size(half)?, size(heads)?);
        let rotary = kernel(stream, &DECODER, A::ACTIVATIONS.pick("rotary_f32", "rotary_bf16"))?;
        let launch = rotary.on(stream).grid(blocks(pairs)).block([THREADS, 1, 1]);
        let launch = launch.arg(y).arg(x).arg(positions).arg(inverse_frequencies);
        // SAFETY: `x` and `y` have two elements for each pair, `heads * half` pairs a token, and a position per token.
        unsafe { launch.arg(pairs).arg(half).arg(heads).launch() }
    }

    fn store_kv<A: Activation>(
        stream: &Stream,
        k: In<'_, Cuda, A, 2>,
        v: In<'_, Cuda, A, 2>,
        slot_mapping: In<'_, Cuda, i32, 1>,
        keys: Out<'_, Cuda, A, 2>,
        values: Out<'_, Cuda, A, 2>,
    ) -> Result<()> {
        let ([tokens, width], [cache_rows, cache_width]) = (k.dims(), keys.dims());
        let same = v.dims() == k.dims() && values.dims() == keys.dims();
        let fits = same && width == cache_width && slot_mapping.len() == tokens;
        let dims: [&[usize]; 5] = [&k.dims(), &v.dims(), &slot_mapping.dims(), &keys.dims(), &values.dims()];
        check("store_kv", fits, &dims)?;
        let (cache_rows, count, width) = (size(cache_rows)?, size(k.len())?, size(width)?);
        let store = kernel(stream, &DECODER, A::ACTIVATIONS.pick("store_kv_f32", "store_kv_bf16"))?;
        let launch = store.on(stream).grid(blocks(count)).block([THREADS, 1, 1]);
        let launch = launch.arg(keys).arg(values).arg(k).arg(v).arg(slot_mapping);
        // SAFETY: `k` and `v` have `count` elements in rows of `width`, a slot for each row; the kernel compares slots
        // with the caches' rows.
        unsafe { launch.arg(cache_rows).arg(count).arg(width).launch() }
    }

    fn attend_decode<A: Activation>(
        stream: &Stream,
        q: In<'_, Cuda, A, 2>,
        keys: In<'_, Cuda, A, 2>,
        values: In<'_, Cuda, A, 2>,
        rows: PagedRows<'_, Cuda>,
        heads: Heads,
        y: Out<'_, Cuda, A, 2>,
    ) -> Result<()> {
        paged::attend_decode(stream, q, [keys, values], rows, heads, y)
    }

    fn attend_packed<A: Activation>(
        stream: &Stream,
        q: In<'_, Cuda, A, 2>,
        keys: In<'_, Cuda, A, 2>,
        values: In<'_, Cuda, A, 2>,
        rows: PagedRows<'_, Cuda>,
        heads: Heads,
        y: Out<'_, Cuda, A, 2>,
    ) -> Result<()> {
        paged::attend_packed(stream, q, [keys, values], rows, heads, y)
    }

    fn sample(
        stream: &Stream,
        logits: In<'_, Cuda, f32, 2>,
        rows: In<'_, Cuda, i32, 1>,
        state: Out<'_, Cuda, u32, 2>,
        tokens: Out<'_, Cuda, i32, 1>,
    ) -> Result<()> {
        let ([count, vocabulary], [state_rows, words]) = (logits.dims(), state.dims());
        let drawn = rows.len() == count && tokens.dims() == [count];
        let states = state_rows > 0 && words == SamplerRow::WORDS;
        let ids = (1..=i32::MAX as usize).contains(&vocabulary);
        let dims: [&[usize]; 4] = [&logits.dims(), &rows.dims(), &state.dims(), &tokens.dims()];
        check("sample", drawn && states && ids, &dims)?;
        if count == 0 {
            return Ok(());
        }
        let (count, vocabulary, state_rows) = (size(count)?, size(vocabulary)?, size(state_rows)?);
        let sample = kernel(stream, &SAMPLE, "sample")?;
        let launch = sample.on(stream).grid([count, 1, 1]).block([SAMPLE_THREADS, 1, 1]);
        let launch = launch.arg(tokens).arg(state).arg(logits).arg(rows);
        // SAFETY: a block has one row of the logits, of `rows` and of `tokens`; the kernel compares the row's value with
        // the rows of the state, of eight words each.
        unsafe { launch.arg(state_rows).arg(vocabulary).launch() }
    }

    fn silu_mul<A: Activation>(
        stream: &Stream,
        gate: In<'_, Cuda, A, 2>,
        up: In<'_, Cuda, A, 2>,
        y: Out<'_, Cuda, A, 2>,
    ) -> Result<()> {
        let fits = gate.dims() == up.dims() && y.dims() == up.dims();
        check("silu_mul", fits, &[&gate.dims(), &up.dims(), &y.dims()])?;
        let count = size(gate.len())?;
        let silu_mul = kernel(stream, &DECODER, A::ACTIVATIONS.pick("silu_mul_f32", "silu_mul_bf16"))?;
        let launch = silu_mul.on(stream).grid(blocks(count)).block([THREADS, 1, 1]);
        // SAFETY: all views have `count` elements.
        unsafe { launch.arg(y).arg(gate).arg(up).arg(count).launch() }
    }

    fn add<A: Activation, Y: Activation>(
        stream: &Stream,
        a: In<'_, Cuda, A, 2>,
        b: In<'_, Cuda, f32, 2>,
        y: Out<'_, Cuda, Y, 2>,
    ) -> Result<()> {
        cuda::add_product(stream, a, b, y)
    }
}

/// `y[i] = table[rows[i]]`, in any elements.
fn gather<T: Activation, A: Activation>(
    stream: &Stream,
    table: In<'_, Cuda, T, 2>,
    rows: In<'_, Cuda, i32, 1>,
    y: Out<'_, Cuda, A, 2>,
) -> Result<()> {
    let [table_rows, width] = table.dims();
    check("gather", y.dims() == [rows.len(), width], &[&table.dims(), &rows.dims(), &y.dims()])?;
    let (table_rows, count, width) = (size(table_rows)?, size(rows.len() * width)?, size(width)?);
    let name = match (A::ACTIVATIONS, T::ACTIVATIONS) {
        (F32, F32) => "gather_f32_f32",
        (F32, Bf16) => "gather_f32_bf16",
        (Bf16, F32) => "gather_bf16_f32",
        (Bf16, Bf16) => "gather_bf16_bf16",
    };
    let gather = kernel(stream, &DECODER, name)?;
    let launch = gather.on(stream).grid(blocks(count)).block([THREADS, 1, 1]);
    // SAFETY: `y` has `count` elements in rows of `width`, one for each of `rows`; the kernel compares their values with
    // the table's size.
    unsafe { launch.arg(y).arg(table).arg(rows).arg(table_rows).arg(count).arg(width).launch() }
}
