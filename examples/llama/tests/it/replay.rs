//! Replay is replay: the forwards' Rust code does not run.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
};

use graph_core::{
    Backend, BindCx, CallInputs, CaptureOptions, CudaGraphConfig, Cx, Engine, Location, Node, NodeEntry, On,
    Registry, Result, Shape, Statics,
};
use graph_host::Host;
use llama_plugin::{LlamaModel, LlamaNode};

use crate::engine::{build, step};

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
    let engine = build(&registry.expect("no duplicates"), CaptureOptions::default());
    (engine, MODEL.take().expect("bound"))
}

#[test]
fn a_captured_forward_runs_no_code_of_its_own_in_1000_replays() {
    let (mut engine, _) = probed();
    let captured = FORWARDS.take();
    assert_eq!(captured, 5 * 3, "two warm-ups and a capture of each bucket");
    let issued = engine.device().issued();
    let mut first = Vec::new();
    for i in 0..1000 {
        let logits = step(&mut engine, "decode", 0, &[(0, 1, &[84]), (0, 2, &[104])]).expect("a replay");
        match i {
            0 => first = logits,
            _ => assert_eq!(logits, first),
        }
    }
    assert_eq!(FORWARDS.get(), 0);
    assert_eq!(engine.device().issued() - issued, 2 * 1000, "a launch, and reading the logits back");

    engine.node("llama").expect("there").set_eager(true);
    assert_eq!(step(&mut engine, "decode", 0, &[(0, 1, &[84]), (0, 2, &[104])]).expect("eager"), first);
    assert_eq!(FORWARDS.get(), 1);
}

#[test]
fn a_prefill_of_replays_issues_only_what_is_eager() {
    let (mut engine, model) = probed();
    let layers = model.config().num_hidden_layers as u64;
    let tokens = [84, 111, 32, 98, 101];
    let mut issues = |eager| {
        engine.node("llama").expect("there").set_eager(eager);
        let before = engine.device().issued();
        let logits = step(&mut engine, "prefill", 0, &[(0, 1, &tokens)]).expect("a step");
        (engine.device().issued() - before, logits)
    };
    let (replayed, logits) = issues(false);
    // Per layer: two launches, two stores, attention, and the copy of its result; around them the embedding's launch,
    // the last rows, the norm and the head; the rest are uploads.
    let kernels = 6 * layers + 4;
    assert!((kernels..kernels + 8).contains(&replayed), "{replayed}");
    let (eager, same) = issues(true);
    assert!(eager > replayed + 8 * layers, "{eager}");
    assert_eq!(logits, same);
}
