//! Prefill: chunks of prompts, packed, as eager code around captured regions.

use graph_core::{
    CallInputs, Cx, Error, Label, Resource, Result, Row, StepContext, StepRequests, Steps, Tensor,
};
use graph_resources::{AttentionPlan, Sampler, SamplerState};
use model_support::Activation;

use crate::{
    BlockLoopArgs, EmbedArgs, LlamaModel, LlamaOps, MlpArgs, QkvArgs,
    forward::Paged,
    runners::{Layer, Layers, Runners},
};

impl<B: LlamaOps, A: Activation> Runners<B, A> {
    /// The hidden state stays where it is from region to region.
    pub(crate) fn prefill(
        &mut self,
        model: &LlamaModel<B>,
        cx: &mut Cx<'_, B>,
        call: &CallInputs<'_, B>,
    ) -> Result<()> {
        let (s, lens) = (cx.stream(), call.engine_inputs.seq_lens);
        if let Some(row) = lens.iter().position(|len| *len == 0) {
            return Err(Error::plugin(format!("llama.prefill: request {row} has no token; leave it out")));
        }
        let request = |row: &Row| match row {
            Row::Request(request) => Some(*request),
            Row::Padding { .. } => None,
        };
        let requests: Vec<_> = call.engine_inputs.request_ids.iter().filter_map(request).collect();
        let token = call.inputs.host::<i32>("token")?;
        let mut h = self.embed.run(EmbedArgs { tokens: token }, lens)?.into_out().hidden;
        match &mut self.layers {
            Layers::BlockLoop(layers) => {
                let requests = StepRequests { requests: &requests, seq_lens: lens };
                let steps = steps(cx)?;
                h = layers.run_step(BlockLoopArgs { hidden: h }, requests, steps)?.into_out().hidden;
            }
            Layers::Piecewise(layers) => {
                let at = &Paged::<B, A>::packed(cx)?;
                let positions = &positions(steps(cx)?);
                let attn = cx.scratch([token.len(), model.config.q_dim()])?;
                for (layer, Layer { qkv, mlp }) in layers.iter_mut().enumerate() {
                    let x = qkv.run(QkvArgs { hidden: &h, positions }, lens)?.into_out();
                    model.attention(s, layer, [x.q.view(), x.k.view(), x.v.view()], at, attn.view_mut())?;
                    drop(x); // the next layer's queries, keys and values are in the same memory
                    h = mlp.run(MlpArgs { hidden: h, attn: &attn }, lens)?.into_out().hidden;
                }
            }
        }

        let mut end = 0;
        let last_of = |len: &usize| {
            end += *len as i32;
            end - 1
        };
        let last: Vec<i32> = lens.iter().map(last_of).collect();
        let rows = Tensor::from_slice(cx.device(), s, &last, [last.len()])?;
        let last = cx.scratch::<A, 2>([lens.len(), model.config.hidden_size])?;
        B::gather(s, h.view(), rows.view(), last.view_mut())?;
        model.head(cx, last.view(), call.outputs.get("logits")?)?;
        draw::<B>(cx, call)
    }
}

/// Samples every row; those that do not draw use the sink, whose state never changes.
fn draw<B: LlamaOps>(cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>) -> Result<()> {
    let (device, s, padded) = (cx.device(), cx.stream(), cx.dims());
    let (rows, draws) = (call.engine_inputs.request_ids, call.inputs.host::<i32>("draws")?);
    let state = cx.resource::<SamplerState<B>>()?;
    let declared = steps(cx)?.declare(|step| {
        let mut part = step.resource("sampler");
        for (row, draws) in rows.iter().zip(draws) {
            if let Row::Request(request) = row {
                part.segment(*request, Label::MAIN, usize::from(*draws != 0));
            }
        }
        Ok(())
    })?;
    let plan = StepContext { slot: 0, rows, real_bs: rows.len(), padded, captured: false };
    let mut step = declared.admit()?.plan(&plan)?;
    let planned = step.inside().get::<Sampler<B>>().and_then(|s| s.planned(0, 0).values::<i32>());
    let planned = planned.unwrap_or_default();
    let rows = Tensor::from_slice(device, s, planned, [planned.len()])?;
    let (logits, token) = (call.outputs.get("logits")?, call.outputs.get("token")?);
    B::sample(s, logits.read(), rows.view(), state.words().view_mut(), token)?;
    step.commit(&[]);
    Ok(())
}

/// The node's resources; a prefill that is captured as a whole has none.
fn steps<'s, B: LlamaOps>(cx: &'s mut Cx<'_, B>) -> Result<&'s mut Steps<B>> {
    let captured =
        "llama: a prefill brings steps of its own, so it cannot be captured as a whole; capture `decode`";
    cx.steps().ok_or_else(|| Error::plugin(captured))
}

/// What the outer step planned: the host's copy, for regions that take it in their block.
fn positions<B: LlamaOps>(steps: &Steps<B>) -> Vec<i32> {
    let Some(plan) = steps.get::<AttentionPlan<B>>() else { return Vec::new() };
    let input = Resource::<B>::inputs(plan).iter().position(|io| io.name == "positions");
    let planned = input.and_then(|i| plan.planned(0, i).values::<i32>());
    planned.unwrap_or_default().to_vec()
}
