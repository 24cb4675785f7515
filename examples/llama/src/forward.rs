//! The parts of a forward. Regions, the eager code between them and the captured decode all call these.

use graph_core::{Cx, In, Out, Result, Tensor};
use graph_resources::KvPages;
use model_support::Activation;

use crate::{LlamaConfig, LlamaModel, LlamaOps, PagedRows, model::Layer};

/// Where a step's tokens are in the cache: what the resources planned for it.
pub(crate) struct Paged<'c, B: LlamaOps, A> {
    pub(crate) rows: PagedRows<'c, B>,
    slot_mapping: In<'c, B, i32, 1>,
    pages: &'c KvPages<B, A>,
    /// One token per row.
    decode: bool,
}

impl<'c, B: LlamaOps, A: Activation> Paged<'c, B, A> {
    /// Chunks of prompts.
    pub(crate) fn packed(cx: &Cx<'c, B>) -> Result<Self> {
        let pages: &KvPages<B, A> = cx.resource()?;
        let plan = |name| cx.planned("attention", name);
        let rows = PagedRows {
            indptr: plan("indptr")?,
            page_indptr: plan("page_indptr")?,
            page_indices: plan("page_indices")?,
            last_page_len: plan("last_page_len")?,
            positions: plan("positions")?,
            page_size: pages.page_size(),
        };
        Ok(Paged { rows, slot_mapping: cx.planned("kv", "slot_mapping")?, pages, decode: false })
    }

    /// One token of each request.
    pub(crate) fn decode(cx: &Cx<'c, B>) -> Result<Self> {
        Ok(Paged { decode: true, ..Self::packed(cx)? })
    }
}

/// Temporary memory of [`LlamaModel::qkv`].
pub(crate) struct QkvScratch<B: LlamaOps, A> {
    normed: Tensor<B, A, 2>,
    q: Tensor<B, A, 2>,
    k: Tensor<B, A, 2>,
}

impl<B: LlamaOps, A: Activation> QkvScratch<B, A> {
    pub(crate) fn new(cx: &mut Cx<'_, B>, config: &LlamaConfig, rows: usize) -> Result<Self> {
        Ok(QkvScratch {
            normed: cx.scratch([rows, config.hidden_size])?,
            q: cx.scratch([rows, config.q_dim()])?,
            k: cx.scratch([rows, config.kv_dim()])?,
        })
    }
}

/// Temporary memory of [`LlamaModel::mlp`].
pub(crate) struct MlpScratch<B: LlamaOps, A> {
    product: Tensor<B, f32, 2>,
    mid: Tensor<B, f32, 2>,
    normed: Tensor<B, A, 2>,
    gate: Tensor<B, A, 2>,
    up: Tensor<B, A, 2>,
    inner: Tensor<B, A, 2>,
}

impl<B: LlamaOps, A: Activation> MlpScratch<B, A> {
    pub(crate) fn new(cx: &mut Cx<'_, B>, config: &LlamaConfig, rows: usize) -> Result<Self> {
        let (wide, inner) = ([rows, config.hidden_size], [rows, config.intermediate_size]);
        Ok(MlpScratch {
            product: cx.scratch(wide)?,
            mid: cx.scratch(wide)?,
            normed: cx.scratch(wide)?,
            gate: cx.scratch(inner)?,
            up: cx.scratch(inner)?,
            inner: cx.scratch(inner)?,
        })
    }
}

/// Where the queries, keys and values of a layer go.
pub(crate) struct QkvOut<'a, B: LlamaOps, A> {
    pub(crate) q: Out<'a, B, A, 2>,
    pub(crate) k: Out<'a, B, A, 2>,
    pub(crate) v: Out<'a, B, A, 2>,
}

impl<B: LlamaOps> LlamaModel<B> {
    /// Norm, projections, rotary embedding.
    pub(crate) fn qkv<A: Activation>(
        &self,
        s: &B::Stream,
        layer: &Layer<B>,
        hidden: In<'_, B, A, 2>,
        positions: In<'_, B, i32, 1>,
        y: &QkvOut<'_, B, A>,
        t: &QkvScratch<B, A>,
    ) -> Result<()> {
        B::rms_norm(s, hidden, layer.input_norm.view(), self.config.rms_norm_eps, t.normed.view_mut())?;
        B::linear(s, t.normed.view(), &layer.q, t.q.view_mut())?;
        B::linear(s, t.normed.view(), &layer.k, t.k.view_mut())?;
        B::linear(s, t.normed.view(), &layer.v, y.v)?;
        B::rotary(s, t.q.view(), positions, self.inverse_frequencies.view(), y.q)?;
        B::rotary(s, t.k.view(), positions, self.inverse_frequencies.view(), y.k)
    }

