//! Tokens to the hidden state.

use std::sync::Arc;

use graph_core::{Cx, PiecewiseRegion, Region, Result};

use crate::{LlamaModel, LlamaOps};

/// The embedding: the first hidden state.
#[derive(PiecewiseRegion)]
#[region(node = "llama", name = "embed", packed(total_tokens = [16, 64, 256]))]
#[input(tokens: i32 [tokens], host, pad = zero)]
#[output(hidden: f32 [tokens, self.hidden], wire = h[0])]
pub struct Embed<B: LlamaOps> {
    hidden: usize,
    model: Arc<LlamaModel<B>>,
}

impl<B: LlamaOps> Region for Embed<B> {
    type Submodule = LlamaModel<B>;

    fn instances(model: &Arc<LlamaModel<B>>) -> Vec<Arc<Self>> {
        vec![Arc::new(Embed { hidden: model.config.hidden_size, model: model.clone() })]
    }

    fn forward(&self, cx: &mut Cx<'_, B>, x: &EmbedInputs<'_, B>, y: &EmbedOutputs<'_, B>) -> Result<()> {
        B::embed(cx.stream(), &self.model.embed, x.tokens, y.hidden)
    }
}
