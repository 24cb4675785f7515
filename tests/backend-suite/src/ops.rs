//! What the cases ask of a backend besides the models' operations.

use digits_plugin::DigitsOps;
use graph_core::{In, Out, Result};
use llama_plugin::{LlamaOps, PagedRows};

/// Toy operations. A backend that implements them runs the suite.
pub trait SuiteOps: DigitsOps + LlamaOps {
    /// What the operations need on a device. An engine of the suite holds it.
    type SuiteKernels: Send + Sync + 'static;

    /// Loads it; the operations find it by their stream's device.
    fn suite_kernels(device: &Self) -> Result<Self::SuiteKernels>;

    /// `y = scale * x + shift`.
    fn affine(
        stream: &Self::Stream,
        x: In<'_, Self, f32, 1>,
        scale: f32,
        shift: f32,
        y: Out<'_, Self, f32, 1>,
    ) -> Result<()>;

    /// `sum[t] = ids[t] + rope[0][t] + rope[1][t] + rope[2][t] + m[t] + z[t]`.
    fn add_up(
        stream: &Self::Stream,
        ids: In<'_, Self, i32, 1>,
        rope: In<'_, Self, i32, 2>,
        m: In<'_, Self, i32, 1>,
        z: In<'_, Self, f32, 1>,
        sum: Out<'_, Self, f32, 1>,
    ) -> Result<()>;

    /// `y[t] = [x[t][0] * scale[t] + sum[t], x[t][1] * scale[t] - sum[t]]`.
    fn spread(
        stream: &Self::Stream,
        x: In<'_, Self, f32, 2>,
        scale: In<'_, Self, f32, 1>,
        sum: In<'_, Self, f32, 1>,
        y: Out<'_, Self, f32, 2>,
    ) -> Result<()>;

    /// Row by row, `counts[page[t]] += 1` and `now[t] = counts[page[t]]`.
    fn count(
        stream: &Self::Stream,
        page: In<'_, Self, i32, 1>,
        counts: Out<'_, Self, i32, 1>,
        now: Out<'_, Self, i32, 1>,
    ) -> Result<()>;

    /// `keys[slot_mapping[t]] = token[t] * (1 + positions[t] % 7)`, keys of one element each.
    fn write_keys(
        stream: &Self::Stream,
        token: In<'_, Self, i32, 1>,
        slot_mapping: In<'_, Self, i32, 1>,
        positions: In<'_, Self, i32, 1>,
        keys: Out<'_, Self, f32, 2>,
    ) -> Result<()>;

    /// The sum of each row's stream, in the order of its tokens.
    fn sum_pages(
        stream: &Self::Stream,
        keys: In<'_, Self, f32, 2>,
        rows: PagedRows<'_, Self>,
        sum: Out<'_, Self, f32, 1>,
    ) -> Result<()>;

    /// `logits[r][i] = ((31 * sum[r] + 17 * i) mod 13) / 4`.
    fn toy_logits(
        stream: &Self::Stream,
        sum: In<'_, Self, f32, 1>,
        logits: Out<'_, Self, f32, 2>,
    ) -> Result<()>;
}
