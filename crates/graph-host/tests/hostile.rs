//! Code that lies to graph-core through its safe interface: an error each time, no panic, nothing overwritten.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use graph_core::{
    AnyView, Args, Backend, BatchedCudaGraphConfig, BindCx, CallInputs, CaptureOptions, CudaGraphConfig, Cx,
    Dims, Elem, Engine, ErrorKind, Forward, HandWritten, HandWrittenTable, HostInput, HostTensor, IoSchema,
    Loader, Location, Miss, Mode, NamedArgs, NoModel, Node, NodeCall, NodeEntry, NodeInputs, On, OutTensor,
    PiecewiseBatchedConfig, PiecewiseCudaGraphConfig, PiecewisePackedConfig, RawOut, Region, RegionEntry,
    RegionSpec, Registry, Result, Runner, Schema, Shape, Source, Statics, Tensor, Wire,
};
use graph_host::Host;

const AT: Location = Location { krate: "hostile", file: "hostile.rs", line: 1 };
const F1: IoSchema = IoSchema::device("x", Elem::F32, 1, "[bs]");
const Y: IoSchema = IoSchema::device("y", Elem::F32, 1, "[bs]");

fn on(schema: &'static Schema, on: On, options: CaptureOptions) -> Result<Engine<Host>> {
    let on = Box::leak(Box::new([on]));
    let entry = Box::leak(Box::new(RegionEntry { schema, at: AT, on }));
    let registry = Registry::from_entries(vec![entry], vec![], vec![])?;
    Engine::builder(Host::new()).capture_options(options).build(&registry)
}

fn build(
    schema: &'static Schema,
    table: &'static HandWrittenTable<Host>,
    o: CaptureOptions,
) -> Result<Engine<Host>> {
    on(schema, On::hand_written(table), o)
}

fn slots(n: usize) -> CaptureOptions {
    CaptureOptions { slots: Some(n), ..CaptureOptions::default() }
}

/// `y = 2 x`.
fn double(cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
    let (x, y) = (call.inputs.get::<f32, 1>("x")?, call.outputs.get::<f32, 1>("y")?);
    cx.stream().kernel("double", (x,), (y,), |(x,), (y,)| {
        y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
    })
}

static DOUBLE: Schema = Schema::new("hostile", "double", "batch_sizes = [4]", &[F1], &[Y]);
static DOUBLES: HandWrittenTable<Host> = HandWrittenTable(|_| {
    let config = PiecewiseBatchedConfig::new(1).capture_batch_sizes([4]);
    let statics = |shape: &Shape, s: &mut Statics| {
        s.input("x", [shape.bs]).output("y", [shape.bs]);
    };
    Ok(vec![HandWritten::new(&DOUBLE, config, statics, double)])
});

fn doubles(options: CaptureOptions) -> (Engine<Host>, Runner<HandWritten<Host>>) {
    let mut engine = build(&DOUBLE, &DOUBLES, options).unwrap();
    let runner = engine.runners().take_named("hostile.double").unwrap().remove(0);
    (engine, runner)
}

/// Host data whose length is not what its dimensions say.
struct Liar(Vec<f32>, usize);
impl HostInput<f32, 1> for Liar {
    fn data(&self) -> (&[f32], [usize; 1]) {
        (&self.0, [self.1])
    }
}

#[test]
fn host_data_longer_than_it_says_overwrites_no_held_output() {
    let (engine, mut runner) = doubles(slots(2));
    runner.set_slot(1);
    let x = [1.0_f32; 4];
    let x = [("x", Source::slice(&x[..]))];
    let held = runner.run(NamedArgs(&x), &[1; 4]).unwrap().hold().into_out().take::<f32, 1>("y").unwrap();
    runner.set_slot(0);
    for len in [1024, 3, 0] {
        let liar = Liar(vec![f32::NAN; len], 4);
        let error = runner.run(NamedArgs(&[("x", Source::host(&liar))]), &[1; 4]).err();
        assert_eq!(held.to_vec(engine.stream()).unwrap(), [2.0; 4], "{len} elements");
        let error = error.expect("refused");
        assert!(matches!(error.kind(), ErrorKind::DataLength { want: 4, .. }), "{error}");
    }
    runner.set_eager(true);
    let liar = Liar(Vec::new(), 4);
    let error = runner.run(NamedArgs(&[("x", Source::host(&liar))]), &[1; 4]).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::DataLength { want: 4, .. }), "{error}");
}

