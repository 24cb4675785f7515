//! The roles of a resource, in the order in which the engine plays them; what a failure leaves behind.

use std::sync::{Arc, Mutex};

use graph_core::{
    AdmitOutcome, Args, BatchedCudaGraphConfig, BindCx, CallInputs, CaptureOptions, CudaGraphConfig, Cx,
    Dependencies, Dims, Elem, Engine, ErrorKind, Forward, GraphBuffers, IoSchema, LoadCx, Location, Mode,
    Node, NodeCall, NodeEntry, NodeInputs, On, Options, OutTensor, Outcome, Pad, PiecewiseBatchedConfig,
    PiecewiseCudaGraphConfig, RawOut, Region, RegionEntry, RegionSpec, Registry, RequestId, Resource,
    ResourceStep, Resources, Result, Row, Runner, Schema, Shape, Source, Statics, StepContext, StepRequests,
    Submodule, SubmoduleStep,
};
use graph_host::{Call, Host, Stream, codes};

/// Logs what it is asked, and fails where it is told to.
#[derive(Clone, Default)]
struct Told {
    log: Arc<Mutex<Vec<String>>>,
    preplan: bool,
    fail_plan: Arc<Mutex<bool>>,
    fail_validate: bool,
    /// Batch sizes whose capture panics.
    panics_at: Option<usize>,
    /// The outer forward declares the resource itself, although its region does.
    outer_declares: bool,
}

impl Told {
    fn say(&self, text: impl Into<String>) {
        self.log.lock().unwrap().push(text.into());
    }
    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

struct Probe {
    told: Told,
    buffers: GraphBuffers<Host>,
    plans: [Vec<i32>; 2],
}

static PROBE_INPUTS: [IoSchema; 1] = [IoSchema::host("addend", Elem::I32, 1, "[bs]").pad(Pad::i32(-9))];

/// Forwards find the slot's buffer here.
struct Shared(usize);

impl Resource<Host> for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }
    fn inputs(&self) -> &'static [IoSchema] {
        &PROBE_INPUTS
    }
    fn make_static_inputs(&self, shape: &Shape, statics: &mut Statics) {
        statics.input("addend", [shape.bs]);
    }
    fn claim(&mut self, shape: &Shape) -> Result<()> {
        self.told.say(format!("claim {}", shape.bs));
        self.buffers.claim::<f32>("work", shape.bs * 2)
    }
    fn allocate(&mut self, device: &Host, _: &Stream, slots: usize) -> Result<()> {
        self.told.say(format!("allocate {slots}"));
        self.buffers.allocate(device, slots)
    }
    fn share(&self, into: &mut Resources) {
        self.told.say("share");
        into.insert(Shared(self.buffers.bytes()));
    }
    fn ingest(&mut self, request: RequestId, info: &Options) -> Result<()> {
        self.told.say(format!("ingest {} {:?}", request.0, info.get::<&str>()));
        Ok(())
    }
    fn remove(&mut self, request: RequestId) {
        self.told.say(format!("remove {}", request.0));
    }
    fn admit(&mut self, step: &ResourceStep<'_>) -> Result<AdmitOutcome> {
        self.told.say(format!("admit {}", step.segments.len()));
        Ok(match step.segments.iter().find(|s| s.request.0 == 13) {
            Some(s) => AdmitOutcome::NotReady { request: s.request },
            None => AdmitOutcome::Admitted,
        })
    }
    fn plan(
        &mut self,
        step: &ResourceStep<'_>,
        cx: &StepContext<'_>,
        _: Dependencies<'_, Host>,
    ) -> Result<()> {
        self.told.say(format!("plan slot {} of {} rows, {} real", cx.slot, cx.rows.len(), cx.real_bs));
        if std::mem::take(&mut *self.told.fail_plan.lock().unwrap()) {
            return Err(graph_core::Error::plugin("no plan"));
        }
        self.plans[cx.slot] = step.segments.iter().map(|s| s.request.0 as i32 * 10).collect();
        Ok(())
    }
    fn planned(&self, slot: usize, _: usize) -> Source<'_, Host> {
        Source::slice(&self.plans[slot])
    }
    fn commit(&mut self, _: &ResourceStep<'_>) {
        self.told.say("commit");
    }
    fn rollback(&mut self, _: &ResourceStep<'_>) {
        self.told.say("rollback");
    }
    fn reset(&mut self, padding: &[Row]) {
        self.told.say(format!("reset {padding:?}"));
    }
    fn supports_preplan(&self) -> bool {
        self.told.preplan
    }
    fn validate_capture(&self, _: &Stream) -> Result<()> {
        self.told.say("validate");
        match self.told.fail_validate {
            true => Err(ErrorKind::StateChanged { resource: "probe", what: "everything".into() }.into()),
            false => Ok(()),
        }
    }
    fn device_bytes(&self) -> usize {
        self.buffers.bytes()
    }
}

