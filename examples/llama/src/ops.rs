//! What the model asks of a backend. A backend that implements this runs the model.

use graph_core::{Backend, In, Out, Result};

use crate::kernels::{Heads, KvLayout};

/// Which row of the keys and values each token has.
pub struct KvAt<'a, B: Backend> {
    /// The slot of each token's request.
    pub slots: In<'a, B, i32, 1>,
    /// The position of each token.
    pub positions: In<'a, B, i32, 1>,
    /// Where slots begin.
    pub layout: KvLayout,
}

impl<B: Backend> Clone for KvAt<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<B: Backend> Copy for KvAt<'_, B> {}

/// The operations of the model. All matrices are row-major, weights are `[out, in]`. A row's result has the same bits
/// alone and in a batch.
pub trait LlamaOps: Backend {
    /// `y[i] = table[rows[i]]`.
    fn gather(
        stream: &Self::Stream,
        table: In<'_, Self, f32, 2>,
        rows: In<'_, Self, i32, 1>,
        y: Out<'_, Self, f32, 2>,
    ) -> Result<()>;

    /// `y = x * rsqrt(mean(x^2) + eps) * weight`, row by row.
    fn rms_norm(
        stream: &Self::Stream,
        x: In<'_, Self, f32, 2>,
        weight: In<'_, Self, f32, 1>,
        eps: f32,
        y: Out<'_, Self, f32, 2>,
    ) -> Result<()>;

    /// `y = x W^T`.
    fn linear(
        stream: &Self::Stream,
        x: In<'_, Self, f32, 2>,
        weight: In<'_, Self, f32, 2>,
        y: Out<'_, Self, f32, 2>,
    ) -> Result<()>;

    /// The rotary embedding in the rotate-half form.
    fn rotary(
        stream: &Self::Stream,
        x: In<'_, Self, f32, 2>,
        positions: In<'_, Self, i32, 1>,
        inverse_frequencies: In<'_, Self, f32, 1>,
        y: Out<'_, Self, f32, 2>,
    ) -> Result<()>;

    /// Writes each token's keys (or values) to its row of the cache.
    fn store_kv(
        stream: &Self::Stream,
        x: In<'_, Self, f32, 2>,
        at: KvAt<'_, Self>,
        cache: Out<'_, Self, f32, 2>,
    ) -> Result<()>;

    /// Causal attention of each token over its request's rows `0..=position`.
    fn attend(
        stream: &Self::Stream,
        q: In<'_, Self, f32, 2>,
        keys: In<'_, Self, f32, 2>,
        values: In<'_, Self, f32, 2>,
        at: KvAt<'_, Self>,
        heads: Heads,
        y: Out<'_, Self, f32, 2>,
    ) -> Result<()>;

    /// `y = silu(gate) * up`.
    fn silu_mul(
        stream: &Self::Stream,
        gate: In<'_, Self, f32, 2>,
        up: In<'_, Self, f32, 2>,
        y: Out<'_, Self, f32, 2>,
    ) -> Result<()>;

    /// `y = a + b`.
    fn add(
        stream: &Self::Stream,
        a: In<'_, Self, f32, 2>,
        b: In<'_, Self, f32, 2>,
        y: Out<'_, Self, f32, 2>,
    ) -> Result<()>;
}
