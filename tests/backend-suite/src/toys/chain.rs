//! Wires: layers that pass their outputs on, and a node whose whole forward reads what its region wrote.

use std::{marker::PhantomData, sync::Arc};

use graph_core::{
    BatchedCudaGraphConfig, BindCx, CallInputs, CaptureOptions, CudaGraphConfig, Cx, DeviceInput, Elem,
    Engine, Forward, HandWritten, IoSchema, NamedArgs, NoModel, Node, NodeEntry, NodeInputs, On, OutTensor,
    PiecewiseBatchedConfig, Result, Schema, Shape, Source, Statics, Wire,
};

use super::region::{AT, ByHand, with_regions};
use crate::{Bench, SuiteOps};

const H: IoSchema = IoSchema::device("h", Elem::F32, 1, "[bs]");

/// A runner of a layer.
type Layer<B> = ByHand<B>;

static LAYER: Schema = Schema::new("chain", "layer", "batched(seq_len = 1), batch_sizes = [4]", &[H], &[H]);

/// Two layers, `10 h` and `10 h + 1`: the second reads where the first writes, and the other way round.
pub(crate) fn layers<B: SuiteOps>(bench: &Bench<B>) -> Result<(Engine<B>, Vec<Layer<B>>)> {
    let layer = |layer: usize| {
        let wire = |index| Wire { name: "h", index };
        HandWritten::new(
            &LAYER,
            PiecewiseBatchedConfig::new(1).capture_batch_sizes([4]),
            move |shape: &Shape, s: &mut Statics| {
                s.wired_input("h", [shape.bs], wire(layer)).wired_output("h", [shape.bs], wire(layer + 1));
            },
            move |cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>| {
                B::affine(cx.stream(), call.inputs.get("h")?, 10.0, layer as f32, call.outputs.get("h")?)
            },
        )
    };
    let make = move || vec![layer(0), layer(1)];
    let mut engine = with_regions(bench.device()?, &LAYER, make, None, |b| b)?;
    let layers = engine.runners().take_named("chain.layer")?;
    Ok((engine, layers))
}

/// One call of a layer.
pub(crate) fn run_layer<'r, B: SuiteOps>(
    layer: &'r mut Layer<B>,
    h: impl DeviceInput<B, f32, 1>,
    n: usize,
) -> Result<OutTensor<'r, B, f32, 1>> {
    let h = [("h", Source::device(&h))];
    layer.run(NamedArgs(&h), &[1; 4][..n])?.into_out().take("h")
}

const X: IoSchema = IoSchema::device("x", Elem::F32, 1, "[bs]");
const Y: IoSchema = IoSchema::device("y", Elem::F32, 1, "[bs]");
static STEP: Schema = Schema::new("chain", "step", "batch_sizes = [4]", &[X], &[H]);
static FORWARDS: [Forward; 1] =
    [Forward::new(Schema::new("chain", "forward_batched", "", &[H], &[Y]), &["decode"])];

struct Chain<B>(PhantomData<B>);

impl<B: SuiteOps> Chain<B> {
    const ON: &'static [On] = &[On::node::<B, Chain<B>>()];
    const ENTRY: &'static NodeEntry = &NodeEntry { name: "chain", forwards: &FORWARDS, at: AT, on: Self::ON };
}

impl<B: SuiteOps> Node<B> for Chain<B> {
    type Submodule = NoModel;
    fn configs(_: &NoModel) -> Vec<Box<dyn CudaGraphConfig>> {
        vec![Box::new(BatchedCudaGraphConfig::new("decode", NodeInputs::new(1)).capture_batch_sizes([4]))]
    }
    fn make_static_inputs(_: &NoModel, _: &str, shape: &Shape, s: &mut Statics) {
        s.wired_input("h", [shape.bs], Wire { name: "h", index: 0 }).output("y", [shape.bs]);
    }
    fn bind(_: Arc<NoModel>, _: &mut BindCx<'_, B>) -> Result<Self> {
        Ok(Chain(PhantomData))
    }
    fn forward(&mut self, _: &str, cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>) -> Result<()> {
        call.outputs.get::<f32, 1>("y")?.copy_from(cx.stream(), call.inputs.get("h")?)
    }
}

/// Region `chain.step` copies `x` to a wire, and the walk `decode` copies the wire to `y`; both for 4 requests.
pub(crate) fn chain<B: SuiteOps>(
    bench: &Bench<B>,
    options: CaptureOptions,
) -> Result<(Engine<B>, ByHand<B>)> {
    let make = || {
        let config = PiecewiseBatchedConfig::new(1).capture_batch_sizes([4]);
        let statics = |shape: &Shape, s: &mut Statics| {
            s.input("x", [shape.bs]).wired_output("h", [shape.bs], Wire { name: "h", index: 0 });
        };
        vec![HandWritten::new(&STEP, config, statics, |cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>| {
            call.outputs.get::<f32, 1>("h")?.copy_from(cx.stream(), call.inputs.get("x")?)
        })]
    };
    let node = Some(Chain::<B>::ENTRY);
    let mut engine = with_regions(bench.device()?, &STEP, make, node, |b| b.capture_options(options))?;
    let step = engine.runners().take_named("chain.step")?.remove(0);
    Ok((engine, step))
}
