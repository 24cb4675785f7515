//! What the model asks of a backend. A backend that implements this runs the model.

use graph_core::{Backend, In, Out, Result};
use model_support::{Activation, Stored};

use crate::kernels::Heads;

/// The rows of a step, one per request, and where the keys and values of their contexts are: the planned inputs of
/// [`AttentionPlan`](graph_resources::AttentionPlan), whose documentation says what padding rows have.
pub struct PagedRows<'a, B: Backend> {
    /// `[rows + 1]`: the queries of row `r` are tokens `indptr[r]..indptr[r + 1]`. Tokens from `indptr[rows]` on are
    /// padding.
    pub indptr: In<'a, B, i32, 1>,
    /// `[rows + 1]`: the pages of row `r` are entries `page_indptr[r]..page_indptr[r + 1]` of `page_indices`.
    pub page_indptr: In<'a, B, i32, 1>,
    /// Pages in token order, those of this step's tokens included. What lies beyond `page_indptr[rows]` is padding.
    pub page_indices: In<'a, B, i32, 1>,
    /// `[rows]`: tokens in a row's last page; 0 for a row without pages.
    pub last_page_len: In<'a, B, i32, 1>,
    /// `[tokens]`: the place of each token in its context.
    pub positions: In<'a, B, i32, 1>,
    /// Tokens of a page: token `i` of a context is row `page_indices[i / page_size] * page_size + i % page_size` of
    /// the keys and values.
    pub page_size: usize,
}

impl<B: Backend> Clone for PagedRows<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<B: Backend> Copy for PagedRows<'_, B> {}

/// The operations of the model. All matrices are row-major, weights are `[out, in]`. A row's result has the same bits
/// alone and in a batch. Sums are in `f32` with any activations, and each operation rounds once, at its end; what one
/// operation leaves for the next within a layer's residual, and for the head, is `f32` with any activations.
pub trait LlamaOps: Backend {
    /// What the operations need on a device, such as compiled kernels. A model loads and keeps it.
    type Kernels: Send + Sync + 'static;
    /// A matrix of weights on a device. Clones share the memory.
    type Weight: Clone + Send + Sync + 'static;

    /// Loads it; the operations find it by their stream's device.
    fn kernels(device: &Self) -> Result<Self::Kernels>;

    /// Puts weights on a device, none of them rounded.
    fn weight(
        kernels: &Self::Kernels,
        device: &Self,
        stream: &Self::Stream,
        stored: &Stored,
        dims: [usize; 2],
    ) -> Result<Self::Weight>;

    /// `y[i] = table[tokens[i]]`: the embedding.
    fn embed<A: Activation>(
        stream: &Self::Stream,
        table: &Self::Weight,
        tokens: In<'_, Self, i32, 1>,
        y: Out<'_, Self, A, 2>,
    ) -> Result<()>;

    /// `y[i] = x[rows[i]]`.
    fn gather<A: Activation>(
        stream: &Self::Stream,
        x: In<'_, Self, A, 2>,
        rows: In<'_, Self, i32, 1>,
        y: Out<'_, Self, A, 2>,
    ) -> Result<()>;

    /// `y = x * rsqrt(mean(x^2) + eps) * weight`, row by row.
    fn rms_norm<X: Activation, Y: Activation>(
        stream: &Self::Stream,
        x: In<'_, Self, X, 2>,
        weight: In<'_, Self, f32, 1>,
        eps: f32,
        y: Out<'_, Self, Y, 2>,
    ) -> Result<()>;

    /// `y = x W^T`: activations, or logits, which are `f32`.
    fn linear<X: Activation, Y: Activation>(
        stream: &Self::Stream,
        x: In<'_, Self, X, 2>,
        weight: &Self::Weight,
        y: Out<'_, Self, Y, 2>,
    ) -> Result<()>;

    /// The rotary embedding in the rotate-half form.
    fn rotary<A: Activation>(
        stream: &Self::Stream,
        x: In<'_, Self, A, 2>,
        positions: In<'_, Self, i32, 1>,
        inverse_frequencies: In<'_, Self, f32, 1>,
        y: Out<'_, Self, A, 2>,
    ) -> Result<()>;

    /// Writes the keys and values of each token, `[tokens, kv_dim]` both, to its row of the cache:
    /// `keys[slot_mapping[i]] = k[i]`, and `values` likewise.
    ///
    /// Several padding tokens may have one row, in the padding page: any of them may win.
    fn store_kv<A: Activation>(
        stream: &Self::Stream,
        k: In<'_, Self, A, 2>,
        v: In<'_, Self, A, 2>,
        slot_mapping: In<'_, Self, i32, 1>,
        keys: Out<'_, Self, A, 2>,
        values: Out<'_, Self, A, 2>,
    ) -> Result<()>;

    /// Attention of one token per row over its whole context, which ends with the token itself: row `r` attends to
    /// `(pages - 1) * page_size + last_page_len[r]` tokens. A row without pages is zero.
    ///
    /// A token's result has the same bits alone, batched, at any page size, and from
    /// [`attend_packed`](LlamaOps::attend_packed): a request that is preempted computes its tokens again, in a prompt.
    fn attend_decode<A: Activation>(
        stream: &Self::Stream,
        q: In<'_, Self, A, 2>,
        keys: In<'_, Self, A, 2>,
        values: In<'_, Self, A, 2>,
        rows: PagedRows<'_, Self>,
        heads: Heads,
        y: Out<'_, Self, A, 2>,
    ) -> Result<()>;

    /// Causal attention of chunks of prompts, packed: each token attends to tokens `0..=position` of its row's context.
    /// Padding tokens are zero.
    fn attend_packed<A: Activation>(
        stream: &Self::Stream,
        q: In<'_, Self, A, 2>,
        keys: In<'_, Self, A, 2>,
        values: In<'_, Self, A, 2>,
        rows: PagedRows<'_, Self>,
        heads: Heads,
        y: Out<'_, Self, A, 2>,
    ) -> Result<()>;

    /// Draws a token from each row of the logits, as [`sample_row`](graph_resources::sample_row) does, and advances
    /// the counters: `rows[i]` is the row of `state` (`[.., SamplerRow::WORDS]`) that row `i` draws with. Row 0 is the
    /// sink of padding; it may occur more than once, and draws nothing.
    fn sample(
        stream: &Self::Stream,
        logits: In<'_, Self, f32, 2>,
        rows: In<'_, Self, i32, 1>,
        state: Out<'_, Self, u32, 2>,
        tokens: Out<'_, Self, i32, 1>,
    ) -> Result<()>;

    /// `y = silu(gate) * up`.
    fn silu_mul<A: Activation>(
        stream: &Self::Stream,
        gate: In<'_, Self, A, 2>,
        up: In<'_, Self, A, 2>,
        y: Out<'_, Self, A, 2>,
    ) -> Result<()>;

    /// `y = a + b`, where `b` is a product that was not rounded.
    fn add<A: Activation, Y: Activation>(
        stream: &Self::Stream,
        a: In<'_, Self, A, 2>,
        b: In<'_, Self, f32, 2>,
        y: Out<'_, Self, Y, 2>,
    ) -> Result<()>;
}
