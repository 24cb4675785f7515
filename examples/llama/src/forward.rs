//! The parts of a forward. Regions, the eager code between them and the captured decode all call these.

use graph_core::{Cx, In, Out, Result, Tensor};

use crate::{KvAt, LlamaConfig, LlamaModel, LlamaOps, model::Layer};

/// Temporary memory of [`LlamaModel::qkv`].
pub(crate) struct QkvScratch<B: LlamaOps> {
    normed: Tensor<B, f32, 2>,
    q: Tensor<B, f32, 2>,
    k: Tensor<B, f32, 2>,
}

impl<B: LlamaOps> QkvScratch<B> {
    pub(crate) fn new(cx: &mut Cx<'_, B>, config: &LlamaConfig, rows: usize) -> Result<Self> {
        Ok(QkvScratch {
            normed: cx.scratch([rows, config.hidden_size])?,
            q: cx.scratch([rows, config.q_dim()])?,
            k: cx.scratch([rows, config.kv_dim()])?,
        })
    }
}

/// Temporary memory of [`LlamaModel::mlp`].
pub(crate) struct MlpScratch<B: LlamaOps> {
    product: Tensor<B, f32, 2>,
    mid: Tensor<B, f32, 2>,
    normed: Tensor<B, f32, 2>,
    gate: Tensor<B, f32, 2>,
    up: Tensor<B, f32, 2>,
    inner: Tensor<B, f32, 2>,
}

impl<B: LlamaOps> MlpScratch<B> {
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
pub(crate) struct QkvOut<'a, B: LlamaOps> {
    pub(crate) q: Out<'a, B, f32, 2>,
    pub(crate) k: Out<'a, B, f32, 2>,
    pub(crate) v: Out<'a, B, f32, 2>,
}

impl<B: LlamaOps> LlamaModel<B> {
    /// Norm, projections, rotary embedding.
    pub(crate) fn qkv(
        &self,
        s: &B::Stream,
        layer: &Layer<B>,
        hidden: In<'_, B, f32, 2>,
        positions: In<'_, B, i32, 1>,
        y: &QkvOut<'_, B>,
        t: &QkvScratch<B>,
    ) -> Result<()> {
        B::rms_norm(s, hidden, layer.input_norm.view(), self.config.rms_norm_eps, t.normed.view_mut())?;
        B::linear(s, t.normed.view(), layer.q.view(), t.q.view_mut())?;
        B::linear(s, t.normed.view(), layer.k.view(), t.k.view_mut())?;
        B::linear(s, t.normed.view(), layer.v.view(), y.v)?;
        B::rotary(s, t.q.view(), positions, self.inverse_frequencies.view(), y.q)?;
        B::rotary(s, t.k.view(), positions, self.inverse_frequencies.view(), y.k)
    }

    /// Stores keys and values, then attends over what the requests have so far.
    pub(crate) fn attention(
        &self,
        s: &B::Stream,
        layer: &Layer<B>,
        [q, k, v]: [In<'_, B, f32, 2>; 3],
        at: KvAt<'_, B>,
        y: Out<'_, B, f32, 2>,
    ) -> Result<()> {
        let [keys, values] = &layer.kv;
        B::store_kv(s, k, at, keys.view_mut())?;
        B::store_kv(s, v, at, values.view_mut())?;
        B::attend(s, q, keys.view(), values.view(), at, self.config.heads(), y)
    }

    /// Output projection, residual, norm, SwiGLU, residual.
    pub(crate) fn mlp(
        &self,
        s: &B::Stream,
        layer: &Layer<B>,
        hidden: In<'_, B, f32, 2>,
        attn: In<'_, B, f32, 2>,
        y: Out<'_, B, f32, 2>,
        t: &MlpScratch<B>,
    ) -> Result<()> {
        B::linear(s, attn, layer.o.view(), t.product.view_mut())?;
        B::add(s, hidden, t.product.view(), t.mid.view_mut())?;
        B::rms_norm(s, t.mid.view(), layer.post_norm.view(), self.config.rms_norm_eps, t.normed.view_mut())?;
        B::linear(s, t.normed.view(), layer.gate.view(), t.gate.view_mut())?;
        B::linear(s, t.normed.view(), layer.up.view(), t.up.view_mut())?;
        B::silu_mul(s, t.gate.view(), t.up.view(), t.inner.view_mut())?;
        B::linear(s, t.inner.view(), layer.down.view(), t.product.view_mut())?;
        B::add(s, t.mid.view(), t.product.view(), y)
    }

    /// Final norm and head.
    pub(crate) fn head(
        &self,
        cx: &mut Cx<'_, B>,
        hidden: In<'_, B, f32, 2>,
        logits: Out<'_, B, f32, 2>,
    ) -> Result<()> {
        let normed = cx.scratch(hidden.dims())?;
        B::rms_norm(cx.stream(), hidden, self.norm.view(), self.config.rms_norm_eps, normed.view_mut())?;
        B::linear(cx.stream(), normed.view(), self.head.view(), logits)
    }

    /// One token of each request: all layers and the head.
    pub(crate) fn decode(
        &self,
        cx: &mut Cx<'_, B>,
        tokens: In<'_, B, i32, 1>,
        at: KvAt<'_, B>,
        logits: Out<'_, B, f32, 2>,
    ) -> Result<()> {
        let (s, c, [rows]) = (cx.stream(), &self.config, tokens.dims());
        let (mut hidden, mut next) = (cx.scratch([rows, c.hidden_size])?, cx.scratch([rows, c.hidden_size])?);
        let (q, attn) = (cx.scratch([rows, c.q_dim()])?, cx.scratch([rows, c.q_dim()])?);
        let (k, v) = (cx.scratch([rows, c.kv_dim()])?, cx.scratch([rows, c.kv_dim()])?);
        let (qkv_scratch, mlp_scratch) = (QkvScratch::new(cx, c, rows)?, MlpScratch::new(cx, c, rows)?);
        B::gather(s, self.embed.view(), tokens, hidden.view_mut())?;
        for layer in &self.layers {
            let y = QkvOut { q: q.view_mut(), k: k.view_mut(), v: v.view_mut() };
            self.qkv(s, layer, hidden.view(), at.positions, &y, &qkv_scratch)?;
            self.attention(s, layer, [q.view(), k.view(), v.view()], at, attn.view_mut())?;
            self.mlp(s, layer, hidden.view(), attn.view(), next.view_mut(), &mlp_scratch)?;
            std::mem::swap(&mut hidden, &mut next);
        }
        self.head(cx, hidden.view(), logits)
    }
}
