//! Capture and replay through graph-core, over the stand-in driver: padding, numbers, calls.

mod support;

use graph_core::{
    Cx, Elem, Engine, HandWritten, HandWrittenTable, In, IoSchema, Location, NamedArgs, On, Out, Outcome,
    Pad, PiecewiseBatchedConfig, RegionEntry, Registry, Result, Schema, Shape, Source, Statics, Tensor,
};
use graph_cuda::{Arg, Cuda, Function, Kernel, KernelSource};

static SOURCE: KernelSource = KernelSource {
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

fn mix(mix: &Function, cx: &Cx<'_, Cuda>, y: Out<'_, Cuda, f32, 2>, x: View<'_>, w: View<'_>) -> Result<()> {
    let n = x.len() as u32;
    let launch = mix.on(cx.stream()).grid([n.div_ceil(64), 1, 1]).block([64, 1, 1]);
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
        PiecewiseBatchedConfig::new(1).capture_batch_sizes([1, 2, 4, 8]),
        |shape: &Shape, statics: &mut Statics| {
            statics.input("x", [shape.bs, 3]).input("w", [shape.bs, 3]).output("y", [shape.bs, 3]);
        },
        move |cx, call| {
            mix(&kernel, cx, call.outputs.get("y")?, call.inputs.get("x")?, call.inputs.get("w")?)
        },
    )])
});

static ENTRY: RegionEntry = RegionEntry {
    schema: &SCHEMA,
    at: Location { krate: "end_to_end", file: file!(), line: line!() },
    on: &[On::hand_written(&TABLE)],
};

fn run(
    rows: usize,
    runner: &mut graph_core::Runner<HandWritten<Cuda>>,
    device: &Cuda,
    engine_stream: &graph_cuda::Stream,
) -> (bool, Vec<f32>) {
    let x: Vec<f32> = (0..3 * rows).map(|i| i as f32).collect();
    let w: Vec<f32> = x.iter().map(|x| 100.0 * x).collect();
    let w = Tensor::<Cuda, f32, 2>::from_slice(device, engine_stream, &w, [rows, 3]).unwrap();
    let x = graph_core::HostTensor::new(&x, [rows, 3]).unwrap();
    let w = w.view();
    let args = [("x", Source::host(&x)), ("w", Source::device(&w))];
    let outcome = runner.run(NamedArgs(&args), &vec![1; rows]).unwrap();
    let replayed = matches!(outcome, Outcome::Replayed(_));
    let y = outcome.into_out().take::<f32, 2>("y").unwrap();
    assert_eq!(y.dims(), [rows, 3]);
    (replayed, y.to_vec(engine_stream).unwrap())
}

#[test]
fn a_region_replays_with_padding_and_falls_back_to_eager() {
    let Some(session) = support::session("a_region_replays_with_padding_and_falls_back_to_eager") else {
        return;
    };
    let registry = Registry::from_entries(vec![&ENTRY], vec![], vec![]).unwrap();
    let mut engine = Engine::builder(support::open().unwrap()).build(&registry).unwrap();
    let stats = engine.stats();
    assert!(stats[0].failures.is_empty(), "{:?}", stats[0].failures);
    assert_eq!(stats[0].buckets.len(), 4);
    assert_eq!(stats[0].buckets[0].operations, 4, "upload_block, pad_rows, mix, signal");
    let (device, stream) = (engine.device().clone(), engine.stream().clone());
    let mut runner = engine.runners().take_named::<HandWritten<Cuda>>("toy.mix").unwrap().remove(0);
    for rows in [8, 1, 3, 5, 2, 8, 7] {
        let want: Vec<f32> = (0..3 * rows).map(|i| 102.0 * i as f32).collect();
        assert_eq!(run(rows, &mut runner, &device, &stream), (true, want), "{rows} rows");
    }
    let want: Vec<f32> = (0..27).map(|i| 102.0 * i as f32).collect();
    assert_eq!(run(9, &mut runner, &device, &stream), (false, want));
    drop((runner, engine, device, stream));
    assert!(session.live().is_zero(), "{:?}", session.live());
    assert!(session.faults().is_empty(), "{:?}", session.faults());
    assert!(graph_cuda::lost().is_empty());
}