impl Submodule<Host> for Told {
    fn load(cx: &LoadCx<'_, Host>) -> Result<Self> {
        Ok(cx.options.get::<Told>().cloned().unwrap_or_default())
    }
}

const X: &[IoSchema] = &[IoSchema::host("x", Elem::I32, 1, "[bs]").pad(Pad::i32(0))];
const Y: &[IoSchema] = &[IoSchema::device("y", Elem::I32, 1, "[bs]")];
static WHOLE: Forward =
    Forward::new(Schema::new("probe", "forward_batched", "", X, Y), &["add"]).resources(&["probe"]);
static OUTER: Forward = Forward::new(Schema::new("probe", "outer", "", X, Y), &["outer"]);
static FORWARDS: [Forward; 2] = [WHOLE, OUTER];

/// `y = x + addend`, one request a row.
fn add(
    cx: &mut Cx<'_, Host>,
    x: graph_core::In<'_, Host, i32, 1>,
    y: graph_core::Out<'_, Host, i32, 1>,
) -> Result<()> {
    assert_eq!(cx.resource::<Shared>()?.0 % 8, 0);
    let addend = cx.planned::<i32, 1>("probe", "addend")?;
    cx.stream().kernel("add", (x, addend), (y,), |(x, addend), (y,)| {
        y.iter_mut().zip(x.iter().zip(addend)).for_each(|(y, (x, a))| *y = x + a);
    })
}

struct ProbeNode {
    told: Arc<Told>,
    region: Runner<Adder>,
}

impl Node<Host> for ProbeNode {
    type Submodule = Told;
    fn configs(_: &Told) -> Vec<Box<dyn CudaGraphConfig>> {
        let add = BatchedCudaGraphConfig::new("add", NodeInputs::new(1)).capture_batch_sizes([1, 4]);
        vec![Box::new(add)]
    }
    fn resources(told: &Arc<Told>, _: &LoadCx<'_, Host>) -> Result<Vec<Box<dyn Resource<Host>>>> {
        let told = Told::clone(told);
        Ok(vec![Box::new(Probe { told, buffers: GraphBuffers::new("probe"), plans: Default::default() })])
    }
    fn declare_step(&self, forward: &str, call: &StepRequests<'_>, step: &mut SubmoduleStep) -> Result<()> {
        if forward == "forward_batched" || self.told.outer_declares {
            call.append("probe", step);
        }
        Ok(())
    }
    fn make_static_inputs(_: &Told, _: &str, shape: &Shape, statics: &mut Statics) {
        statics.input("x", [shape.bs]).output("y", [shape.bs]);
    }
    fn bind(told: Arc<Told>, cx: &mut BindCx<'_, Host>) -> Result<Self> {
        Ok(ProbeNode { told, region: cx.runners.take_one::<Adder>()? })
    }
    fn forward(&mut self, forward: &str, cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
        let y = call.outputs.get::<i32, 1>("y")?;
        if forward == "outer" {
            let (x, lens) = (call.inputs.host::<i32>("x")?, vec![1; cx.dims().bs]);
            let requests: Vec<RequestId> = call
                .engine_inputs
                .request_ids
                .iter()
                .filter_map(|row| match row {
                    Row::Request(request) => Some(*request),
                    Row::Padding { .. } => None,
                })
                .collect();
            let stream = cx.stream().clone();
            assert!(matches!(
                self.region.run(AdderArgs(x), &lens).err().unwrap().kind(),
                ErrorKind::StepMissing { resource: "probe", .. }
            ));
            let step = StepRequests { requests: &requests, seq_lens: &lens };
            let steps = cx.steps().expect("eager");
            let out = self.region.run_step(AdderArgs(x), step, steps)?;
            self.told.say(if out.reason().is_none() { "replayed" } else { "eager" });
            return y.copy_from(&stream, out.into_out().view());
        }
        assert!(cx.mode() == Mode::Eager || self.told.panics_at != Some(cx.dims().bs), "told to");
        add(cx, call.inputs.get("x")?, y)
    }
}

