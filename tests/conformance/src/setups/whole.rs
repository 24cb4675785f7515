//! A whole-forward runner built from a setup: a node whose forwards fail where the setup says so.

use std::{cell::RefCell, collections::BTreeSet, sync::Arc};

use graph_core::{
    Backend, BindCx, BucketIx, BucketKey, CallInputs, CaptureOptions, CudaGraphConfig, Cx, Elem, Engine,
    Error, Forward, IoSchema, KeyInfo, LoadCx, Location, Node, NodeEntry, On, Options, Registry, Result,
    Schema, Shape, Statics, Submodule, WholeRunner, plan_captures,
};
use graph_host::Host;
use serde_json::Value;

use super::{
    outcome::Outcome,
    probe::{Probe, Stream},
    spec::WholeSpec,
};
use crate::{
    errors::error_json,
    vectors::{Bucket, Problem},
};

/// Bytes of a row of input `x`.
pub(crate) const X_BYTES: usize = 8;
/// Rows of input `pos3`, whose second axis varies.
pub(crate) const POS3_RUNS: usize = 3;

/// What every forward takes.
pub(crate) static INPUTS: [IoSchema; 2] = [
    IoSchema::device("x", Elem::U8, 2, "[tokens, 8]"),
    IoSchema::host("pos3", Elem::U32, 2, "[3, tokens]").axis(1),
];
static OUTPUTS: [IoSchema; 1] = [IoSchema::device("y", Elem::U8, 2, "[tokens, 8]")];

const NODE: &str = "node";

/// One forward per configuration, so that a forward knows which one captures it.
static FORWARDS: [Forward; 8] = [
    forward("c0"),
    forward("c1"),
    forward("c2"),
    forward("c3"),
    forward("c4"),
    forward("c5"),
    forward("c6"),
    forward("c7"),
];

const fn forward(name: &'static str) -> Forward {
    Forward::new(Schema::new(NODE, name, "from the setup", &INPUTS, &OUTPUTS), &[])
}

static ENTRY: NodeEntry = NodeEntry {
    name: NODE,
    forwards: &FORWARDS,
    at: Location { krate: env!("CARGO_PKG_NAME"), file: file!(), line: line!() },
    on: &[On::node::<Host, Scripted>()],
};

/// What the node is loaded with.
struct Script {
    spec: Arc<WholeSpec>,
    probe: Arc<Probe>,
}

struct Scripted(Arc<Script>);

impl Submodule<Host> for Script {
    fn load(cx: &LoadCx<'_, Host>) -> Result<Self> {
        match cx.options.get::<(Arc<WholeSpec>, Arc<Probe>)>() {
            Some((spec, probe)) => Ok(Script { spec: spec.clone(), probe: probe.clone() }),
            None => Err(Error::plugin("the options have no setup")),
        }
    }
}

impl Node<Host> for Scripted {
    type Submodule = Script;

    fn configs(script: &Script) -> Vec<Box<dyn CudaGraphConfig>> {
        configs(&script.spec)
    }
    fn make_static_inputs(_: &Script, _: &str, shape: &Shape, statics: &mut Statics) {
        let tokens = shape.total_tokens;
        statics
            .input("x", [tokens, X_BYTES])
            .input("pos3", [POS3_RUNS, tokens])
            .output("y", [tokens, X_BYTES]);
    }
    fn bind(script: Arc<Script>, _: &mut BindCx<'_, Host>) -> Result<Self> {
        Ok(Scripted(script))
    }
    fn forward(&mut self, name: &str, cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
        let Scripted(script) = self;
        let config = FORWARDS.iter().position(|f| f.schema.name == name);
        let dims = cx.dims();
        if config.is_some_and(|config| script.spec.fails(config, dims.bs, dims.tokens, cx.slot())) {
            return Err(Error::plugin("the setup says that this capture fails"));
        }
        let x = call.inputs.get::<u8, 2>("x")?;
        let pos3 = call.inputs.get::<u32, 2>("pos3")?;
        script.probe.record(cx, &[x.into(), pos3.into()])?;
        call.outputs.get::<u8, 2>("y")?.copy_from(cx.stream(), x)
    }
}

fn configs(spec: &WholeSpec) -> Vec<Box<dyn CudaGraphConfig>> {
    spec.configs.iter().zip(&FORWARDS).map(|(config, f)| config.build(Some(f.schema.name))).collect()
}