/// A panic that panics again when it is cleaned up.
struct Bomb;
impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("again");
    }
}

#[test]
fn invariant_09_a_panic_whose_payload_panics_is_an_error_too() {
    static TABLE: HandWrittenTable<Host> = HandWrittenTable(|_: &mut Loader<'_, Host>| {
        let config = PiecewiseBatchedConfig::new(1).capture_batch_sizes([4]);
        let statics = |shape: &Shape, s: &mut Statics| {
            s.input("x", [shape.bs]).output("y", [shape.bs]);
        };
        Ok(vec![HandWritten::new(
            &DOUBLE,
            config,
            statics,
            |cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>| match cx.mode() {
                Mode::Capture => std::panic::panic_any(Bomb),
                _ => double(cx, call),
            },
        )])
    });
    let engine = build(&DOUBLE, &TABLE, CaptureOptions::default()).unwrap();
    assert!(!Host::is_capturing(engine.stream()));
    let failures = &engine.stats()[0].failures;
    assert!(failures[0].to_string().contains("the forward panicked"), "{}", failures[0]);
}

/// A region by hand that gives any number of input lengths.
struct Lengths(AtomicUsize);
struct Sources<'a>(Vec<Source<'a, Host>>);
impl Args<Lengths> for Sources<'_> {
    type Sources<'s>
        = Vec<Source<'s, Host>>
    where
        Self: 's;
    fn sources(&self) -> Vec<Source<'_, Host>> {
        self.0.clone()
    }
}
static LENGTHS: Schema = Schema::new("hostile", "lengths", "batch_sizes = [4]", &[F1], &[Y]);
impl RegionSpec for Lengths {
    type Backend = Host;
    type Inputs<'a> = AnyView<'a, Host>;
    type Outputs<'a> = AnyView<'a, Host>;
    type Results<'r> = OutTensor<'r, Host, f32, 1>;
    type InRows = Vec<usize>;
    type OutRows = [usize; 1];
    fn schema(&self) -> &'static Schema {
        &LENGTHS
    }
    fn config(&self) -> Box<dyn PiecewiseCudaGraphConfig> {
        Box::new(PiecewiseBatchedConfig::new(1).capture_batch_sizes([4]))
    }
    fn make_static_inputs(&self, shape: &Shape, s: &mut Statics) {
        s.input("x", [shape.bs]).output("y", [shape.bs]);
    }
    fn in_rows(&self, dims: Dims) -> Vec<usize> {
        vec![dims.bs; self.0.load(Relaxed)]
    }
    fn out_rows(&self, dims: Dims) -> [usize; 1] {
        [dims.bs]
    }
    fn inputs<'a>(&self, views: &'a [AnyView<'a, Host>]) -> AnyView<'a, Host> {
        views[0]
    }
    fn outputs<'a>(&self, views: &'a [AnyView<'a, Host>]) -> AnyView<'a, Host> {
        views[0]
    }
    fn results<'r>(
        &self,
        take: &mut dyn FnMut(usize) -> Result<RawOut<'r, Host>>,
    ) -> Result<OutTensor<'r, Host, f32, 1>> {
        Ok(OutTensor::from_raw(take(0)?).ok().expect("f32 of rank 1"))
    }
    fn hold(results: OutTensor<'_, Host, f32, 1>) -> OutTensor<'static, Host, f32, 1> {
        results.hold()
    }
}
impl Region for Lengths {
    type Submodule = NoModel;
    fn instances(_: &Arc<NoModel>) -> Vec<Arc<Self>> {
        vec![Arc::new(Lengths(AtomicUsize::new(1)))]
    }
    fn forward(&self, cx: &mut Cx<'_, Host>, x: &AnyView<'_, Host>, y: &AnyView<'_, Host>) -> Result<()> {
        let (x, y) = (x.typed::<f32, 1>().unwrap(), y.typed_mut::<f32, 1>().unwrap());
        y.copy_from(cx.stream(), x)
    }
}

