//! A layer after its attention.

use std::{marker::PhantomData, sync::Arc};

use graph_core::{Cx, PiecewiseRegion, Region, Result};
use model_support::Activation;

use crate::{LlamaModel, LlamaOps, forward::MlpScratch};

/// Output projection, SwiGLU and both residuals of a layer: the next hidden state.
#[derive(PiecewiseRegion)]
#[region(node = "llama", name = "mlp", packed(total_tokens = [16, 64, 256]), elements(A = [f32, bf16]))]
#[input(hidden: A [tokens, self.hidden], pad = zero, wire = h[self.layer])]
#[input(attn: A [tokens, self.q_dim], pad = zero)]
#[output(hidden: A [tokens, self.hidden], wire = h[self.layer + 1])]
pub struct Mlp<B: LlamaOps, A: Activation> {
    hidden: usize,
    q_dim: usize,
    layer: usize,
    model: Arc<LlamaModel<B>>,
    element: PhantomData<A>,
}

impl<B: LlamaOps, A: Activation> Region for Mlp<B, A> {
    type Submodule = LlamaModel<B>;

    fn instances(model: &Arc<LlamaModel<B>>) -> Vec<Arc<Self>> {
        let (hidden, q_dim) = (model.config.hidden_size, model.config.q_dim());
        let of = |layer| Arc::new(Mlp { hidden, q_dim, layer, model: model.clone(), element: PhantomData });
        model.piecewise_layers::<A>().map(of).collect()
    }

    fn forward(&self, cx: &mut Cx<'_, B>, x: &MlpInputs<'_, B, A>, y: &MlpOutputs<'_, B, A>) -> Result<()> {
        let [rows, _] = x.hidden.dims();
        let scratch = MlpScratch::new(cx, &self.model.config, rows)?;
        self.model.mlp(cx.stream(), &self.model.layers[self.layer], x.hidden, x.attn, y.hidden, &scratch)
    }
}