    /// Stores keys and values, then attends over what the requests have so far.
    pub(crate) fn attention<A: Activation>(
        &self,
        s: &B::Stream,
        layer: usize,
        [q, k, v]: [In<'_, B, A, 2>; 3],
        at: &Paged<'_, B, A>,
        y: Out<'_, B, A, 2>,
    ) -> Result<()> {
        let (keys, values, heads) = (at.pages.keys(layer)?, at.pages.values(layer)?, self.config.heads());
        B::store_kv(s, k, v, at.slot_mapping, keys.view_mut(), values.view_mut())?;
        match at.decode {
            true => B::attend_decode(s, q, keys.view(), values.view(), at.rows, heads, y),
            false => B::attend_packed(s, q, keys.view(), values.view(), at.rows, heads, y),
        }
    }

    /// Output projection, residual, norm, SwiGLU, residual.
    pub(crate) fn mlp<A: Activation>(
        &self,
        s: &B::Stream,
        layer: &Layer<B>,
        hidden: In<'_, B, A, 2>,
        attn: In<'_, B, A, 2>,
        y: Out<'_, B, A, 2>,
        t: &MlpScratch<B, A>,
    ) -> Result<()> {
        B::linear(s, attn, &layer.o, t.product.view_mut())?;
        B::add(s, hidden, t.product.view(), t.mid.view_mut())?;
        B::rms_norm(s, t.mid.view(), layer.post_norm.view(), self.config.rms_norm_eps, t.normed.view_mut())?;
        B::linear(s, t.normed.view(), &layer.gate, t.gate.view_mut())?;
        B::linear(s, t.normed.view(), &layer.up, t.up.view_mut())?;
        B::silu_mul(s, t.gate.view(), t.up.view(), t.inner.view_mut())?;
        B::linear(s, t.inner.view(), &layer.down, t.product.view_mut())?;
        B::add(s, t.mid.view(), t.product.view(), y)
    }

    /// Final norm and head.
    pub(crate) fn head<A: Activation>(
        &self,
        cx: &mut Cx<'_, B>,
        hidden: In<'_, B, A, 2>,
        logits: Out<'_, B, f32, 2>,
    ) -> Result<()> {
        let normed = cx.scratch::<f32, 2>(hidden.dims())?;
        B::rms_norm(cx.stream(), hidden, self.norm.view(), self.config.rms_norm_eps, normed.view_mut())?;
        B::linear(cx.stream(), normed.view(), &self.head, logits)
    }

    /// All layers, from one hidden state to another.
    pub(crate) fn layers<A: Activation>(
        &self,
        cx: &mut Cx<'_, B>,
        first: In<'_, B, A, 2>,
        at: &Paged<'_, B, A>,
        last: Out<'_, B, A, 2>,
    ) -> Result<()> {
        let (s, c, [rows, _]) = (cx.stream(), &self.config, first.dims());
        let between = [cx.scratch([rows, c.hidden_size])?, cx.scratch([rows, c.hidden_size])?];
        let (q, attn) = (cx.scratch([rows, c.q_dim()])?, cx.scratch([rows, c.q_dim()])?);
        let (k, v) = (cx.scratch([rows, c.kv_dim()])?, cx.scratch([rows, c.kv_dim()])?);
        let (qkv_scratch, mlp_scratch) = (QkvScratch::new(cx, c, rows)?, MlpScratch::new(cx, c, rows)?);
        let mut from = first;
        for (i, layer) in self.layers.iter().enumerate() {
            let next = &between[i % 2];
            let to = if i + 1 == self.layers.len() { last } else { next.view_mut() };
            let y = QkvOut { q: q.view_mut(), k: k.view_mut(), v: v.view_mut() };
            self.qkv(s, layer, from, at.rows.positions, &y, &qkv_scratch)?;
            self.attention(s, i, [q.view(), k.view(), v.view()], at, attn.view_mut())?;
            self.mlp(s, layer, from, attn.view(), to, &mlp_scratch)?;
            from = next.view();
        }
        Ok(())
    }

    /// One token of each request: all layers and the head.
    pub(crate) fn decode<A: Activation>(
        &self,
        cx: &mut Cx<'_, B>,
        tokens: In<'_, B, i32, 1>,
        logits: Out<'_, B, f32, 2>,
    ) -> Result<()> {
        let at = Paged::<B, A>::decode(cx)?;
        let wide = [tokens.len(), self.config.hidden_size];
        let (first, last) = (cx.scratch::<A, 2>(wide)?, cx.scratch(wide)?);
        B::embed(cx.stream(), &self.embed, tokens, first.view_mut())?;
        self.layers(cx, first.view(), &at, last.view_mut())?;
        self.head(cx, last.view(), logits)
    }
}
