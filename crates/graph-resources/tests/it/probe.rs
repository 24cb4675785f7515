//! A node whose resource logs the roles it plays, and a region that brings its own step.

use std::sync::{Arc, Mutex};

use graph_core::{
    AdmitOutcome, Args, BatchedCudaGraphConfig, BindCx, CallInputs, CaptureOptions, CudaGraphConfig, Cx,
    Dependencies, Dims, Elem, Engine, ErrorKind, Forward, GraphBuffers, IoSchema, LoadCx, Location, Mode,
    Node, NodeEntry, NodeInputs, On, Options, OutTensor, Pad, PiecewiseBatchedConfig,
    PiecewiseCudaGraphConfig, RawOut, Region, RegionEntry, RegionSpec, Registry, RequestId, Resource,
    ResourceStep, Resources, Result, Row, Runner, Schema, Shape, Source, Statics, StepContext, StepRequests,
    Submodule, SubmoduleStep,
};
use graph_host::{Host, Stream};

/// Logs what it is asked, and fails where it is told to.
#[derive(Clone, Default)]
pub(crate) struct Told {
    pub(crate) log: Arc<Mutex<Vec<String>>>,
    pub(crate) preplan: bool,
    pub(crate) fail_plan: Arc<Mutex<bool>>,
    pub(crate) fail_validate: bool,
    /// Batch sizes whose capture panics.
    pub(crate) panics_at: Option<usize>,
    /// The outer forward declares the resource itself, although its region does.
    pub(crate) outer_declares: bool,
}

impl Told {
    fn say(&self, text: impl Into<String>) {
        self.log.lock().unwrap().push(text.into());
    }
    pub(crate) fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

pub(crate) struct Probe {
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

pub(crate) fn build(told: &Told, slots: Option<usize>) -> Result<(Engine<Host>, Host)> {
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
