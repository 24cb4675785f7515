//! A layer up to its attention.

use std::sync::Arc;

use graph_core::{Cx, PiecewiseRegion, Region, Result};

use crate::{
    LlamaModel, LlamaOps,
    forward::{QkvOut, QkvScratch},
};

/// Norm, projections and rotary embedding of a layer. All layers share the memory of their queries, keys and values:
/// attention is done with them before the next layer runs.
#[derive(PiecewiseRegion)]
#[region(node = "llama", name = "qkv", packed(total_tokens = [16, 64, 256]))]
#[input(hidden: f32 [tokens, self.hidden], pad = zero, wire = h[self.layer])]
#[input(positions: i32 [tokens], host, pad = zero)]
#[output(q: f32 [tokens, self.q_dim], wire = q[0])]
#[output(k: f32 [tokens, self.kv_dim], wire = k[0])]
#[output(v: f32 [tokens, self.kv_dim], wire = v[0])]
pub struct Qkv<B: LlamaOps> {
    hidden: usize,
    q_dim: usize,
    kv_dim: usize,
    layer: usize,
    model: Arc<LlamaModel<B>>,
}

impl<B: LlamaOps> Region for Qkv<B> {
    type Submodule = LlamaModel<B>;

    fn instances(model: &Arc<LlamaModel<B>>) -> Vec<Arc<Self>> {
        let config = &model.config;
        let of = |layer| {
            let (hidden, q_dim, kv_dim) = (config.hidden_size, config.q_dim(), config.kv_dim());
            Arc::new(Qkv { hidden, q_dim, kv_dim, layer, model: model.clone() })
        };
        model.piecewise_layers().map(of).collect()
    }

    fn forward(&self, cx: &mut Cx<'_, B>, x: &QkvInputs<'_, B>, y: &QkvOutputs<'_, B>) -> Result<()> {
        let [rows, _] = x.hidden.dims();
        let scratch = QkvScratch::new(cx, &self.model.config, rows)?;
        let out = QkvOut { q: y.q, k: y.k, v: y.v };
        self.model.qkv(cx.stream(), &self.model.layers[self.layer], x.hidden, x.positions, &out, &scratch)
    }
}
