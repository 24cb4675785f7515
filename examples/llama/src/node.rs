//! The node: decode as one forward to capture, prefill as eager code around the regions.

use std::sync::Arc;

use graph_core::{
    BatchedCudaGraphConfig, BindCx, CallInputs, CudaGraphConfig, Cx, Elem, Error, Forward, IoSchema, LoadCx,
    Node, NodeInputs, Resource, Result, Schema, Shape, Statics, StepRequests, SubmoduleStep, bf16,
};
use graph_resources::{AttentionPlan, PagedKv, Sampler, SamplerState};
use model_support::Activations;

use crate::{LlamaModel, LlamaOps, Prefill, runners::Runners};

const TOKEN: IoSchema = IoSchema::host("token", Elem::I32, 1, "[tokens]");
/// 1 for a request whose prompt ends with this chunk, so that a token is drawn; 0 otherwise.
const DRAWS: IoSchema = IoSchema::host("draws", Elem::I32, 1, "[bs]");
const OUTPUTS: &[IoSchema] = &[
    IoSchema::device("token", Elem::I32, 1, "[bs]"),
    IoSchema::device("logits", Elem::F32, 2, "[bs, vocab_size]"),
];

const DECODE: Forward = Forward {
    schema: Schema::new(
        "llama",
        "forward_batched",
        "batched(seq_len = 1), batch_sizes = [1, 2, 4, 8, 16]",
        &[TOKEN],
        OUTPUTS,
    ),
    walks: &["decode"],
    resources: &["kv", "attention", "sampler"],
};
const PREFILL: Forward = Forward {
    schema: Schema::new("llama", "forward_prefill", "eager around embed, qkv, mlp", &[TOKEN, DRAWS], OUTPUTS),
    walks: &[Prefill::Piecewise.walk()],
    resources: &["kv", "attention"],
};
const PREFILL_BLOCK_LOOP: Forward = Forward {
    schema: Schema::new(
        "llama",
        "forward_prefill_block_loop",
        "eager around embed, block_loop",
        &[TOKEN, DRAWS],
        OUTPUTS,
    ),
    walks: &[Prefill::BlockLoop.walk()],
    resources: &[],
};

/// Serves `decode` (one token of each request) and one of the walks of [`Prefill`] (chunks of prompts, packed).
///
/// All take `token`, the tokens that continue each request, and give its next `token` and the `logits` that it was drawn
/// from. Where the tokens go and which positions they have is the resources' to know: `kv`, `attention`, `sampler`. A
/// prompt may come in chunks. `draws` of a prefill says which requests' prompts are complete; the others' `token` is
/// their largest logit, and their sampler does not move.
pub struct LlamaNode<B: LlamaOps> {
    model: Arc<LlamaModel<B>>,
    runners: ByActivations<B>,
}

enum ByActivations<B: LlamaOps> {
    F32(Runners<B, f32>),
    Bf16(Runners<B, bf16>),
}

graph_core::register_node!("llama", LlamaNode<B>, &[DECODE, PREFILL, PREFILL_BLOCK_LOOP]);

impl<B: LlamaOps> Node<B> for LlamaNode<B> {
    type Submodule = LlamaModel<B>;

    fn configs(_model: &LlamaModel<B>) -> Vec<Box<dyn CudaGraphConfig>> {
        let decode = BatchedCudaGraphConfig::new("decode", NodeInputs::new(1));
        vec![Box::new(decode.capture_batch_sizes([1, 2, 4, 8, 16]))]
    }

    fn resources(model: &Arc<LlamaModel<B>>, _cx: &LoadCx<'_, B>) -> Result<Vec<Box<dyn Resource<B>>>> {
        let kv = model.options.kv(&model.config);
        Ok(vec![
            Box::new(match model.options.activations {
                Activations::F32 => PagedKv::with_element::<f32>(kv)?,
                Activations::Bf16 => PagedKv::with_element::<bf16>(kv)?,
            }),
            Box::new(AttentionPlan::new(&kv)),
            Box::new(Sampler::new(model.options.max_requests)?),
        ])
    }

