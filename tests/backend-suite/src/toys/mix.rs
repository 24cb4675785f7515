//! A region with every kind of input, and a node with a whole forward: what most cases run.

use std::{marker::PhantomData, sync::Arc};

use graph_core::{
    BatchedCudaGraphConfig, BindCx, CallInputs, CaptureOptions, CudaGraphConfig, Cx, Elem, Element, Engine,
    EngineBuilder, Forward, HandWritten, HostTensor, In, IoSchema, NamedArgs, NoModel, Node, NodeCall,
    NodeEntry, NodeInputs, On, Outcome, Pad, PiecewiseBatchedConfig, Result, Schema, Shape, Source, Statics,
    Tensor, WholeOutcome,
};

use super::region::{AT, ByHand, with_regions};
use crate::{Bench, SuiteOps};

type Act<B> = dyn Fn(&mut Cx<'_, B>) -> Result<()> + Send + Sync;

/// What the region does besides its numbers.
pub(crate) struct Script<B: SuiteOps> {
    /// Runs at the start of every forward.
    pub(crate) act: Option<Arc<Act<B>>>,
    /// Where every forward copies its inputs.
    pub(crate) seen: Option<Seen<B>>,
}

/// Copies of the static inputs, flat, padding included.
pub(crate) struct Seen<B: SuiteOps> {
    pub(crate) ids: Tensor<B, i32, 1>,
    pub(crate) rope: Tensor<B, i32, 1>,
    pub(crate) scale: Tensor<B, f32, 1>,
    pub(crate) x: Tensor<B, f32, 1>,
    pub(crate) m: Tensor<B, i32, 1>,
    pub(crate) z: Tensor<B, f32, 1>,
}

impl<B: SuiteOps> Default for Script<B> {
    fn default() -> Self {
        Script { act: None, seen: None }
    }
}

/// The sizes that are captured.
const SIZES: [usize; 4] = [1, 2, 4, 8];
const LARGEST: usize = 8;

static MIX: Schema = Schema::new(
    "toy",
    "mix",
    "batched(seq_len = 1), batch_sizes = [1, 2, 4, 8]",
    &[
        IoSchema::host("ids", Elem::I32, 1, "[bs]").pad(Pad::RepeatLast),
        IoSchema::host("rope", Elem::I32, 2, "[3, bs]").axis(1).pad(Pad::i32(-1)),
        IoSchema::host("scale", Elem::F32, 1, "[bs]"),
        IoSchema::device("x", Elem::F32, 2, "[bs, 2]").pad(Pad::f32(0.5)),
        IoSchema::device("m", Elem::I32, 1, "[bs]").pad(Pad::RepeatLast),
        IoSchema::device("z", Elem::F32, 1, "[bs]"),
    ],
    &[IoSchema::device("y", Elem::F32, 2, "[bs, 2]")],
);

fn statics(shape: &Shape, s: &mut Statics) {
    let n = shape.bs;
    s.input("ids", [n]).input("rope", [3, n]).input("scale", [n]);
    s.input("x", [n, 2]).input("m", [n]).input("z", [n]).output("y", [n, 2]);
}

fn copy<B: SuiteOps, T: Element, const R: usize>(
    stream: &B::Stream,
    from: In<'_, B, T, R>,
    to: &Tensor<B, T, 1>,
) -> Result<()> {
    let (from_at, to) = ((from.buffer(), from.offset()), to.view());
    B::copy(stream, from_at, (to.buffer(), to.offset()), from.len() * size_of::<T>())
}

fn mix<B: SuiteOps>(script: &Script<B>, cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>) -> Result<()> {
    script.act.as_ref().map_or(Ok(()), |act| act(cx))?;
    let (s, inputs) = (cx.stream(), call.inputs);
    let (ids, rope, scale) = (inputs.get("ids")?, inputs.get("rope")?, inputs.get("scale")?);
    let (x, m, z) = (inputs.get("x")?, inputs.get("m")?, inputs.get("z")?);
    let sum = cx.scratch::<f32, 1>([cx.dims().bs])?;
    B::add_up(s, ids, rope, m, z, sum.view_mut())?;
    B::spread(s, x, scale, sum.view(), call.outputs.get("y")?)?;
    let Some(seen) = &script.seen else { return Ok(()) };
    copy(s, ids, &seen.ids)?;
    copy(s, rope, &seen.rope)?;
    copy(s, scale, &seen.scale)?;
    copy(s, x, &seen.x)?;
    copy(s, m, &seen.m)?;
    copy(s, z, &seen.z)
}

static FORWARDS: [Forward; 1] = [Forward::new(
    Schema::new(
        "toy",
        "forward_batched",
        "",
        &[IoSchema::host("x", Elem::F32, 1, "[bs]").pad(Pad::RepeatLast)],
        &[IoSchema::device("y", Elem::F32, 1, "[bs]")],
    ),
    &["decode"],
)];

/// `y = 3 x + 1`, captured for 2 and 4 requests.
struct Line<B>(PhantomData<B>);

impl<B: SuiteOps> Line<B> {
    const ON: &'static [On] = &[On::node::<B, Line<B>>()];
    const ENTRY: &'static NodeEntry = &NodeEntry { name: "toy", forwards: &FORWARDS, at: AT, on: Self::ON };
}

impl<B: SuiteOps> Node<B> for Line<B> {
    type Submodule = NoModel;
    fn configs(_: &NoModel) -> Vec<Box<dyn CudaGraphConfig>> {
        vec![Box::new(BatchedCudaGraphConfig::new("decode", NodeInputs::new(1)).capture_batch_sizes([2, 4]))]
    }
    fn make_static_inputs(_: &NoModel, _: &str, shape: &Shape, statics: &mut Statics) {
        statics.input("x", [shape.bs]).output("y", [shape.bs]);
    }
    fn bind(_: Arc<NoModel>, _: &mut BindCx<'_, B>) -> Result<Self> {
        Ok(Line(PhantomData))
    }
    fn forward(&mut self, _: &str, cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>) -> Result<()> {
        B::affine(cx.stream(), call.inputs.get("x")?, 3.0, 1.0, call.outputs.get("y")?)
    }
}

/// An engine of the region and the node, and inputs for them.
pub(crate) struct Rig<B: SuiteOps> {
    pub(crate) engine: Engine<B>,
    pub(crate) mix: ByHand<B>,
    pub(crate) inputs: Inputs<B>,
    script: Arc<Script<B>>,
}

impl<B: SuiteOps> Rig<B> {
    pub(crate) fn new(bench: &Bench<B>, options: CaptureOptions) -> Result<Self> {
        Self::on(bench.device()?, Script::default(), |b| b.capture_options(options))
    }

    /// With an act of its forwards.
    pub(crate) fn acting(
        bench: &Bench<B>,
        act: impl Fn(&mut Cx<'_, B>) -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        let script = Script { act: Some(Arc::new(act)), ..Script::default() };
        Self::on(bench.device()?, script, |b| b)
    }

    /// Whose forwards tell what they see.
    pub(crate) fn seeing(bench: &Bench<B>) -> Result<Self> {
        let device = bench.device()?;
        let seen = Seen {
            ids: Tensor::alloc(&device, [LARGEST])?,
            rope: Tensor::alloc(&device, [3 * LARGEST])?,
            scale: Tensor::alloc(&device, [LARGEST])?,
            x: Tensor::alloc(&device, [2 * LARGEST])?,
            m: Tensor::alloc(&device, [LARGEST])?,
            z: Tensor::alloc(&device, [LARGEST])?,
        };
        Self::on(device, Script { seen: Some(seen), ..Script::default() }, |b| b)
    }

    pub(crate) fn on<'b>(
        device: B,
        script: Script<B>,
        change: impl FnOnce(EngineBuilder<'b, B>) -> EngineBuilder<'b, B>,
    ) -> Result<Self> {
        let script = Arc::new(script);
        let shared = script.clone();
        let make = move || {
            let script = shared.clone();
            let config = PiecewiseBatchedConfig::new(1).capture_batch_sizes(SIZES);
            vec![HandWritten::new(&MIX, config, statics, move |cx, call| mix(&script, cx, call))]
        };
        let mut engine = with_regions(device, &MIX, make, Some(Line::<B>::ENTRY), change)?;
        let mix = engine.runners().take_named("toy.mix")?.remove(0);
        let inputs = Inputs::new(engine.device(), engine.stream())?;
        Ok(Rig { engine, mix, inputs, script })
    }

    pub(crate) fn stream(&self) -> B::Stream {
        self.engine.stream().clone()
    }

    /// One call of `n` requests.
    pub(crate) fn run(&mut self, n: usize) -> Result<Vec<f32>> {
        let stream = self.stream();
        self.inputs.run(&mut self.mix, n)?.into_out().take::<f32, 2>("y")?.to_vec(&stream)
    }

    /// The batch sizes that were captured, in order.
    pub(crate) fn batch_sizes(&self) -> Vec<usize> {
        self.mix.stats().buckets.iter().map(|b| b.dims.bs).collect()
    }

    /// The failed captures, as text.
    pub(crate) fn failures(&self) -> Vec<String> {
        self.mix.stats().failures.iter().map(|failure| failure.to_string()).collect()
    }

    /// One call of the node's walk: whether it was eager, and `y`.
    pub(crate) fn decode(&mut self, walk: &str, x: &[f32]) -> Result<(bool, Vec<f32>)> {
        let (stream, seq_lens) = (self.stream(), vec![1; x.len()]);
        let inputs = [("x", Source::host(&x))];
        let call = NodeCall { requests: &[], seq_lens: &seq_lens, inputs: &inputs, slot: 0 };
        let outcome = self.engine.node("toy")?.run(walk, &call)?;
        let eager = matches!(outcome, WholeOutcome::Eager { .. });
        Ok((eager, outcome.into_out().take::<f32, 1>("y")?.to_vec(&stream)?))
    }

    /// The first elements of an input, as the last forward saw it.
    pub(crate) fn seen<T: Element>(
        &self,
        input: fn(&Seen<B>) -> &Tensor<B, T, 1>,
        len: usize,
    ) -> Result<Vec<T>> {
        let seen = self.script.seen.as_ref().expect("a rig whose forwards tell");
        input(seen).view().rows(0..len)?.to_vec(self.engine.stream())
    }
}

/// The inputs of a call, of up to ten requests.
pub(crate) struct Inputs<B: SuiteOps> {
    pub(crate) ids: Vec<i32>,
    pub(crate) rope: Vec<i32>,
    pub(crate) scale: Vec<f32>,
    pub(crate) x: Tensor<B, f32, 2>,
    pub(crate) m: Tensor<B, i32, 1>,
    pub(crate) z: Tensor<B, f32, 1>,
}

const MOST: usize = 10;

impl<B: SuiteOps> Inputs<B> {
    pub(crate) fn new(device: &B, stream: &B::Stream) -> Result<Self> {
        let floats = |from: f32, n: usize| (0..n).map(|i| from + i as f32).collect::<Vec<_>>();
        let m: Vec<i32> = (0..MOST as i32).map(|i| 1000 * i).collect();
        Ok(Inputs {
            ids: (1..=MOST as i32).collect(),
            rope: (0..3 * MOST as i32).map(|i| 100 + i).collect(),
            scale: floats(2.0, MOST),
            x: Tensor::from_slice(device, stream, &floats(10.0, 2 * MOST), [MOST, 2])?,
            m: Tensor::from_slice(device, stream, &m, [MOST])?,
            z: Tensor::from_slice(device, stream, &floats(0.25, MOST), [MOST])?,
        })
    }

    pub(crate) fn run<'r>(&self, mix: &'r mut ByHand<B>, n: usize) -> Result<Outcome<'r, HandWritten<B>>> {
        let rope = HostTensor::new(&self.rope[..3 * n], [3, n])?;
        let (ids, scale) = (&self.ids[..n], &self.scale[..n]);
        let (x, m, z) = (self.x.view().rows(0..n)?, self.m.view().rows(0..n)?, self.z.view().rows(0..n)?);
        let args = [
            ("ids", Source::host(&ids)),
            ("rope", Source::host(&rope)),
            ("scale", Source::host(&scale)),
            ("x", Source::device(&x)),
            ("m", Source::device(&m)),
            ("z", Source::device(&z)),
        ];
        mix.run(NamedArgs(&args), &[1; MOST][..n])
    }

    /// What a call of `n` must give: the same arithmetic, in a plain loop.
    pub(crate) fn want(&self, n: usize) -> Vec<f32> {
        let mut want = Vec::new();
        for t in 0..n {
            let sum = self.ids[t] + self.rope[t] + self.rope[n + t] + self.rope[2 * n + t] + 1000 * t as i32;
            let sum = sum as f32 + 0.25 + t as f32;
            let x = [10.0 + 2.0 * t as f32, 11.0 + 2.0 * t as f32];
            want.extend([x[0] * self.scale[t] + sum, x[1] * self.scale[t] - sum]);
        }
        want
    }
}