/// The same as a region that brings its own step.
struct Adder;
struct AdderArgs<'a>(&'a [i32]);
static ADDER: Schema = Schema::new("probe", "adder", "", X, Y);

impl RegionSpec for Adder {
    type Backend = Host;
    type Inputs<'a> = graph_core::In<'a, Host, i32, 1>;
    type Outputs<'a> = graph_core::Out<'a, Host, i32, 1>;
    type Results<'r> = OutTensor<'r, Host, i32, 1>;
    type InRows = [usize; 1];
    type OutRows = [usize; 1];
    fn schema(&self) -> &'static Schema {
        &ADDER
    }
    fn config(&self) -> Box<dyn PiecewiseCudaGraphConfig> {
        Box::new(PiecewiseBatchedConfig::new(1).capture_batch_sizes([2]).lease_before_step(true))
    }
    fn make_static_inputs(&self, shape: &Shape, statics: &mut Statics) {
        statics.input("x", [shape.bs]).output("y", [shape.bs]);
    }
    fn in_rows(&self, dims: Dims) -> [usize; 1] {
        [dims.bs]
    }
    fn out_rows(&self, dims: Dims) -> [usize; 1] {
        [dims.bs]
    }
    fn inputs<'a>(&self, views: &'a [graph_core::AnyView<'a, Host>]) -> Self::Inputs<'a> {
        views[0].typed().unwrap()
    }
    fn outputs<'a>(&self, views: &'a [graph_core::AnyView<'a, Host>]) -> Self::Outputs<'a> {
        views[0].typed_mut().unwrap()
    }
    fn results<'r>(
        &self,
        take: &mut dyn FnMut(usize) -> Result<RawOut<'r, Host>>,
    ) -> Result<Self::Results<'r>> {
        Ok(OutTensor::from_raw(take(0)?).ok().unwrap())
    }
    fn hold(results: Self::Results<'_>) -> Self::Results<'static> {
        results.hold()
    }
}

impl Region for Adder {
    type Submodule = Told;
    fn instances(_: &Arc<Told>) -> Vec<Arc<Self>> {
        vec![Arc::new(Adder)]
    }
    fn forward(&self, cx: &mut Cx<'_, Host>, x: &Self::Inputs<'_>, y: &Self::Outputs<'_>) -> Result<()> {
        add(cx, *x, *y)
    }
    fn resources(&self) -> &'static [&'static str] {
        &["probe"]
    }
}

impl Args<Adder> for AdderArgs<'_> {
    type Sources<'s>
        = [Source<'s, Host>; 1]
    where
        Self: 's;
    fn sources(&self) -> [Source<'_, Host>; 1] {
        [Source::host(&self.0)]
    }
}

fn build(told: &Told, slots: Option<usize>) -> Result<(Engine<Host>, Host)> {
    static NODE: NodeEntry = NodeEntry {
        name: "probe",
        forwards: &FORWARDS,
        at: Location { krate: "graph-resources", file: "tests/it/probe.rs", line: 1 },
        on: &[On::node::<Host, ProbeNode>()],
    };
    static REGION: RegionEntry = RegionEntry {
        schema: &ADDER,
        at: Location { krate: "graph-resources", file: "tests/it/probe.rs", line: 2 },
        on: &[On::region::<Adder>()],
    };
    let host = Host::new();
    let registry = Registry::from_entries(vec![&REGION], vec![&NODE], vec![])?;
    let engine = Engine::builder(host.clone())
        .options(Options::default().with(told.clone()))
        .capture_options(CaptureOptions { slots, ..CaptureOptions::default() })
        .build(&registry)?;
    Ok((engine, host))
}

