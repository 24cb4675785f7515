//! The model as one batched region.

use std::sync::Arc;

use graph_core::{Cx, PiecewiseRegion, Region, Result};

use crate::{DigitsModel, DigitsOps};

/// The whole model, captured at 1 to 32 images.
#[derive(PiecewiseRegion)]
#[region(node = "digits", name = "classify", batched(seq_len = 16), batch_sizes = [1, 2, 4, 8, 16, 32])]
#[input(patches: f32 [tokens, 4], host, pad = zero)]
#[output(logits: f32 [bs, self.classes])]
pub struct Classify<B: DigitsOps> {
    classes: usize,
    model: Arc<DigitsModel<B>>,
}

impl<B: DigitsOps> Region for Classify<B> {
    type Submodule = DigitsModel<B>;

    fn instances(model: &Arc<DigitsModel<B>>) -> Vec<Arc<Self>> {
        vec![Arc::new(Classify { classes: model.config().classes, model: model.clone() })]
    }

    fn forward(
        &self,
        cx: &mut Cx<'_, B>,
        x: &ClassifyInputs<'_, B>,
        y: &ClassifyOutputs<'_, B>,
    ) -> Result<()> {
        self.model.forward(cx, x.patches, y.logits)
    }
}
