//! Tokens to the hidden state.

use std::{marker::PhantomData, sync::Arc};

use graph_core::{Cx, PiecewiseRegion, Region, Result};
use model_support::Activation;

use crate::{LlamaModel, LlamaOps};

/// The embedding: the first hidden state.
#[derive(PiecewiseRegion)]
#[region(node = "llama", name = "embed", packed(total_tokens = [16, 64, 256]), elements(A = [f32, bf16]))]
#[input(tokens: i32 [tokens], host, pad = zero)]
#[output(hidden: A [tokens, self.hidden], wire = h[0])]
pub struct Embed<B: LlamaOps, A: Activation> {
    hidden: usize,
    model: Arc<LlamaModel<B>>,
    element: PhantomData<A>,
}

impl<B: LlamaOps, A: Activation> Region for Embed<B, A> {
    type Submodule = LlamaModel<B>;

    fn instances(model: &Arc<LlamaModel<B>>) -> Vec<Arc<Self>> {
        let hidden = model.config.hidden_size;
        let embed = || Arc::new(Embed { hidden, model: model.clone(), element: PhantomData });
        model.computes_in::<A>().then(embed).into_iter().collect()
    }

    fn forward(
        &self,
        cx: &mut Cx<'_, B>,
        x: &EmbedInputs<'_, B, A>,
        y: &EmbedOutputs<'_, B, A>,
    ) -> Result<()> {
        B::embed(cx.stream(), &self.model.embed, x.tokens, y.hidden)
    }
}
