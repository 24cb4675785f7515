//! The llama node with an alias of its decode walk: another walk that replays the same graphs.

use std::sync::Arc;

use graph_core::{
    BatchedCudaGraphConfig, BindCx, BucketLists, CallInputs, CaptureOptions, CudaGraphConfig, Cx, Engine,
    Forward, LoadCx, Location, Node, NodeEntry, NodeInputs, On, Options, Registry, Resource, Result, Shape,
    SizeList, Statics, StepRequests, SubmoduleStep,
};
use graph_host::Host;
use llama_plugin::{LlamaModel, LlamaNode, LlamaOptions, Prefill};

/// The walk that nothing is captured for under its own name.
pub(crate) const ALIAS: &str = "decode_alias";

struct Aliased(LlamaNode<Host>);

impl Node<Host> for Aliased {
    type Submodule = LlamaModel<Host>;
    fn configs(_: &LlamaModel<Host>) -> Vec<Box<dyn CudaGraphConfig>> {
        let decode = BatchedCudaGraphConfig::new("decode", NodeInputs::new(1));
        let decode = decode.capture_batch_sizes([1, 2, 4, 8]).replay_graph_walks(["decode", ALIAS]);
        vec![Box::new(decode)]
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
        LlamaNode::bind(model, cx).map(Aliased)
    }
    fn forward(&mut self, forward: &str, cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
        self.0.forward(forward, cx, call)
    }
    fn set_slot(&mut self, slot: usize) {
        self.0.set_slot(slot);
    }
    fn set_eager(&mut self, eager_only: bool) {
        self.0.set_eager(eager_only);
    }
}

/// An engine whose llama node has the alias, captured at few sizes.
pub(crate) fn engine(options: LlamaOptions) -> Engine<Host> {
    let linked = Registry::collect().expect("no duplicates");
    let llama = linked.node("llama").expect("linked");
    let at = Location { krate: "schedules", file: file!(), line: line!() };
    let on = vec![On::node::<Host, Aliased>()].leak();
    // The alias runs eagerly, too, where no graph is to be replayed.
    let walks = |f: &Forward| if f.walks == ["decode"] { &["decode", ALIAS] } else { f.walks };
    let forwards: Vec<_> = llama.forwards.iter().map(|f| Forward { walks: walks(f), ..*f }).collect();
    let mine = Box::leak(Box::new(NodeEntry { name: "llama", forwards: forwards.leak(), at, on }));
    let registry = Registry::from_entries(linked.regions().to_vec(), vec![mine], Vec::new());
    let mut lists = BucketLists::default();
    let regions: &[&str] = match options.prefill {
        Prefill::Piecewise => &["llama.embed", "llama.qkv", "llama.mlp"],
        Prefill::BlockLoop => &["llama.embed", "llama.block_loop"],
    };
    for region in regions {
        let batch_sizes = (*region == "llama.block_loop").then(|| vec![4, 32]);
        let list = SizeList { total_tokens: Some(vec![8, 32]), batch_sizes };
        lists.insert(*region, list).expect("sizes");
    }
    Engine::builder(Host::new())
        .nodes(["llama"])
        .options(Options::default().with(options))
        .capture_options(CaptureOptions::default())
        .bucket_lists(lists)
        .build(&registry.expect("no duplicates"))
        .expect("an engine")
}
