//! All layers at once.

use std::{marker::PhantomData, sync::Arc};

use graph_core::{Cx, PiecewiseRegion, Region, Result};
use model_support::Activation;

use crate::{LlamaModel, LlamaOps, Prefill, forward::Paged};

/// All layers with their attention, over chunks of prompts: the first hidden state to the last one. It brings its own
/// step on the cache, so a node that runs it leaves the cache out of its own.
#[derive(PiecewiseRegion)]
#[region(node = "llama", name = "block_loop", packed(total_tokens = [16, 64, 256]), batch_sizes = [4, 32])]
#[region(lease_before_step = true, elements(A = [f32, bf16]))]
#[input(hidden: A [tokens, self.hidden], pad = zero, wire = h[0])]
#[output(hidden: A [tokens, self.hidden], wire = h[1])]
pub struct BlockLoop<B: LlamaOps, A: Activation> {
    hidden: usize,
    model: Arc<LlamaModel<B>>,
    element: PhantomData<A>,
}

impl<B: LlamaOps, A: Activation> Region for BlockLoop<B, A> {
    type Submodule = LlamaModel<B>;

    fn instances(model: &Arc<LlamaModel<B>>) -> Vec<Arc<Self>> {
        let hidden = model.config.hidden_size;
        let layers = || Arc::new(BlockLoop { hidden, model: model.clone(), element: PhantomData });
        let wanted = model.computes_in::<A>() && model.options.prefill == Prefill::BlockLoop;
        wanted.then(layers).into_iter().collect()
    }

    fn resources(&self) -> &'static [&'static str] {
        &["kv", "attention"]
    }

    fn forward(
        &self,
        cx: &mut Cx<'_, B>,
        x: &BlockLoopInputs<'_, B, A>,
        y: &BlockLoopOutputs<'_, B, A>,
    ) -> Result<()> {
        let at = Paged::<B, A>::packed(cx)?;
        self.model.layers(cx, x.hidden, &at, y.hidden)
    }
}
