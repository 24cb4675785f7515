//! A layer after its attention.

use std::sync::Arc;

use graph_core::{Cx, PiecewiseRegion, Region, Result};

use crate::{LlamaModel, LlamaOps, forward::MlpScratch};

/// Output projection, SwiGLU and both residuals of a layer: the next hidden state.
#[derive(PiecewiseRegion)]
#[region(node = "llama", name = "mlp", packed(total_tokens = [16, 64, 256]))]
#[input(hidden: f32 [tokens, self.hidden], pad = zero, wire = h[self.layer])]
#[input(attn: f32 [tokens, self.q_dim], pad = zero)]
#[output(hidden: f32 [tokens, self.hidden], wire = h[self.layer + 1])]
pub struct Mlp<B: LlamaOps> {
    hidden: usize,
    q_dim: usize,
    layer: usize,
    model: Arc<LlamaModel<B>>,
}

impl<B: LlamaOps> Region for Mlp<B> {
    type Submodule = LlamaModel<B>;

    fn instances(model: &Arc<LlamaModel<B>>) -> Vec<Arc<Self>> {
        let (hidden, q_dim) = (model.config.hidden_size, model.config.q_dim());
        let of = |layer| Arc::new(Mlp { hidden, q_dim, layer, model: model.clone() });
        model.piecewise_layers().map(of).collect()
    }

    fn forward(&self, cx: &mut Cx<'_, B>, x: &MlpInputs<'_, B>, y: &MlpOutputs<'_, B>) -> Result<()> {
        let [rows, _] = x.hidden.dims();
        let scratch = MlpScratch::new(cx, &self.model.config, rows)?;
        self.model.mlp(cx.stream(), &self.model.layers[self.layer], x.hidden, x.attn, y.hidden, &scratch)
    }
}
