//! The node: takes images of the host, runs the region.

use std::sync::Arc;

use graph_core::{
    BindCx, CallInputs, Cx, Elem, Forward, HostTensor, IoSchema, Node, Result, Runner, Schema, Shape, Statics,
};

use crate::{Classify, ClassifyArgs, DigitsModel, DigitsOps, PATCH};

const FORWARDS: &[Forward] = &[Forward {
    schema: Schema::new(
        "digits",
        "forward_batched",
        "eager around digits.classify",
        &[IoSchema::host("patches", Elem::F32, 2, "[tokens, 4]")],
        &[IoSchema::device("logits", Elem::F32, 2, "[bs, classes]")],
    ),
    walks: &["classify"],
    resources: &[],
}];

/// Serves the walk `classify`.
pub struct DigitsNode<B: DigitsOps> {
    classify: Runner<Classify<B>>,
}

graph_core::register_node!("digits", DigitsNode<B>, FORWARDS);

impl<B: DigitsOps> Node<B> for DigitsNode<B> {
    type Submodule = DigitsModel<B>;

    fn make_static_inputs(model: &DigitsModel<B>, _forward: &str, shape: &Shape, statics: &mut Statics) {
        statics.input("patches", [shape.total_tokens, PATCH]);
        statics.output("logits", [shape.bs, model.config().classes]);
    }

    fn bind(_model: Arc<DigitsModel<B>>, cx: &mut BindCx<'_, B>) -> Result<Self> {
        Ok(DigitsNode { classify: cx.runners.take_one()? })
    }

    fn forward(&mut self, _forward: &str, cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>) -> Result<()> {
        let patches = HostTensor::new(call.inputs.host::<f32>("patches")?, [cx.dims().tokens, PATCH])?;
        let out = self.classify.run(ClassifyArgs { patches }, call.engine_inputs.seq_lens)?.into_out();
        call.outputs.get("logits")?.copy_from(cx.stream(), out.logits.view())
    }

    fn set_slot(&mut self, slot: usize) {
        self.classify.set_slot(slot);
    }

    fn set_eager(&mut self, eager_only: bool) {
        self.classify.set_eager(eager_only);
    }
}
