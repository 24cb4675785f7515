//! The toy operations on the CPU.

use graph_core::{In, Out, Result};
use graph_host::{Host, Stream};
use llama_plugin::PagedRows;

use crate::SuiteOps;

impl SuiteOps for Host {
    type SuiteKernels = ();

    fn suite_kernels(_: &Host) -> Result<()> {
        Ok(())
    }

    fn affine(
        stream: &Stream,
        x: In<'_, Host, f32, 1>,
        scale: f32,
        shift: f32,
        y: Out<'_, Host, f32, 1>,
    ) -> Result<()> {
        stream.kernel("affine", (x,), (y,), move |(x,), (y,)| {
            y.iter_mut().zip(x).for_each(|(y, x)| *y = scale * x + shift);
        })
    }

    fn add_up(
        stream: &Stream,
        ids: In<'_, Host, i32, 1>,
        rope: In<'_, Host, i32, 2>,
        m: In<'_, Host, i32, 1>,
        z: In<'_, Host, f32, 1>,
        sum: Out<'_, Host, f32, 1>,
    ) -> Result<()> {
        stream.kernel("add_up", (ids, rope, m, z), (sum,), |(ids, rope, m, z), (sum,)| {
            let n = ids.len();
            for (t, sum) in sum.iter_mut().enumerate() {
                *sum = (ids[t] + rope[t] + rope[n + t] + rope[2 * n + t] + m[t]) as f32 + z[t];
            }
        })
    }

    fn spread(
        stream: &Stream,
        x: In<'_, Host, f32, 2>,
        scale: In<'_, Host, f32, 1>,
        sum: In<'_, Host, f32, 1>,
        y: Out<'_, Host, f32, 2>,
    ) -> Result<()> {
        stream.kernel("spread", (x, scale, sum), (y,), |(x, scale, sum), (y,)| {
            for (t, (y, x)) in y.chunks_mut(2).zip(x.chunks(2)).enumerate() {
                y[0] = x[0] * scale[t] + sum[t];
                y[1] = x[1] * scale[t] - sum[t];
            }
        })
    }

    fn count(
        stream: &Stream,
        page: In<'_, Host, i32, 1>,
        counts: Out<'_, Host, i32, 1>,
        now: Out<'_, Host, i32, 1>,
    ) -> Result<()> {
        stream.kernel("count", (page,), (counts, now), |(page,), (counts, now)| {
            for (now, page) in now.iter_mut().zip(page) {
                if let Some(count) = counts.get_mut(*page as usize) {
                    *count += 1;
                    *now = *count;
                }
            }
        })
    }

    fn write_keys(
        stream: &Stream,
        token: In<'_, Host, i32, 1>,
        slot_mapping: In<'_, Host, i32, 1>,
        positions: In<'_, Host, i32, 1>,
        keys: Out<'_, Host, f32, 2>,
    ) -> Result<()> {
        let reads = (token, slot_mapping, positions);
        stream.kernel("write_keys", reads, (keys,), |(token, slot_mapping, positions), (keys,)| {
            for ((token, row), position) in token.iter().zip(slot_mapping).zip(positions) {
                if let Some(key) = keys.get_mut(*row as usize) {
                    *key = (token * (1 + position % 7)) as f32;
                }
            }
        })
    }

    fn sum_pages(
        stream: &Stream,
        keys: In<'_, Host, f32, 2>,
        rows: PagedRows<'_, Host>,
        sum: Out<'_, Host, f32, 1>,
    ) -> Result<()> {
        let (size, reads) = (rows.page_size, (keys, rows.page_indptr, rows.page_indices, rows.last_page_len));
        stream.kernel("sum_pages", reads, (sum,), move |(keys, indptr, indices, last), (sum,)| {
            for (row, sum) in sum.iter_mut().enumerate() {
                let pages = &indices[indptr[row] as usize..indptr[row + 1] as usize];
                let tokens = (pages.len() * size + last[row] as usize).saturating_sub(size);
                let key = |i: usize| keys[pages[i / size] as usize * size + i % size];
                *sum = (0..tokens).map(key).fold(0.0, |all, key| all + key);
            }
        })
    }

    fn toy_logits(stream: &Stream, sum: In<'_, Host, f32, 1>, logits: Out<'_, Host, f32, 2>) -> Result<()> {
        let [_, vocabulary] = logits.dims();
        stream.kernel("toy_logits", (sum,), (logits,), move |(sum,), (logits,)| {
            for (i, logit) in logits.iter_mut().enumerate() {
                let mixed = sum[i / vocabulary] as i64 * 31 + (i % vocabulary) as i64 * 17;
                *logit = mixed.rem_euclid(13) as f32 / 4.0;
            }
        })
    }
}