    fn declare_step(&self, forward: &str, call: &StepRequests<'_>, step: &mut SubmoduleStep) -> Result<()> {
        if forward != PREFILL_BLOCK_LOOP.schema.name {
            call.append("kv", step);
            call.append("attention", step);
        }
        // A prefill draws at its end, in a step of its own: for the requests whose prompt is complete.
        if forward == DECODE.schema.name {
            call.append("sampler", step);
        }
        Ok(())
    }

    fn make_static_inputs(model: &LlamaModel<B>, forward: &str, shape: &Shape, statics: &mut Statics) {
        statics.input("token", [shape.total_tokens]);
        if forward != DECODE.schema.name {
            statics.input("draws", [shape.bs]);
        }
        statics.output("token", [shape.bs]).output("logits", [shape.bs, model.config.vocab_size]);
    }

    fn bind(model: Arc<LlamaModel<B>>, cx: &mut BindCx<'_, B>) -> Result<Self> {
        let prefill = model.options.prefill;
        let runners = match model.options.activations {
            Activations::F32 => ByActivations::F32(Runners::take(prefill, cx)?),
            Activations::Bf16 => ByActivations::Bf16(Runners::take(prefill, cx)?),
        };
        Ok(LlamaNode { model, runners })
    }

    fn forward(&mut self, forward: &str, cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>) -> Result<()> {
        match forward == DECODE.schema.name {
            true => self.forward_batched(cx, call),
            false => self.forward_prefill(forward == PREFILL_BLOCK_LOOP.schema.name, cx, call),
        }
    }

    fn set_slot(&mut self, slot: usize) {
        match &mut self.runners {
            ByActivations::F32(runners) => runners.set_slot(slot),
            ByActivations::Bf16(runners) => runners.set_slot(slot),
        }
    }

    fn set_eager(&mut self, eager_only: bool) {
        match &mut self.runners {
            ByActivations::F32(runners) => runners.set_eager(eager_only),
            ByActivations::Bf16(runners) => runners.set_eager(eager_only),
        }
    }
}

impl<B: LlamaOps> LlamaNode<B> {
    /// One token of each request, captured as a whole: from token to token.
    fn forward_batched(&mut self, cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>) -> Result<()> {
        let (token, logits) = (call.inputs.get("token")?, call.outputs.get("logits")?);
        match self.model.options.activations {
            Activations::F32 => self.model.decode::<f32>(cx, token, logits)?,
            Activations::Bf16 => self.model.decode::<bf16>(cx, token, logits)?,
        }
        let (rows, state) = (cx.planned("sampler", "row")?, cx.resource::<SamplerState<B>>()?);
        B::sample(cx.stream(), logits.read(), rows, state.words().view_mut(), call.outputs.get("token")?)
    }

    fn forward_prefill(
        &mut self,
        block_loop: bool,
        cx: &mut Cx<'_, B>,
        call: &CallInputs<'_, B>,
    ) -> Result<()> {
        let asked = if block_loop { Prefill::BlockLoop } else { Prefill::Piecewise };
        if asked != self.model.options.prefill {
            return Err(Error::plugin(WrongPrefill { asked, captured: self.model.options.prefill }));
        }
        match &mut self.runners {
            ByActivations::F32(runners) => runners.prefill(&self.model, cx, call),
            ByActivations::Bf16(runners) => runners.prefill(&self.model, cx, call),
        }
    }
}

/// The walk of a way of prefill that was not captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("llama: walk `{}` needs `LlamaOptions::prefill` {asked:?}, it is {captured:?}, whose walk is `{}`", asked.walk(), captured.walk())]
pub struct WrongPrefill {
    /// That of the walk.
    pub asked: Prefill,
    /// That of the options.
    pub captured: Prefill,
}