#[test]
fn a_wrong_number_of_inputs_or_lengths_never_reaches_the_header() {
    let mut engine = on(&LENGTHS, On::region::<Lengths>(), CaptureOptions::default()).unwrap();
    let mut runner = engine.runners().take_one::<Lengths>().unwrap();
    let stream = engine.stream().clone();
    let x = [1.0_f32, 2.0, 3.0];
    let source = || Source::slice(&x[..]);
    let run = |runner: &mut Runner<Lengths>, n| {
        let y = runner.run(Sources(vec![source(); n]), &[1; 3])?.into_out();
        y.to_vec(&stream)
    };
    // A length too many would stand where the graph looks for its sequence number, and the slot never be done.
    for lengths in [0, 2, 3] {
        runner.region().0.store(lengths, Relaxed);
        let error = run(&mut runner, 1).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WrongCount { want: 1, .. }), "{lengths}: {error}");
    }
    runner.region().0.store(1, Relaxed);
    let error = run(&mut runner, 2).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WrongCount { got: 2, want: 1, .. }), "{error}");
    let error = run(&mut runner, 0).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::MissingInput { .. }), "{error}");
    for _ in 0..2 {
        assert_eq!(run(&mut runner, 1).unwrap(), x);
    }
}

const X2: IoSchema = IoSchema { name: "x2", ..F1 };
static TWO: Schema = Schema::new("hostile", "two", "", &[F1, X2], &[Y]);
static TWINS: Schema = Schema::new("hostile", "twins", "", &[F1, F1], &[Y]);
static HUGE: Schema =
    Schema::new("hostile", "huge", "", &[IoSchema::device("x", Elem::F32, 3, "[bs, 2^62, 4]")], &[Y]);

fn nothing(
    schema: &'static Schema,
    statics: impl Fn(&Shape, &mut Statics) + Send + Sync + 'static,
) -> Result<Vec<HandWritten<Host>>> {
    let config = PiecewiseBatchedConfig::new(1).capture_batch_sizes([4]);
    Ok(vec![HandWritten::new(schema, config, statics, |_, _| Ok(()))])
}

#[test]
fn two_inputs_on_one_wire_or_of_one_name_do_not_start() {
    static WIRED: HandWrittenTable<Host> = HandWrittenTable(|_: &mut Loader<'_, Host>| {
        nothing(&TWO, |shape, s| {
            let wire = |index| Wire { name: "h", index };
            s.wired_input("x", [shape.bs], wire(0)).wired_input("x2", [shape.bs], wire(2));
            s.output("y", [shape.bs]);
        })
    });
    let error = build(&TWO, &WIRED, CaptureOptions::default()).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::WireClash { first: "x", second: "x2", .. }), "{error}");
    static NAMED: HandWrittenTable<Host> = HandWrittenTable(|_: &mut Loader<'_, Host>| {
        nothing(&TWINS, |shape, s| {
            s.input("x", [shape.bs]).input("x", [shape.bs]).output("y", [shape.bs]);
        })
    });
    let error = build(&TWINS, &NAMED, CaptureOptions::default()).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::BadDeclaration { input: "x", .. }), "{error}");
}