/// A built runner, or the error that graph-core refuses the configurations with.
pub(crate) struct Whole {
    /// The setup.
    pub(crate) spec: Arc<WholeSpec>,
    /// What the reference implementation registered.
    pub(crate) registered: Outcome,
    /// Whether the runner captured exactly these buckets.
    pub(crate) as_registered: bool,
    built: Result<WholeEngine>,
}

/// The engine that holds a runner.
pub(crate) struct WholeEngine {
    engine: RefCell<Engine<Host>>,
    /// What the graphs saw.
    pub(crate) probe: Arc<Probe>,
    /// The stream that they run on.
    pub(crate) stream: Stream,
}

impl Whole {
    /// Captures everything that the setup names.
    pub(crate) fn build(spec: WholeSpec) -> Result<Whole, Problem> {
        if spec.configs.len() > FORWARDS.len() {
            return Err(format!("{} configurations, this test takes {}", spec.configs.len(), FORWARDS.len()));
        }
        let spec = Arc::new(spec);
        let registered = Outcome::new(&spec);
        let built = WholeEngine::build(&spec);
        let keys = built.as_ref().ok().map(|e| e.with(|r| Ok(r.buckets().cloned().collect::<BTreeSet<_>>())));
        let as_registered = matches!(keys, Some(Ok(keys)) if keys == *registered.capture_keys());
        Ok(Whole { spec, registered, as_registered, built })
    }

    /// The engine, or why there is none.
    pub(crate) fn engine(&self) -> Result<&WholeEngine, &Error> {
        self.built.as_ref()
    }

    /// What was captured, in order.
    pub(super) fn buckets(&self) -> Result<Vec<Bucket>, Value> {
        let engine = self.engine().map_err(error_json)?;
        let buckets =
            engine.with(|runner| Ok(runner.buckets().map(|key| Bucket::of(key, &key.walk)).collect()));
        buckets.map_err(|e| error_json(&e))
    }

    /// The configurations.
    pub(crate) fn configs(&self) -> Vec<Box<dyn CudaGraphConfig>> {
        configs(&self.spec)
    }

    /// The buckets to capture, in order: configuration and key.
    pub(crate) fn plan(&self) -> Result<Vec<(usize, BucketKey)>> {
        let plan = plan_captures(NODE, &self.configs(), &self.spec.default_batch_sizes)?;
        Ok(plan.into_iter().map(|p| (p.config, p.key)).collect())
    }
}

impl WholeEngine {
    fn build(spec: &Arc<WholeSpec>) -> Result<WholeEngine> {
        let device = Host::new();
        let stream = device.stream()?;
        let most = most_tokens(spec);
        let bytes = [most * X_BYTES, most * POS3_RUNS * size_of::<u32>()];
        let probe = Arc::new(Probe::new(&device, &stream, &bytes, spec.num_slots)?);
        let engine = Engine::builder(device)
            .options(Options::default().with((spec.clone(), probe.clone())))
            .capture_options(CaptureOptions {
                slots: Some(spec.num_slots),
                warm_ups: 1,
                default_batch_sizes: spec.default_batch_sizes.clone(),
                ..CaptureOptions::default()
            })
            .build(&Registry::from_entries(vec![], vec![&ENTRY], vec![])?)?;
        let stream = engine.stream().clone();
        Ok(WholeEngine { engine: RefCell::new(engine), probe, stream })
    }

    /// Buckets that could not be captured, by their reasons.
    pub(crate) fn failures(&self) -> usize {
        self.engine.borrow().stats().iter().map(|stats| stats.failures.len()).sum()
    }

    /// Asks the runner.
    pub(crate) fn with<R>(&self, ask: impl FnOnce(&mut WholeRunner<Host>) -> Result<R>) -> Result<R> {
        ask(self.engine.borrow_mut().node(NODE)?.whole())
    }
}

/// The most tokens that any bucket has.
fn most_tokens(spec: &WholeSpec) -> usize {
    let shapes =
        configs(spec).iter().flat_map(|c| c.shapes(&spec.default_batch_sizes)).flatten().collect::<Vec<_>>();
    shapes.into_iter().map(|d| d.tokens).max().unwrap_or(0)
}

/// The bucket of exactly this key, where it was captured.
pub(crate) fn exactly(runner: &WholeRunner<Host>, bucket: &Bucket) -> Option<BucketIx> {
    let key: Option<KeyInfo> = bucket.key.as_ref().map(|key| key.info());
    let walk = runner.walk(&bucket.walk, key.as_ref())?;
    let found = runner.select_bucket(walk, bucket.bs, bucket.tokens).ok()?;
    let at = runner.key(found).ok()?;
    ((at.bs, at.tokens) == (bucket.bs, bucket.tokens)).then_some(found)
}
