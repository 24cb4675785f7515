//! A region of two inputs, `y = 2 x + w`: `x` from the host, padded with a value, `w` on the device, padded with its last
//! row.

use graph_core::{
    Cx, Elem, Engine, HandWritten, HandWrittenTable, HostTensor, In, IoSchema, Location, NamedArgs, On, Out,
    Outcome, Pad, PiecewiseBatchedConfig, RegionEntry, Registry, Result, Runner, Schema, Shape, Source,
    Statics, Tensor,
};
use graph_cuda::{Arg, Cuda, Function, Kernel, KernelSource, Stream};

pub(crate) static SOURCE: KernelSource = KernelSource {
    name: "mix.cu",
    text: r#"
        // y = 2 x + w over n elements.
        extern "C" __global__ void mix(float* y, const float* x, const float* w, unsigned int n) {
            unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = 2.0f * x[i] + w[i];
        }
    "#,
    headers: &[],
    options: &[],
    kernels: &[Kernel::new("mix", &[Arg::Out(Elem::F32), Arg::In(Elem::F32), Arg::In(Elem::F32), Arg::U32])],
};

type View<'a> = In<'a, Cuda, f32, 2>;

pub(crate) fn mix(
    kernel: &Function,
    stream: &Stream,
    y: Out<'_, Cuda, f32, 2>,
    x: View<'_>,
    w: View<'_>,
) -> Result<()> {
    let n = x.len() as u32;
    let launch = kernel.on(stream).grid([n.div_ceil(64), 1, 1]).block([64, 1, 1]);
    // SAFETY: the kernel touches `n` elements of each view, which is what each has.
    unsafe { launch.arg(y).arg(x).arg(w).arg(n).launch() }
}

static SCHEMA: Schema = Schema::new(
    "toy",
    "mix",
    "batched(seq_len = 1)",
    &[
        IoSchema::host("x", Elem::F32, 2, "[bs, 3]").pad(Pad::f32(7.0)),
        IoSchema::device("w", Elem::F32, 2, "[bs, 3]").pad(Pad::RepeatLast),
    ],
    &[IoSchema::device("y", Elem::F32, 2, "[bs, 3]")],
);

static TABLE: HandWrittenTable<Cuda> = HandWrittenTable(|loader| {
    let kernel = loader.device().load(&SOURCE)?.function("mix")?;
    Ok(vec![HandWritten::new(
        &SCHEMA,
        PiecewiseBatchedConfig::new(1).capture_batch_sizes([1, 2, 3, 4, 6, 8]),
        |shape: &Shape, statics: &mut Statics| {
            statics.input("x", [shape.bs, 3]).input("w", [shape.bs, 3]).output("y", [shape.bs, 3]);
        },
        move |cx: &mut Cx<'_, Cuda>, call| {
            let (y, x, w) = (call.outputs.get("y")?, call.inputs.get("x")?, call.inputs.get("w")?);
            mix(&kernel, cx.stream(), y, x, w)
        },
    )])
});

static ENTRY: RegionEntry = RegionEntry {
    schema: &SCHEMA,
    at: Location { krate: "graph-cuda", file: file!(), line: line!() },
    on: &[On::hand_written(&TABLE)],
};

pub(crate) type Mix = Runner<HandWritten<Cuda>>;

/// Captures six buckets.
pub(crate) fn build(device: Cuda) -> Result<(Engine<Cuda>, Mix)> {
    let registry = Registry::from_entries(vec![&ENTRY], vec![], vec![])?;
    let mut engine = Engine::builder(device).build(&registry)?;
    let runner = engine.runners().take_named("toy.mix")?.remove(0);
    Ok((engine, runner))
}

/// What `run` gives for that many rows.
pub(crate) fn expected(rows: usize) -> Vec<f32> {
    (0..3 * rows).map(|i| 102.0 * i as f32).collect()
}

/// One call: whether it was a replay, and the numbers.
pub(crate) fn run(engine: &Engine<Cuda>, runner: &mut Mix, rows: usize) -> Result<(bool, Vec<f32>)> {
    let (device, stream) = (engine.device(), engine.stream());
    let x: Vec<f32> = (0..3 * rows).map(|i| i as f32).collect();
    let w: Vec<f32> = x.iter().map(|x| 100.0 * x).collect();
    let w = Tensor::<Cuda, f32, 2>::from_slice(device, stream, &w, [rows, 3])?;
    let (x, w) = (HostTensor::new(&x, [rows, 3])?, w.view());
    let args = [("x", Source::host(&x)), ("w", Source::device(&w))];
    let outcome = runner.run(NamedArgs(&args), &vec![1; rows])?;
    let replayed = matches!(outcome, Outcome::Replayed(_));
    let y = outcome.into_out().take::<f32, 2>("y")?;
    assert_eq!(y.dims(), [rows, 3]);
    Ok((replayed, y.to_vec(stream)?))
}