#[test]
fn sizes_that_wrap_are_errors_not_small_buffers() {
    static TABLE: HandWrittenTable<Host> = HandWrittenTable(|_: &mut Loader<'_, Host>| {
        nothing(&HUGE, |shape, s| {
            s.input("x", [shape.bs, 1 << 62, 4]).output("y", [shape.bs]);
        })
    });
    let error = build(&HUGE, &TABLE, CaptureOptions::default()).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::BadDeclaration { input: "x", .. }), "{error}");

    let host = Host::new();
    assert!(Tensor::<Host, f32, 2>::alloc(&host, [1 << 62, 4]).is_err());
    assert!(HostTensor::<f32, 2>::new(&[], [1 << 32, 1 << 32]).is_err());
    assert!(graph_core::HostValue::new::<f32>(&[], &[1 << 32, 1 << 32]).is_err());
    let x = Tensor::<Host, f32, 2>::alloc(&host, [4, 4]).unwrap();
    assert!(matches!(x.view().rows(0..usize::MAX).err().unwrap().kind(), ErrorKind::OutOfBounds { .. }));
    let scalar = Tensor::<Host, f32, 0>::alloc(&host, []).unwrap();
    assert!(matches!(scalar.view().rows(0..0).err().unwrap().kind(), ErrorKind::OutOfBounds { .. }));
}

#[test]
fn a_bucket_size_that_no_machine_has_is_an_error() {
    for size in [usize::MAX, 1 << 40] {
        let lists = [
            PiecewisePackedConfig::new([size]).shapes("toy", false, &[1]),
            PiecewisePackedConfig::new([1]).shapes("toy", true, &[size]),
            PiecewiseBatchedConfig::new(2).shapes("toy", true, &[size]),
        ];
        for error in lists.map(|shapes| shapes.unwrap_err()) {
            assert!(matches!(error.kind(), ErrorKind::SizeTooLarge { .. }), "{error}");
        }
    }
}

#[test]
fn lengths_whose_sum_wraps_fit_no_bucket() {
    let real = PiecewisePackedConfig::new([16]).real_dims(&[usize::MAX, 3]);
    assert_eq!(real, Dims { bs: 2, tokens: usize::MAX });
    assert_eq!(PiecewiseBatchedConfig::new(usize::MAX).real_dims(&[1, 1]).tokens, usize::MAX);
    let mut engine = chain(CaptureOptions { strict: true, ..CaptureOptions::default() }).unwrap();
    let node = engine.node("chain").unwrap();
    let h = [1.0_f32; 2];
    let inputs = [("h", Source::slice(&h[..]))];
    let call = NodeCall { requests: &[], seq_lens: &[usize::MAX, 3], inputs: &inputs, slot: 0 };
    let error = node.run("decode", &call).err().unwrap();
    let too_many = |miss: &Miss| matches!(miss, Miss::TooManyTokens { tokens: u32::MAX, .. });
    assert!(matches!(error.kind(), ErrorKind::Strict { miss, .. } if too_many(miss)), "{error}");
}

#[test]
fn forced_eager_calls_are_no_misses_in_strict_mode() {
    let (engine, mut runner) = doubles(CaptureOptions { strict: true, ..CaptureOptions::default() });
    runner.set_eager(true);
    for n in [2, 5] {
        let x = [1.5_f32; 5];
        let x = [("x", Source::slice(&x[..n]))];
        let outcome = runner.run(NamedArgs(&x), &[1; 5][..n]).unwrap();
        assert_eq!(outcome.reason(), Some(Miss::Forced), "{n} requests");
        let y = outcome.into_out().take::<f32, 1>("y").unwrap().to_vec(engine.stream()).unwrap();
        assert_eq!(y, [3.0; 5][..n]);
    }
}

// A node whose whole forward reads the wire that its region writes.

