//! A layer up to its attention.

use std::{marker::PhantomData, sync::Arc};

use graph_core::{Cx, PiecewiseRegion, Region, Result};
use model_support::Activation;

use crate::{
    LlamaModel, LlamaOps,
    forward::{QkvOut, QkvScratch},
};

/// Norm, projections and rotary embedding of a layer. All layers share the memory of their queries, keys and values:
/// attention is done with them before the next layer runs.
#[derive(PiecewiseRegion)]
#[region(node = "llama", name = "qkv", packed(total_tokens = [16, 64, 256]), elements(A = [f32, bf16]))]
#[input(hidden: A [tokens, self.hidden], pad = zero, wire = h[self.layer])]
#[input(positions: i32 [tokens], host, pad = zero)]
#[output(q: A [tokens, self.q_dim], wire = q[0])]
#[output(k: A [tokens, self.kv_dim], wire = k[0])]
#[output(v: A [tokens, self.kv_dim], wire = v[0])]
pub struct Qkv<B: LlamaOps, A: Activation> {
    hidden: usize,
    q_dim: usize,
    kv_dim: usize,
    layer: usize,
    model: Arc<LlamaModel<B>>,
    element: PhantomData<A>,
}

impl<B: LlamaOps, A: Activation> Region for Qkv<B, A> {
    type Submodule = LlamaModel<B>;

    fn instances(model: &Arc<LlamaModel<B>>) -> Vec<Arc<Self>> {
        let config = &model.config;
        let of = |layer| {
            let (hidden, q_dim, kv_dim) = (config.hidden_size, config.q_dim(), config.kv_dim());
            Arc::new(Qkv { hidden, q_dim, kv_dim, layer, model: model.clone(), element: PhantomData })
        };
        model.piecewise_layers::<A>().map(of).collect()
    }

    fn forward(&self, cx: &mut Cx<'_, B>, x: &QkvInputs<'_, B, A>, y: &QkvOutputs<'_, B, A>) -> Result<()> {
        let [rows, _] = x.hidden.dims();
        let scratch = QkvScratch::new(cx, &self.model.config, rows)?;
        let out = QkvOut { q: y.q, k: y.k, v: y.v };
        self.model.qkv(cx.stream(), &self.model.layers[self.layer], x.hidden, x.positions, &out, &scratch)
    }
}
