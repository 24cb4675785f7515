//! A node driven by graph-core's engine: one walk captured as a whole, the other eager with a captured region inside.

use std::sync::Arc;

use super::*;
use graph_core::{
    BatchedCudaGraphConfig, BindCx, CallInputs, CudaGraphConfig, Cx, Elem, Engine, Forward, HandWritten,
    HandWrittenTable, HostTensor, IoSchema, LoadCx, Location, NamedArgs, Node, NodeCall, NodeEntry,
    NodeInputs, On, Pad, PiecewiseBatchedConfig, RegionEntry, Registry, Runner, Schema, Shape, Source,
    Statics, Submodule,
};
use graph_cuda::Function;

const X: IoSchema = IoSchema::host("x", Elem::F32, 2, "[bs, 2]").pad(Pad::f32(5.0));
const Y: IoSchema = IoSchema::device("y", Elem::F32, 2, "[bs, 2]");

fn sizes(shape: &Shape, statics: &mut Statics) {
    statics.input("x", [shape.bs, 2]).output("y", [shape.bs, 2]);
}

/// The model: a kernel and a weight for each column.
struct Model {
    mix: Function,
    w: Tensor<Cuda, f32, 2>,
}

impl Model {
    /// `y = 2 x + w`, row by row.
    fn forward(&self, cx: &Cx<'_, Cuda>, call: &CallInputs<'_, Cuda>) -> Result<()> {
        let (x, y) = (call.inputs.get::<f32, 2>("x")?, call.outputs.get::<f32, 2>("y")?);
        for row in 0..x.dims()[0] {
            let rows = row..row + 1;
            toy::mix(&self.mix, cx.stream(), y.rows(rows.clone())?, x.rows(rows)?, self.w.view())?;
        }
        Ok(())
    }
}

impl Submodule<Cuda> for Model {
    fn load(cx: &LoadCx<'_, Cuda>) -> Result<Self> {
        let w = Tensor::from_slice(cx.device, cx.stream, &[10.0, 20.0], [1, 2])?;
        Ok(Model { mix: cx.device.load(&toy::SOURCE)?.function("mix")?, w })
    }
}

static INNER: Schema = Schema::new("columns", "inner", "batched(seq_len = 1)", &[X], &[Y]);
static INNER_TABLE: HandWrittenTable<Cuda> = HandWrittenTable(|loader| {
    let model = loader.submodule::<Model>("columns")?;
    let config = PiecewiseBatchedConfig::new(1).capture_batch_sizes([2, 4]);
    Ok(vec![HandWritten::new(&INNER, config, sizes, move |cx: &mut Cx<'_, Cuda>, call| {
        model.forward(cx, call)
    })])
});
static INNER_ENTRY: RegionEntry = RegionEntry {
    schema: &INNER,
    at: Location { krate: "graph-cuda", file: file!(), line: line!() },
    on: &[On::hand_written(&INNER_TABLE)],
};

struct Columns {
    model: Arc<Model>,
    inner: Runner<HandWritten<Cuda>>,
}

const FORWARDS: &[Forward] = &[
    Forward::new(Schema::new("columns", "forward_batched", "", &[X], &[Y]), &["decode"]),
    Forward::new(Schema::new("columns", "forward_eager", "", &[X], &[Y]), &["prefill"]),
];

impl Node<Cuda> for Columns {
    type Submodule = Model;
    fn configs(_: &Model) -> Vec<Box<dyn CudaGraphConfig>> {
        let row = NodeInputs::new(1).with("x", &[0.0_f32, 0.0]);
        vec![Box::new(BatchedCudaGraphConfig::new("decode", row).capture_batch_sizes([1, 2, 4]))]
    }
    fn make_static_inputs(_: &Model, _: &str, shape: &Shape, statics: &mut Statics) {
        sizes(shape, statics);
    }
    fn bind(model: Arc<Model>, cx: &mut BindCx<'_, Cuda>) -> Result<Self> {
        Ok(Columns { model, inner: cx.runners.take_named("columns.inner")?.remove(0) })
    }
    fn forward(&mut self, forward: &str, cx: &mut Cx<'_, Cuda>, call: &CallInputs<'_, Cuda>) -> Result<()> {
        if forward == "forward_batched" {
            return self.model.forward(cx, call);
        }
        let x = call.inputs.host::<f32>("x")?;
        let rows = cx.dims().bs;
        let (x, lens) = (HostTensor::new(x, [rows, 2])?, vec![1; rows]);
        let out = self.inner.run(NamedArgs(&[("x", Source::host(&x))]), &lens)?;
        assert!(out.reason().is_none(), "the region is replayed");
        let inner = out.into_out().take::<f32, 2>("y")?;
        call.outputs.get::<f32, 2>("y")?.copy_from(cx.stream(), inner.view())
    }
}

static NODE: NodeEntry = NodeEntry {
    name: "columns",
    forwards: FORWARDS,
    at: Location { krate: "graph-cuda", file: file!(), line: line!() },
    on: &[On::node::<Cuda, Columns>()],
};

#[test]
fn a_node_replays_its_whole_forward_and_runs_its_region_inside_an_eager_one() {
    let test = "a_node_replays_its_whole_forward_and_runs_its_region_inside_an_eager_one";
    let Some(session) = support::session(test) else { return };
    let registry = Registry::from_entries(vec![&INNER_ENTRY], vec![&NODE], vec![]).unwrap();
    let mut engine = Engine::builder(support::open().unwrap()).build(&registry).unwrap();
    for stats in engine.stats() {
        assert!(stats.failures.is_empty(), "{:?}", stats.failures);
    }
    let stream = engine.stream().clone();
    let node = engine.node("columns").unwrap();
    for (walk, rows, replayed) in [
        ("decode", 3, true),
        ("decode", 1, true),
        ("prefill", 3, false),
        ("decode", 5, false),
        ("decode", 4, true),
    ] {
        let data: Vec<f32> = (0..2 * rows).map(|i| i as f32).collect();
        let want: Vec<f32> = data.iter().enumerate().map(|(i, x)| 2.0 * x + [10.0, 20.0][i % 2]).collect();
        let x = HostTensor::new(&data, [rows, 2]).unwrap();
        let call =
            NodeCall { requests: &[], seq_lens: &vec![1; rows], inputs: &[("x", Source::host(&x))], slot: 0 };
        let outcome = node.run(walk, &call).unwrap();
        assert_eq!(outcome.reason().is_none(), replayed, "{walk} of {rows}");
        let y = outcome.into_out().take::<f32, 2>("y").unwrap();
        assert_eq!(y.to_vec(&stream).unwrap(), want, "{walk} of {rows}");
    }
    drop((engine, stream));
    nothing_left(&session);
}