static STEP: Schema = Schema::new("chain", "step", "", &[F1], &[IoSchema::device("h", Elem::F32, 1, "[bs]")]);
static STEPS: HandWrittenTable<Host> = HandWrittenTable(|_| {
    let config = PiecewiseBatchedConfig::new(1).capture_batch_sizes([4]);
    let statics = |shape: &Shape, s: &mut Statics| {
        s.input("x", [shape.bs]).wired_output("h", [shape.bs], Wire { name: "h", index: 0 });
    };
    Ok(vec![HandWritten::new(
        &STEP,
        config,
        statics,
        |cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>| {
            call.outputs.get::<f32, 1>("h")?.copy_from(cx.stream(), call.inputs.get("x")?)
        },
    )])
});
const H: IoSchema = IoSchema::device("h", Elem::F32, 1, "[bs]");
static FORWARDS: [Forward; 1] =
    [Forward::new(Schema::new("chain", "forward_batched", "", &[H], &[Y]), &["decode"])];

struct Chain;
impl Node<Host> for Chain {
    type Submodule = NoModel;
    fn configs(_: &NoModel) -> Vec<Box<dyn CudaGraphConfig>> {
        vec![Box::new(BatchedCudaGraphConfig::new("decode", NodeInputs::new(1)).capture_batch_sizes([4]))]
    }
    fn make_static_inputs(_: &NoModel, _: &str, shape: &Shape, s: &mut Statics) {
        s.wired_input("h", [shape.bs], Wire { name: "h", index: 0 }).output("y", [shape.bs]);
    }
    fn bind(_: Arc<NoModel>, _: &mut BindCx<'_, Host>) -> Result<Self> {
        Ok(Chain)
    }
    fn forward(&mut self, _: &str, cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
        call.outputs.get::<f32, 1>("y")?.copy_from(cx.stream(), call.inputs.get("h")?)
    }
}

fn chain(options: CaptureOptions) -> Result<Engine<Host>> {
    static ON: [On; 1] = [On::hand_written(&STEPS)];
    static NODE_ON: [On; 1] = [On::node::<Host, Chain>()];
    static REGION: RegionEntry = RegionEntry { schema: &STEP, at: AT, on: &ON };
    static NODE: NodeEntry = NodeEntry { name: "chain", forwards: &FORWARDS, at: AT, on: &NODE_ON };
    let registry = Registry::from_entries(vec![&REGION], vec![&NODE], vec![])?;
    Engine::builder(Host::new()).capture_options(options).build(&registry)
}

#[test]
fn invariant_04_a_staged_step_holds_the_output_that_it_reads_in_place() {
    let mut engine = chain(CaptureOptions::default()).unwrap();
    let stream = engine.stream().clone();
    let mut region = engine.runners().take_named::<HandWritten<Host>>("chain.step").unwrap().remove(0);
    let shape = Shape::batched(4, 1);
    let (x, other) = ([1.0_f32, 2.0, 3.0, 4.0], [9.0_f32; 4]);
    let (x, other) = ([("x", Source::slice(&x[..]))], [("x", Source::slice(&other[..]))]);

    let h = region.run(NamedArgs(&x), &[1; 4]).unwrap().hold().into_out().take::<f32, 1>("h").unwrap();
    let (whole, steps) = engine.node("chain").unwrap().whole_and_steps();
    let walk = whole.walk("decode", None).unwrap();
    let bucket = whole.select_bucket(walk, 4, 4).unwrap();
    let lease = whole.lease_slot(bucket, 0).unwrap();
    let context =
        graph_core::StepContext { slot: 0, rows: &[], real_bs: 4, padded: shape.dims(), captured: true };
    let step = steps.declare(|_| Ok(())).unwrap().admit().unwrap().plan(&context).unwrap();
    let staged = whole.stage(lease, &shape, &[("h", Source::device(&h))], &step).unwrap();
    drop(h);
    let error =
        region.run(NamedArgs(&other), &[1; 4]).err().expect("the staged step is to read what is there");
    assert!(matches!(error.kind(), ErrorKind::OutputHeld { output: "h", .. }), "{error}");
    let y = whole.replay(staged, &shape).unwrap().take::<f32, 1>("y").unwrap();
    assert_eq!(y.to_vec(&stream).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    drop(region.run(NamedArgs(&other), &[1; 4]).unwrap());
}

#[test]
fn a_replay_for_more_requests_than_its_bucket_is_an_error() {
    let mut engine = chain(CaptureOptions::default()).unwrap();
    let (whole, steps) = engine.node("chain").unwrap().whole_and_steps();
    let walk = whole.walk("decode", None).unwrap();
    let bucket = whole.select_bucket(walk, 4, 4).unwrap();
    let shape = Shape::batched(3, 1);
    let context = graph_core::StepContext {
        slot: 0,
        rows: &[],
        real_bs: 3,
        padded: Dims { bs: 4, tokens: 4 },
        captured: true,
    };
    let step = steps.declare(|_| Ok(())).unwrap().admit().unwrap().plan(&context).unwrap();
    let h = [1.0_f32; 3];
    let h = [("h", Source::slice(&h[..]))];
    let lease = whole.lease_slot(bucket, 0).unwrap();
    let staged = whole.stage(lease, &shape, &h, &step).unwrap();
    let error = whole.replay(staged, &Shape::batched(5, 1)).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::BeyondBucket { got: 5, most: 4, .. }), "{error}");
    let lease = whole.lease_slot(bucket, 0).expect("the lease came back");
    let staged = whole.stage(lease, &shape, &h, &step).unwrap();
    drop(whole.replay(staged, &shape).unwrap());
}