fn run(engine: &mut Engine<Host>, walk: &str, requests: &[u64], x: &[i32], slot: usize) -> Result<Vec<i32>> {
    let stream = engine.stream().clone();
    let ids: Vec<RequestId> = requests.iter().map(|r| RequestId(*r)).collect();
    let (lens, inputs) = (vec![1; ids.len()], [("x", Source::host(&x))]);
    let call = NodeCall { requests: &ids, seq_lens: &lens, inputs: &inputs, slot };
    engine.node("probe")?.run(walk, &call)?.into_out().take::<i32, 1>("y")?.to_vec(&stream)
}

fn ingest(engine: &mut Engine<Host>, requests: &[u64]) {
    let node = engine.node("probe").unwrap();
    requests.iter().for_each(|r| node.ingest(RequestId(*r), &Options::default().with("hello")).unwrap());
}

#[test]
fn the_roles_in_their_order() {
    let told = Told { preplan: true, ..Told::default() };
    let (mut engine, _) = build(&told, None).unwrap();
    // Everybody claims before anything is allocated, and that before anything is captured; `share` is between.
    assert_eq!(told.heard(), ["claim 2", "claim 4", "claim 1", "allocate 2", "share", "validate"]);
    assert_eq!(engine.ledger().resources, 2 * 4 * 2 * 4, "the largest claim, for two slots");
    ingest(&mut engine, &[1, 2]);
    assert_eq!(told.heard(), ["ingest 1 Some(\"hello\")", "ingest 2 Some(\"hello\")"]);
    assert_eq!(run(&mut engine, "add", &[1, 2], &[5, 6], 1).unwrap(), [15, 26]);
    let reset = "reset [Padding { slot: 1, row: 2 }, Padding { slot: 1, row: 3 }]";
    assert_eq!(told.heard(), ["admit 2", "plan slot 1 of 4 rows, 2 real", "commit", reset]);
    engine.node("probe").unwrap().set_eager(true);
    assert_eq!(run(&mut engine, "add", &[1, 2], &[5, 6], 1).unwrap(), [15, 26]);
    assert_eq!(told.heard(), ["admit 2", "plan slot 0 of 2 rows, 2 real", "commit", "reset []"]);
    engine.node("probe").unwrap().remove(RequestId(1));
    assert_eq!(told.heard(), ["remove 1"]);
    // After the allocation a larger claim is refused.
    let probe = engine.node("probe").unwrap().steps().get_mut::<Probe>().unwrap();
    probe.claim(&Shape::batched(4, 1)).unwrap();
    let closed = probe.claim(&Shape::batched(5, 1)).unwrap_err();
    assert!(matches!(closed.kind(), ErrorKind::ClaimsClosed { owner: "probe", .. }), "{closed}");
}

#[test]
fn a_resource_that_cannot_plan_ahead_gets_one_slot() {
    let told = Told::default();
    let (mut engine, _) = build(&told, None).unwrap();
    assert!(told.heard().contains(&"allocate 1".to_string()));
    assert_eq!(engine.node("probe").unwrap().slots(), 1);
    ingest(&mut engine, &[1]);
    for slot in 0..4 {
        assert_eq!(run(&mut engine, "add", &[1], &[5], slot).unwrap(), [15]);
    }
    assert!(told.heard().iter().all(|said| !said.starts_with("plan slot 1")));
}

#[test]
fn whatever_fails_is_rolled_back() {
    let told = Told::default();
    let (mut engine, host) = build(&told, None).unwrap();
    ingest(&mut engine, &[1, 2, 13]);
    told.heard();
    for (eager, plan) in [(false, "plan slot 0 of 4 rows, 2 real"), (true, "plan slot 0 of 2 rows, 2 real")] {
        engine.node("probe").unwrap().set_eager(eager);
        // Not ready: nothing to roll back.
        let refused = run(&mut engine, "add", &[1, 13], &[5, 6], 0).unwrap_err();
        assert!(matches!(
            refused.kind(),
            ErrorKind::Refused { outcome: AdmitOutcome::NotReady { request: RequestId(13) }, .. }
        ));
        assert_eq!(told.heard(), ["admit 2"]);
        // A plan that fails.
        *told.fail_plan.lock().unwrap() = true;
        assert_eq!(run(&mut engine, "add", &[1, 2], &[5, 6], 0).unwrap_err().to_string(), "no plan");
        assert_eq!(told.heard(), ["admit 2", plan, "rollback"]);
        // An input of a wrong size: found when it is staged.
        let error = run(&mut engine, "add", &[1, 2], &[5], 0).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WrongSize { .. }), "{error}");
        assert_eq!(told.heard(), ["admit 2", plan, "rollback"]);
        // A launch that fails.
        host.fail_next(if eager { Call::Kernel } else { Call::Launch }, codes::LAUNCH_FAILED);
        assert!(run(&mut engine, "add", &[1, 2], &[5, 6], 0).is_err());
        assert_eq!(told.heard(), ["admit 2", plan, "rollback"]);
        assert_eq!(run(&mut engine, "add", &[1, 2], &[5, 6], 0).unwrap(), [15, 26], "the next step works");
        told.heard();
    }
}

