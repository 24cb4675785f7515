//! Attention of one query over rows of keys and values.

use std::borrow::Cow;

use ndarray::ArrayView1;

use crate::Activation;

/// One head's part of consecutive rows: row `i` starts at `i * stride`.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// From the head's part of the first row on.
    pub data: &'a [f32],
    /// From one row to the next.
    pub stride: usize,
}

impl<'a> Rows<'a> {
    fn row(&self, i: usize, len: usize) -> Cow<'a, [f32]> {
        Cow::Borrowed(&self.data[i * self.stride..i * self.stride + len])
    }
}

/// One head's part of rows that lie in pages: row `i` of a context is row `pages[i / page_size] * page_size +
/// i % page_size` of `data`.
#[derive(Clone, Copy, Debug)]
pub struct PagedRows<'a, T> {
    /// All rows of all pages.
    pub data: &'a [T],
    /// From one row to the next.
    pub stride: usize,
    /// Where the head's part of a row begins.
    pub from: usize,
    /// The pages of the context, in order.
    pub pages: &'a [i32],
    /// Rows of a page.
    pub page_size: usize,
}

impl<'a, T: Activation> PagedRows<'a, T> {
    fn row(&self, i: usize, len: usize) -> Cow<'a, [f32]> {
        let row = self.pages[i / self.page_size] as usize * self.page_size + i % self.page_size;
        T::widen(&self.data[row * self.stride + self.from..][..len])
    }
}

/// One query of one head over the first `count` rows: `out = softmax(scale * q k^T) v`.
///
/// In one pass: the sum so far is scaled down when a larger score comes, so no memory for the scores is needed.
pub fn attend(query: &[f32], keys: Rows<'_>, values: Rows<'_>, count: usize, scale: f32, out: &mut [f32]) {
    let len = query.len();
    attend_over(query, (0..count).map(|i| (keys.row(i, len), values.row(i, len))), scale, out);
}

/// The same over the first `count` rows of a context in pages, to the same bits. Zeros where `count` is 0.
pub fn attend_paged<T: Activation>(
    query: &[f32],
    keys: PagedRows<'_, T>,
    values: PagedRows<'_, T>,
    count: usize,
    scale: f32,
    out: &mut [f32],
) {
    let len = query.len();
    attend_over(query, (0..count).map(|i| (keys.row(i, len), values.row(i, len))), scale, out);
}

fn attend_over<'a>(
    query: &[f32],
    rows: impl Iterator<Item = (Cow<'a, [f32]>, Cow<'a, [f32]>)>,
    scale: f32,
    out: &mut [f32],
) {
    let (mut largest, mut total) = (f32::NEG_INFINITY, 0.0);
    out.fill(0.0);
    for (key, value) in rows {
        let score = scale * ArrayView1::from(query).dot(&ArrayView1::from(&*key));
        if score > largest {
            let shrink = (largest - score).exp();
            largest = score;
            total *= shrink;
            out.iter_mut().for_each(|o| *o *= shrink);
        }
        let weight = (score - largest).exp();
        total += weight;
        for (o, v) in out.iter_mut().zip(&*value) {
            *o += weight * v;
        }
    }
    if total != 0.0 {
        out.iter_mut().for_each(|o| *o /= total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, in f64 and two passes.
    fn by_definition(q: &[f32], k: &[f32], v: &[f32], stride: usize, count: usize, scale: f32) -> Vec<f64> {
        let scores: Vec<f64> = (0..count)
            .map(|i| (0..q.len()).map(|j| f64::from(q[j]) * f64::from(k[i * stride + j])).sum::<f64>())
            .map(|s| s * f64::from(scale))
            .collect();
        let largest = scores.iter().copied().fold(f64::MIN, f64::max);
        let total: f64 = scores.iter().map(|s| (s - largest).exp()).sum();
        let weighted = |j: usize| {
            (0..count).map(|i| (scores[i] - largest).exp() * f64::from(v[i * stride + j])).sum::<f64>()
        };
        (0..q.len()).map(|j| weighted(j) / total).collect()
    }

    #[test]
    fn agrees_with_its_definition() {
        let value = |i: usize| ((i * 7919) % 101) as f32 / 20.0 - 2.5;
        let (len, stride) = (8, 24);
        let q: Vec<f32> = (0..len).map(value).collect();
        let k: Vec<f32> = (0..stride * 30).map(|i| value(i + 3)).collect();
        let v: Vec<f32> = (0..stride * 30).map(|i| value(i + 11)).collect();
        for count in [1, 2, 29] {
            let (keys, values) = (Rows { data: &k[8..], stride }, Rows { data: &v[8..], stride });
            let mut out = vec![f32::NAN; len];
            attend(&q, keys, values, count, 0.5, &mut out);
            let want = by_definition(&q, &k[8..], &v[8..], stride, count, 0.5);
            let worst = out.iter().zip(&want).map(|(o, w)| (f64::from(*o) - w).abs()).fold(0.0, f64::max);
            assert!(worst < 1e-5, "{count} rows: {worst}");
        }
    }
}
