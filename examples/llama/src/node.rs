//! The node: decode as one forward to capture, prefill as eager code around the regions.

use std::sync::Arc;

use graph_core::{
    BatchedCudaGraphConfig, BindCx, CallInputs, CudaGraphConfig, Cx, Elem, Error, Forward, IoSchema, Node,
    NodeInputs, Result, Runner, Schema, Shape, Statics, Tensor,
};

use crate::{Embed, EmbedArgs, KvAt, LlamaModel, LlamaOps, Mlp, MlpArgs, Qkv, QkvArgs, kernels::KvLayout};

/// Padding is a request of token 0 at position 0 of the sink.
const INPUTS: &[IoSchema] = &[
    IoSchema::host("token", Elem::I32, 1, "[tokens]"),
    IoSchema::host("position", Elem::I32, 1, "[tokens]"),
    IoSchema::host("kv_slot", Elem::I32, 1, "[bs]").pad(graph_core::Pad::i32(KvLayout::SINK)),
];
const LOGITS: &[IoSchema] = &[IoSchema::device("logits", Elem::F32, 2, "[bs, vocab_size]")];

const DECODE: Forward = Forward {
    schema: Schema::new(
        "llama",
        "forward_batched",
        "batched(seq_len = 1), batch_sizes = [1, 2, 4, 8, 16]",
        INPUTS,
        LOGITS,
    ),
    walks: &["decode"],
    resources: &[],
};
const PREFILL: Forward = Forward {
    schema: Schema::new("llama", "forward_prefill", "eager around embed, qkv, mlp", INPUTS, LOGITS),
    walks: &["prefill"],
    resources: &[],
};

/// Serves the walks `prefill` (chunks of prompts, packed) and `decode` (one token of each request).
///
/// Both take `token` and `position` of each token and `kv_slot` of each request, `1..=max_requests`, and give the logits
/// of each request's last token. A prompt may come in chunks: a chunk attends over what is in its request's slot.
pub struct LlamaNode<B: LlamaOps> {
    model: Arc<LlamaModel<B>>,
    embed: Runner<Embed<B>>,
    qkv: Vec<Runner<Qkv<B>>>,
    mlp: Vec<Runner<Mlp<B>>>,
}

graph_core::register_node!("llama", LlamaNode<B>, &[DECODE, PREFILL]);

impl<B: LlamaOps> Node<B> for LlamaNode<B> {
    type Submodule = LlamaModel<B>;

    fn configs(_model: &LlamaModel<B>) -> Vec<Box<dyn CudaGraphConfig>> {
        let decode = BatchedCudaGraphConfig::new("decode", NodeInputs::new(1));
        vec![Box::new(decode.capture_batch_sizes([1, 2, 4, 8, 16]))]
    }

    fn make_static_inputs(model: &LlamaModel<B>, _forward: &str, shape: &Shape, statics: &mut Statics) {
        statics.input("token", [shape.total_tokens]);
        statics.input("position", [shape.total_tokens]);
        statics.input("kv_slot", [shape.bs]);
        statics.output("logits", [shape.bs, model.config.vocab_size]);
    }

    fn bind(model: Arc<LlamaModel<B>>, cx: &mut BindCx<'_, B>) -> Result<Self> {
        let (embed, qkv, mlp) = (cx.runners.take_one()?, cx.runners.take()?, cx.runners.take()?);
        Ok(LlamaNode { model, embed, qkv, mlp })
    }

    fn forward(&mut self, forward: &str, cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>) -> Result<()> {
        match forward == PREFILL.schema.name {
            true => self.forward_prefill(cx, call),
            false => self.forward_batched(cx, call),
        }
    }

    fn set_slot(&mut self, slot: usize) {
        self.embed.set_slot(slot);
        self.qkv.iter_mut().for_each(|r| r.set_slot(slot));
        self.mlp.iter_mut().for_each(|r| r.set_slot(slot));
    }

    fn set_eager(&mut self, eager_only: bool) {
        self.embed.set_eager(eager_only);
        self.qkv.iter_mut().for_each(|r| r.set_eager(eager_only));
        self.mlp.iter_mut().for_each(|r| r.set_eager(eager_only));
    }
}

impl<B: LlamaOps> LlamaNode<B> {
    /// One token of each request: captured as a whole.
    fn forward_batched(&mut self, cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>) -> Result<()> {
        let at = KvAt {
            slots: call.inputs.get("kv_slot")?,
            positions: call.inputs.get("position")?,
            layout: self.model.layout,
        };
        self.model.decode(cx, call.inputs.get("token")?, at, call.outputs.get("logits")?)
    }

    /// Chunks of prompts, packed: eager attention between captured regions, and the hidden state stays where it is.
    fn forward_prefill(&mut self, cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>) -> Result<()> {
        let (model, s, lens) = (&*self.model, cx.stream(), call.engine_inputs.seq_lens);
        let (token, position) = (call.inputs.host::<i32>("token")?, call.inputs.host::<i32>("position")?);
        if let Some(row) = lens.iter().position(|len| *len == 0) {
            return Err(Error::plugin(format!("llama.prefill: request {row} has no token; leave it out")));
        }
        let slot_of = call.inputs.host::<i32>("kv_slot")?.iter().zip(lens);
        let slots: Vec<i32> = slot_of.flat_map(|(slot, len)| std::iter::repeat_n(*slot, *len)).collect();
        let slots = Tensor::from_slice(cx.device(), s, &slots, [slots.len()])?;
        let positions = call.inputs.get("position")?;
        let at = KvAt { slots: slots.view(), positions, layout: model.layout };
        let attn = cx.scratch([token.len(), model.config.q_dim()])?;

        let mut h = self.embed.run(EmbedArgs { tokens: token }, lens)?.into_out().hidden;
        for (layer, (qkv, mlp)) in model.layers.iter().zip(self.qkv.iter_mut().zip(&mut self.mlp)) {
            let x = qkv.run(QkvArgs { hidden: &h, positions: position }, lens)?.into_out();
            model.attention(s, layer, [x.q.view(), x.k.view(), x.v.view()], at, attn.view_mut())?;
            drop(x); // the next layer's queries, keys and values are in the same memory
            h = mlp.run(MlpArgs { hidden: h, attn: &attn }, lens)?.into_out().hidden;
        }

        let mut end = 0;
        let last_of = |len: &usize| {
            end += *len as i32;
            end - 1
        };
        let last: Vec<i32> = lens.iter().map(last_of).collect();
        let rows = Tensor::from_slice(cx.device(), s, &last, [last.len()])?;
        let last = cx.scratch([lens.len(), model.config.hidden_size])?;
        B::gather(s, h.view(), rows.view(), last.view_mut())?;
        model.head(cx, last.view(), call.outputs.get("logits")?)
    }
}
