//! All layers at once.

use std::sync::Arc;

use graph_core::{Cx, PiecewiseRegion, Region, Result};

use crate::{LlamaModel, LlamaOps, Prefill, forward::Paged};

/// All layers with their attention, over chunks of prompts: the first hidden state to the last one. It brings its own
/// step on the cache, so a node that runs it leaves the cache out of its own.
#[derive(PiecewiseRegion)]
#[region(node = "llama", name = "block_loop", packed(total_tokens = [16, 64, 256]), batch_sizes = [4, 32])]
#[region(lease_before_step = true)]
#[input(hidden: f32 [tokens, self.hidden], pad = zero, wire = h[0])]
#[output(hidden: f32 [tokens, self.hidden], wire = h[1])]
pub struct BlockLoop<B: LlamaOps> {
    hidden: usize,
    model: Arc<LlamaModel<B>>,
}

impl<B: LlamaOps> Region for BlockLoop<B> {
    type Submodule = LlamaModel<B>;

    fn instances(model: &Arc<LlamaModel<B>>) -> Vec<Arc<Self>> {
        let hidden = model.config.hidden_size;
        match model.options.prefill {
            Prefill::BlockLoop => vec![Arc::new(BlockLoop { hidden, model: model.clone() })],
            Prefill::Piecewise => Vec::new(),
        }
    }

    fn resources(&self) -> &'static [&'static str] {
        &["kv", "attention"]
    }

    fn forward(
        &self,
        cx: &mut Cx<'_, B>,
        x: &BlockLoopInputs<'_, B>,
        y: &BlockLoopOutputs<'_, B>,
    ) -> Result<()> {
        let at = Paged::packed(cx)?;
        self.model.layers(cx, x.hidden, &at, y.hidden)
    }
}