#[test]
fn a_failed_capture_costs_its_bucket_and_no_resource() {
    let told = Told { panics_at: Some(4), ..Told::default() };
    let (mut engine, host) = build(&told, None).unwrap();
    let heard = told.heard();
    assert!(heard.iter().all(|said| !said.starts_with("admit")), "a capture opens no step: {heard:?}");
    assert_eq!(heard.last().unwrap(), "validate", "what is left is validated");
    let stats = engine.stats();
    let whole = stats.iter().find(|s| s.walk.is_some()).unwrap();
    assert_eq!((whole.buckets.len(), whole.failures.len()), (1, 1));
    let node = engine.node("probe").unwrap();
    assert_eq!(node.whole().max_batch_size_for("add"), Some(1), "the batch cap is lower");
    // Two requests run eagerly now, one is replayed; both on the same resource, with everything it had.
    ingest(&mut engine, &[1, 2]);
    assert_eq!(run(&mut engine, "add", &[1, 2], &[5, 6], 0).unwrap(), [15, 26]);
    assert_eq!(run(&mut engine, "add", &[2], &[6], 0).unwrap(), [26]);
    let (buffers, graphs) = (host.live().buffers, host.live().graphs);
    assert!(buffers > 0 && graphs == 2, "the region's and one bucket");
    drop(engine);
    assert_eq!(host.live().graphs, 0);
    assert_eq!(host.live().buffers, 0, "of {buffers}");
}

#[test]
fn a_resource_can_stop_the_engine_after_the_captures() {
    let told = Told { fail_validate: true, ..Told::default() };
    let error = build(&told, None).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::StateChanged { resource: "probe", .. }), "{error}");
}

#[test]
fn a_region_brings_its_own_step_inside_a_node() {
    let told = Told::default();
    let (mut engine, _) = build(&told, None).unwrap();
    ingest(&mut engine, &[1, 2, 3]);
    told.heard();
    // The outer step leaves the resource to the region: replayed at two, eager at three.
    assert_eq!(run(&mut engine, "outer", &[1], &[5], 0).unwrap(), [15]);
    let reset = "reset [Padding { slot: 0, row: 1 }]";
    assert_eq!(told.heard(), ["admit 1", "plan slot 0 of 2 rows, 1 real", "commit", reset, "replayed"]);
    assert_eq!(run(&mut engine, "outer", &[1, 2, 3], &[5, 6, 7], 0).unwrap(), [15, 26, 37]);
    assert_eq!(told.heard(), ["admit 3", "plan slot 0 of 3 rows, 3 real", "commit", "reset []", "eager"]);
}

#[test]
fn two_open_steps_on_one_resource_are_an_error_and_both_are_rolled_back() {
    let told = Told { outer_declares: true, ..Told::default() };
    let (mut engine, _) = build(&told, None).unwrap();
    ingest(&mut engine, &[1]);
    told.heard();
    let error = run(&mut engine, "outer", &[1], &[5], 0).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ResourceInStep { resource: "probe", .. }), "{error}");
    assert_eq!(told.heard(), ["admit 1", "plan slot 0 of 1 rows, 1 real", "rollback"]);
    // The region's slot, which was leased before its step, is free again.
    assert_eq!(run(&mut engine, "add", &[1], &[5], 0).unwrap(), [15]);
    let node = engine.node("probe").unwrap();
    assert_eq!(node.slots(), 1);
    let _: Option<Outcome<'_, Adder>> = None;
}
