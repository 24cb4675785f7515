//! A node with two walks: one captured as a whole, the other eager with a captured region inside.

use std::sync::Arc;

use graph_core::{
    BatchedCudaGraphConfig, BindCx, CallInputs, CudaGraphConfig, Cx, Elem, Engine, Forward, HandWritten,
    IoSchema, NamedArgs, NoModel, Node, NodeEntry, NodeInputs, On, Pad, PiecewiseBatchedConfig, Result,
    Schema, Shape, Source, Statics,
};

use super::region::{AT, ByHand, with_regions};
use crate::{Bench, SuiteOps};

const X: IoSchema = IoSchema::host("x", Elem::F32, 1, "[bs]").pad(Pad::f32(5.0));
const Y: IoSchema = IoSchema::device("y", Elem::F32, 1, "[bs]");

fn sizes(shape: &Shape, statics: &mut Statics) {
    statics.input("x", [shape.bs]).output("y", [shape.bs]);
}

fn forward<B: SuiteOps>(cx: &Cx<'_, B>, call: &CallInputs<'_, B>) -> Result<()> {
    B::affine(cx.stream(), call.inputs.get("x")?, 2.0, 10.0, call.outputs.get("y")?)
}

static INNER: Schema = Schema::new("columns", "inner", "batch_sizes = [2, 4]", &[X], &[Y]);
static FORWARDS: [Forward; 2] = [
    Forward::new(Schema::new("columns", "forward_batched", "", &[X], &[Y]), &["decode"]),
    Forward::new(Schema::new("columns", "forward_eager", "", &[X], &[Y]), &["prefill"]),
];

struct Columns<B: SuiteOps> {
    inner: ByHand<B>,
}

impl<B: SuiteOps> Columns<B> {
    const ON: &'static [On] = &[On::node::<B, Columns<B>>()];
    const ENTRY: &'static NodeEntry =
        &NodeEntry { name: "columns", forwards: &FORWARDS, at: AT, on: Self::ON };
}

impl<B: SuiteOps> Node<B> for Columns<B> {
    type Submodule = NoModel;
    fn configs(_: &NoModel) -> Vec<Box<dyn CudaGraphConfig>> {
        let row = NodeInputs::new(1).with("x", &[0.0_f32]);
        vec![Box::new(BatchedCudaGraphConfig::new("decode", row).capture_batch_sizes([1, 2, 4]))]
    }
    fn make_static_inputs(_: &NoModel, _: &str, shape: &Shape, statics: &mut Statics) {
        sizes(shape, statics);
    }
    fn bind(_: Arc<NoModel>, cx: &mut BindCx<'_, B>) -> Result<Self> {
        Ok(Columns { inner: cx.runners.take_named("columns.inner")?.remove(0) })
    }
    fn forward(&mut self, name: &str, cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>) -> Result<()> {
        if name == "forward_batched" {
            return forward(cx, call);
        }
        let x = call.inputs.host::<f32>("x")?;
        let out = self.inner.run(NamedArgs(&[("x", Source::host(&x))]), call.engine_inputs.seq_lens)?;
        assert!(out.reason().is_none(), "the region is replayed");
        let inner = out.into_out().take::<f32, 1>("y")?;
        call.outputs.get::<f32, 1>("y")?.copy_from(cx.stream(), inner.view())
    }
    fn set_slot(&mut self, slot: usize) {
        self.inner.set_slot(slot);
    }
}

/// `y = 2 x + 10` in the walks `decode` (whole, for 1, 2 and 4 requests) and `prefill` (eager around the region).
pub(crate) fn columns<B: SuiteOps>(bench: &Bench<B>) -> Result<Engine<B>> {
    let make = || {
        let config = PiecewiseBatchedConfig::new(1).capture_batch_sizes([2, 4]);
        vec![HandWritten::new(&INNER, config, sizes, |cx: &mut Cx<'_, B>, call| forward(cx, call))]
    };
    with_regions(bench.device()?, &INNER, make, Some(Columns::<B>::ENTRY), |b| b)
}
