//! Replay is replay: the forwards' Rust code does not run.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use graph_core::{
    Backend, BindCx, CallInputs, CaptureOptions, CudaGraphConfig, Cx, Engine, LoadCx, Location, Node,
    NodeEntry, On, Registry, Resource, Result, Shape, Statics, StepRequests, SubmoduleStep,
};
use graph_host::Host;
use llama_plugin::{LlamaModel, LlamaNode};

use crate::engine::{build, ingest, options, remove, step};

/// The llama node, whose forwards are counted; it keeps its model for whoever built it.
struct Probe(LlamaNode<Host>);

thread_local! {
    static FORWARDS: Cell<usize> = const { Cell::new(0) };
    static MODEL: RefCell<Option<Arc<LlamaModel<Host>>>> = const { RefCell::new(None) };
}

impl Node<Host> for Probe {
    type Submodule = LlamaModel<Host>;
    fn configs(model: &LlamaModel<Host>) -> Vec<Box<dyn CudaGraphConfig>> {
        LlamaNode::configs(model)
    }
    fn resources(
        model: &Arc<LlamaModel<Host>>,
        cx: &LoadCx<'_, Host>,
    ) -> Result<Vec<Box<dyn Resource<Host>>>> {
        LlamaNode::resources(model, cx)
    }
    fn declare_step(&self, forward: &str, call: &StepRequests<'_>, step: &mut SubmoduleStep) -> Result<()> {
        self.0.declare_step(forward, call, step)
    }
    fn make_static_inputs(model: &LlamaModel<Host>, forward: &str, shape: &Shape, statics: &mut Statics) {
        LlamaNode::make_static_inputs(model, forward, shape, statics);
    }
    fn bind(model: Arc<LlamaModel<Host>>, cx: &mut BindCx<'_, Host>) -> Result<Self> {
        MODEL.set(Some(model.clone()));
        LlamaNode::bind(model, cx).map(Probe)
    }
    fn forward(&mut self, forward: &str, cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
        FORWARDS.set(FORWARDS.get() + 1);
        self.0.forward(forward, cx, call)
    }
    fn set_slot(&mut self, slot: usize) {
        self.0.set_slot(slot);
    }
    fn set_eager(&mut self, eager_only: bool) {
        self.0.set_eager(eager_only);
    }
}

/// An engine whose llama node is a probe, and its model.
pub(crate) fn probed() -> (Engine<Host>, Arc<LlamaModel<Host>>) {
    let linked = Registry::collect().expect("no duplicates");
    let llama = linked.node("llama").expect("linked");
    let at = Location { krate: "it", file: file!(), line: line!() };
    let on = vec![On::node::<Host, Probe>()].leak();
    let probe = Box::leak(Box::new(NodeEntry { name: "llama", forwards: llama.forwards, at, on }));
    let registry = Registry::from_entries(linked.regions().to_vec(), vec![probe], Vec::new());
    let engine = build(&registry.expect("no duplicates"), options(), CaptureOptions::default());
    (engine, MODEL.take().expect("bound"))
}

#[test]
fn a_captured_forward_runs_no_code_of_its_own_in_1000_replays() {
    let (mut engine, _) = probed();
    let captured = FORWARDS.take();
    assert_eq!(captured, 5 * 3 * 2, "two warm-ups and a capture of each bucket on each slot");
    let issued = engine.device().issued();
    let mut first = Vec::new();
    for i in 0..1000 {
        // Afresh every time: otherwise its context would grow.
        ingest(&mut engine, [1, 2]);
        let logits = step(&mut engine, "decode", i, &[(1, &[84]), (2, &[104])]).expect("a replay");
        match i {
            0 => first = logits,
            _ => assert_eq!(logits, first),
        }
        remove(&mut engine, [1, 2]);
    }
    assert_eq!(FORWARDS.get(), 0);
    let issued = engine.device().issued() - issued;
    assert_eq!(issued, 5 * 1000, "two samplers' rows, a launch, and reading logits and tokens back");

    ingest(&mut engine, [1, 2]);
    engine.node("llama").expect("there").set_eager(true);
    assert_eq!(step(&mut engine, "decode", 0, &[(1, &[84]), (2, &[104])]).expect("eager"), first);
    assert_eq!(FORWARDS.get(), 1);
}

#[test]
fn a_prefill_of_replays_issues_only_what_is_eager() {
    let (mut engine, model) = probed();
    let layers = model.config().num_hidden_layers as u64;
    let tokens = [84, 111, 32, 98, 101];
    let mut issues = |eager| {
        engine.node("llama").expect("there").set_eager(eager);
        ingest(&mut engine, [1]);
        let before = engine.device().issued();
        let logits = step(&mut engine, "prefill", 0, &[(1, &tokens)]).expect("a step");
        let issued = engine.device().issued() - before;
        remove(&mut engine, [1]);
        (issued, logits)
    };
    let (replayed, logits) = issues(false);
    // Per layer: two launches, a store, attention, and the copy of its result; around them the embedding's launch, the
    // last rows, the norm, the head and the sampler; the rest are uploads and reading back.
    let kernels = 5 * layers + 5;
    assert!((kernels..kernels + 14).contains(&replayed), "{replayed}");
    let (eager, same) = issues(true);
    assert!(eager > replayed + 8 * layers, "{eager}");
    assert_eq!(logits, same);
}
