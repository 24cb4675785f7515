//! A toy plugin written by hand: one region with every kind of input, and a node with a whole forward.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use graph_core::{
    BatchedCudaGraphConfig, BindCx, CallInputs, CaptureOptions, CudaGraphConfig, Cx, Elem, Engine,
    EngineBuilder, Forward, HandWritten, HandWrittenTable, HostTensor, IoSchema, Loader, Location, NamedArgs,
    NamedResults, NoModel, Node, NodeEntry, NodeInputs, On, Options, Outcome, Pad, PiecewiseBatchedConfig,
    RegionEntry, Registry, Result, Runner, Schema, Shape, Source, Statics, Tensor,
};
use graph_host::{Host, Stream};

pub(crate) type Mix = Runner<HandWritten<Host>>;
type Hook = dyn Fn(&mut Cx<'_, Host>) -> Result<()> + Send + Sync;

/// What the region does besides its numbers.
#[derive(Default)]
pub(crate) struct Script {
    /// Runs at the start of every forward.
    pub(crate) act: Mutex<Option<Arc<Hook>>>,
    /// The kernel panics when it meets an id of this value; 0 for never.
    pub(crate) panic_at: AtomicUsize,
}

pub(crate) struct Shared(pub(crate) Arc<Script>);

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

fn mix(script: &Arc<Script>, cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
    let act = script.act.lock().unwrap().clone();
    act.map_or(Ok(()), |act| act(cx))?;
    let x = call.inputs;
    let reads =
        (x.get::<i32, 1>("ids")?, x.get::<i32, 2>("rope")?, x.get::<i32, 1>("m")?, x.get::<f32, 1>("z")?);
    let script = script.clone();
    let sum = cx.scratch::<f32, 1>([cx.dims().bs])?;
    cx.stream().kernel("sum", reads, (sum.view_mut(),), move |(ids, rope, m, z), (sum,)| {
        let n = ids.len();
        let at = script.panic_at.load(Ordering::Relaxed) as i32;
        assert!(at == 0 || !ids.contains(&at), "met id {at}");
        for t in 0..n {
            sum[t] = (ids[t] + rope[t] + rope[n + t] + rope[2 * n + t] + m[t]) as f32 + z[t];
        }
    })?;
    let reads = (x.get::<f32, 2>("x")?, x.get::<f32, 1>("scale")?, sum.view());
    cx.stream().kernel("mix", reads, (call.outputs.get::<f32, 2>("y")?,), |(x, scale, sum), (y,)| {
        for (t, (y, x)) in y.chunks_mut(2).zip(x.chunks(2)).enumerate() {
            y[0] = x[0] * scale[t] + sum[t];
            y[1] = x[1] * scale[t] - sum[t];
        }
    })
}

fn regions(loader: &mut Loader<'_, Host>) -> Result<Vec<HandWritten<Host>>> {
    let script = loader.options().get::<Shared>().expect("a script").0.clone();
    let config = PiecewiseBatchedConfig::new(1).capture_batch_sizes([1, 2, 4, 8]);
    Ok(vec![HandWritten::new(&MIX, config, statics, move |cx, call| mix(&script, cx, call))])
}
static REGIONS: HandWrittenTable<Host> = HandWrittenTable(regions);

static FORWARDS: [Forward; 1] = [Forward::new(
    Schema::new(
        "toy",
        "forward_batched",
        "",
        &[IoSchema::host("ids", Elem::I32, 1, "[bs]").pad(Pad::RepeatLast)],
        &[IoSchema::device("square", Elem::I32, 1, "[bs]")],
    ),
    &["decode"],
)];

pub(crate) struct Toy;

impl Node<Host> for Toy {
    type Submodule = NoModel;
    fn configs(_: &NoModel) -> Vec<Box<dyn CudaGraphConfig>> {
        vec![Box::new(BatchedCudaGraphConfig::new("decode", NodeInputs::new(1)).capture_batch_sizes([2, 4]))]
    }
    fn make_static_inputs(_: &NoModel, _: &str, shape: &Shape, statics: &mut Statics) {
        statics.input("ids", [shape.bs]).output("square", [shape.bs]);
    }
    fn bind(_: Arc<NoModel>, _: &mut BindCx<'_, Host>) -> Result<Self> {
        Ok(Toy)
    }
    fn forward(&mut self, _: &str, cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
        let (ids, out) = (call.inputs.get::<i32, 1>("ids")?, call.outputs.get::<i32, 1>("square")?);
        cx.stream().kernel("square", (ids,), (out,), |(ids,), (out,)| {
            out.iter_mut().zip(ids).for_each(|(out, id)| *out = id * id);
        })
    }
}

pub(crate) fn registry() -> Registry {
    static ON: [On; 1] = [On::hand_written(&REGIONS)];
    static NODE_ON: [On; 1] = [On::node::<Host, Toy>()];
    static AT: Location = Location { krate: "toy", file: "toy.rs", line: 1 };
    static REGION: RegionEntry = RegionEntry { schema: &MIX, at: AT, on: &ON };
    static NODE: NodeEntry = NodeEntry { name: "toy", forwards: &FORWARDS, at: AT, on: &NODE_ON };
    Registry::from_entries(vec![&REGION], vec![&NODE], vec![]).unwrap()
}

/// A device, a script, and an engine over them.
pub(crate) struct Rig {
    pub(crate) host: Host,
    pub(crate) engine: Engine<Host>,
    pub(crate) mix: Mix,
    pub(crate) inputs: Inputs,
}

impl Rig {
    pub(crate) fn new(options: CaptureOptions) -> Self {
        Self::scripted(Host::new(), Arc::default(), |b| b.capture_options(options)).unwrap()
    }

    pub(crate) fn scripted<'b>(
        host: Host,
        script: Arc<Script>,
        change: impl FnOnce(EngineBuilder<'b, Host>) -> EngineBuilder<'b, Host>,
    ) -> Result<Self> {
        let options = Options::default().with(Shared(script));
        let builder = change(Engine::builder(host.clone()).options(options));
        let mut engine = builder.build(&registry())?;
        let mut mix = engine.runners().take_named("toy.mix")?;
        let inputs = Inputs::new(&host, engine.stream())?;
        Ok(Rig { host, mix: mix.pop().expect("one instance"), engine, inputs })
    }

    pub(crate) fn stream(&self) -> Stream {
        self.engine.stream().clone()
    }

    /// One call of `n` requests; panics where it fails.
    pub(crate) fn run(&mut self, n: usize) -> Vec<f32> {
        let stream = self.stream();
        y(self.inputs.run(&mut self.mix, n).unwrap().into_out(), &stream).unwrap()
    }
}

/// The inputs of a call, of up to ten requests.
pub(crate) struct Inputs {
    pub(crate) ids: Vec<i32>,
    pub(crate) rope: Vec<i32>,
    pub(crate) scale: Vec<f32>,
    pub(crate) x: Tensor<Host, f32, 2>,
    pub(crate) m: Tensor<Host, i32, 1>,
    pub(crate) z: Tensor<Host, f32, 1>,
}

const MOST: usize = 10;

impl Inputs {
    pub(crate) fn new(host: &Host, stream: &Stream) -> Result<Self> {
        let floats = |from: f32, n: usize| (0..n).map(|i| from + i as f32).collect::<Vec<_>>();
        Ok(Inputs {
            ids: (1..=MOST as i32).collect(),
            rope: (0..3 * MOST as i32).map(|i| 100 + i).collect(),
            scale: floats(2.0, MOST),
            x: Tensor::from_slice(host, stream, &floats(10.0, 2 * MOST), [MOST, 2])?,
            m: Tensor::from_slice(
                host,
                stream,
                &(0..MOST as i32).map(|i| 1000 * i).collect::<Vec<_>>(),
                [MOST],
            )?,
            z: Tensor::from_slice(host, stream, &floats(0.25, MOST), [MOST])?,
        })
    }

    pub(crate) fn run<'r>(&self, mix: &'r mut Mix, n: usize) -> Result<Outcome<'r, HandWritten<Host>>> {
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

/// Takes output `y` of a call.
pub(crate) fn y(mut results: NamedResults<'_, Host>, stream: &Stream) -> Result<Vec<f32>> {
    results.take::<f32, 2>("y")?.to_vec(stream)
}
