//! Code that lies to graph-core through its safe interface: an error each time, no panic, nothing overwritten.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use graph_core::{
    AnyView, Args, BindCx, CallInputs, Cx, Dims, Elem, Engine, ErrorKind, Forward, HandWritten,
    HandWrittenTable, HostTensor, IoSchema, Loader, Location, NoModel, Node, NodeEntry, On, OutTensor,
    PiecewiseBatchedConfig, PiecewiseCudaGraphConfig, PiecewisePackedConfig, RawOut, Region, RegionEntry,
    RegionSpec, Registry, Result, Runner, Schema, Shape, Source, Statics, Tensor, Wire,
};
use graph_host::Host;

const AT: Location = Location { krate: "hostile", file: "hostile.rs", line: 1 };
const F1: IoSchema = IoSchema::device("x", Elem::F32, 1, "[bs]");
const Y: IoSchema = IoSchema::device("y", Elem::F32, 1, "[bs]");

fn on(schema: &'static Schema, on: On) -> Result<Engine<Host>> {
    let on = Box::leak(Box::new([on]));
    let entry = Box::leak(Box::new(RegionEntry { schema, at: AT, on }));
    let registry = Registry::from_entries(vec![entry], vec![], vec![])?;
    Engine::builder(Host::new()).build(&registry)
}

fn build(schema: &'static Schema, table: &'static HandWrittenTable<Host>) -> Result<Engine<Host>> {
    on(schema, On::hand_written(table))
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
    let mut engine = on(&LENGTHS, On::region::<Lengths>()).unwrap();
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
    let error = build(&TWO, &WIRED).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::WireClash { first: "x", second: "x2", .. }), "{error}");
    static NAMED: HandWrittenTable<Host> = HandWrittenTable(|_: &mut Loader<'_, Host>| {
        nothing(&TWINS, |shape, s| {
            s.input("x", [shape.bs]).input("x", [shape.bs]).output("y", [shape.bs]);
        })
    });
    let error = build(&TWINS, &NAMED).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::BadDeclaration { input: "x", .. }), "{error}");
}

#[test]
fn sizes_that_wrap_are_errors_not_small_buffers() {
    static TABLE: HandWrittenTable<Host> = HandWrittenTable(|_: &mut Loader<'_, Host>| {
        nothing(&HUGE, |shape, s| {
            s.input("x", [shape.bs, 1 << 62, 4]).output("y", [shape.bs]);
        })
    });
    let error = build(&HUGE, &TABLE).err().unwrap();
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
fn a_sum_of_lengths_that_wraps_is_the_largest_there_is() {
    let real = PiecewisePackedConfig::new([16]).real_dims(&[usize::MAX, 3]);
    assert_eq!(real, Dims { bs: 2, tokens: usize::MAX });
    assert_eq!(PiecewiseBatchedConfig::new(usize::MAX).real_dims(&[1, 1]).tokens, usize::MAX);
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