#[test]
fn a_step_that_was_planned_for_another_slot_is_not_staged() {
    let mut engine = chain(slots(2)).unwrap();
    let (whole, steps) = engine.node("chain").unwrap().whole_and_steps();
    let bucket = whole.select_bucket(whole.walk("decode", None).unwrap(), 4, 4).unwrap();
    let shape = Shape::batched(4, 1);
    let padded = shape.dims();
    let context = graph_core::StepContext { slot: 0, rows: &[], real_bs: 4, padded, captured: true };
    let step = steps.declare(|_| Ok(())).unwrap().admit().unwrap().plan(&context).unwrap();
    let h = [1.0_f32; 4];
    let lease = whole.lease_slot(bucket, 1).unwrap();
    let error = whole.stage(lease, &shape, &[("h", Source::slice(&h[..]))], &step).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::OtherSlot { planned: 0, leased: 1, .. }), "{error}");
}

#[test]
fn an_input_that_is_named_twice_is_an_error() {
    let mut engine = chain(CaptureOptions::default()).unwrap();
    let h = [1.0_f32; 2];
    let inputs = [("h", Source::slice(&h[..])), ("h", Source::slice(&h[..1]))];
    let call = NodeCall { requests: &[], seq_lens: &[1, 1], inputs: &inputs, slot: 0 };
    let error = engine.node("chain").unwrap().run("decode", &call).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::InputTwice { .. }), "{error}");
}

struct Bad;
impl Node<Host> for Bad {
    type Submodule = NoModel;
    fn make_static_inputs(_: &NoModel, _: &str, shape: &Shape, s: &mut Statics) {
        s.input("x", [shape.bs]).output("y", [shape.bs]);
    }
    fn bind(_: Arc<NoModel>, _: &mut BindCx<'_, Host>) -> Result<Self> {
        Ok(Bad)
    }
    fn forward(&mut self, _: &str, _: &mut Cx<'_, Host>, _: &CallInputs<'_, Host>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_forward_that_nothing_captures_is_checked_all_the_same() {
    static FORWARDS: [Forward; 1] =
        [Forward::new(Schema::new("bad", "forward_batched", "", &[F1.axis(7)], &[Y]), &["decode"])];
    static NODE_ON: [On; 1] = [On::node::<Host, Bad>()];
    static NODE: NodeEntry = NodeEntry { name: "bad", forwards: &FORWARDS, at: AT, on: &NODE_ON };
    let registry = Registry::from_entries(vec![], vec![&NODE], vec![]).unwrap();
    let error = Engine::builder(Host::new()).build(&registry).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::BadDeclaration { input: "x", .. }), "{error}");
}
