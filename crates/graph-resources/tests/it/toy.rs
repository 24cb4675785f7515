//! A small node: each token's number goes into its K row, and a row's output is a sum over its whole stream.

use std::sync::Arc;

use graph_core::{
    BatchedCudaGraphConfig, BindCx, CallInputs, CaptureOptions, CudaGraphConfig, Cx, Elem, Engine, Forward,
    IoSchema, KeyInfo, Label, LoadCx, Location, Node, NodeCall, NodeEntry, NodeInputs, NodeRunner, On,
    Options, PackedCudaGraphConfig, Pad, Registry, RequestId, Resource, Result, Schema, Shape, Source,
    Statics, StepRequests, Submodule, SubmoduleStep, WholeOutcome,
};
use graph_host::{Host, Stream};
use graph_resources::{
    AttentionLaunch, AttentionPlan, KvOptions, KvPages, PagedKv, Sampler, SamplerState, sample_rows,
};

/// Elements of a partial result.
const PARTIAL: usize = 3;

/// Tokens that can be drawn.
pub(crate) const VOCABULARY: usize = 11;

/// The resources of a node.
pub(crate) type BoxedResources = Vec<Box<dyn Resource<Host>>>;

/// What a test asks of the toy: an option of its loader.
#[derive(Clone)]
pub(crate) struct Toy {
    pub(crate) kv: KvOptions,
    pub(crate) requests: usize,
    pub(crate) configs: fn() -> Vec<Box<dyn CudaGraphConfig>>,
    /// More resources, or others.
    pub(crate) adapt: fn(&LoadCx<'_, Host>, BoxedResources) -> BoxedResources,
    pub(crate) splits: fn(usize) -> usize,
    /// More resources that steps declare, without segments.
    pub(crate) extra: &'static [&'static str],
    /// The forward writes where it must not.
    pub(crate) wild: Wild,
    /// Steps leave out the sampler, which the forward reads.
    pub(crate) undeclared: bool,
}

/// What a forward writes although nothing planned it.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Wild {
    No,
    /// A row of the page behind the padding page.
    Keys,
    /// A request's row of the sampler.
    Sampler,
}

impl Default for Toy {
    /// 40 pages of 4 tokens; decode for 1, 2 and 4 requests, prefill of 8 and 16 tokens, guided for 2 and 4.
    fn default() -> Self {
        Toy {
            kv: KvOptions::new(40, 4).max_tokens(40),
            requests: 8,
            configs: default_configs,
            adapt: |_, resources| resources,
            splits: |_| 1,
            extra: &[],
            wild: Wild::No,
            undeclared: false,
        }
    }
}

fn default_configs() -> Vec<Box<dyn CudaGraphConfig>> {
    let decode = BatchedCudaGraphConfig::new("decode", NodeInputs::new(1))
        .capture_batch_sizes([1, 2, 4])
        .replay_graph_walks(["decode", "speak"]);
    let louder = BatchedCudaGraphConfig::new("decode", NodeInputs::new(1))
        .capture_batch_sizes([2])
        .capture_forward_method("forward_louder")
        .additional_key_info(KeyInfo::Str("loud".into()));
    let prefill = PackedCudaGraphConfig::new("prefill", [8, 16], NodeInputs::new).capture_batch_sizes([1, 4]);
    let guided = BatchedCudaGraphConfig::new("guided", NodeInputs::new(1))
        .capture_batch_sizes([2, 4])
        .capture_forward_method("forward_guided")
        .total_tokens_multiplier(2);
    vec![Box::new(decode), Box::new(louder), Box::new(prefill), Box::new(guided)]
}

const RESOURCES: &[&str] = &["kv", "attention", "sampler"];
const INPUTS: &[IoSchema] = &[IoSchema::host("token", Elem::I32, 1, "[tokens]").pad(Pad::i32(-1))];
const OUTPUTS: &[IoSchema] =
    &[IoSchema::device("sum", Elem::F32, 1, "[bs]"), IoSchema::device("token", Elem::I32, 1, "[bs]")];
static FORWARDS: [Forward; 3] = [
    Forward::new(Schema::new("toy", "forward_batched", "", INPUTS, OUTPUTS), &["decode", "prefill", "speak"])
        .resources(RESOURCES),
    Forward::new(Schema::new("toy", "forward_guided", "", INPUTS, OUTPUTS), &["guided"]).resources(RESOURCES),
    Forward::new(Schema::new("toy", "forward_louder", "", INPUTS, OUTPUTS), &[]).resources(RESOURCES),
];

impl Submodule<Host> for Toy {
    fn load(cx: &LoadCx<'_, Host>) -> Result<Self> {
        Ok(cx.options.get::<Toy>().cloned().unwrap_or_default())
    }
}

pub(crate) struct ToyNode(Arc<Toy>);

impl Node<Host> for ToyNode {
    type Submodule = Toy;

    fn configs(model: &Toy) -> Vec<Box<dyn CudaGraphConfig>> {
        (model.configs)()
    }
    fn resources(model: &Arc<Toy>, cx: &LoadCx<'_, Host>) -> Result<Vec<Box<dyn Resource<Host>>>> {
        let splits = model.splits;
        let attention = AttentionPlan::new(&model.kv)
            .streams_per_request(2)
            .splits(move |_, longest| splits(longest))
            .partials(PARTIAL);
        let resources: Vec<Box<dyn Resource<Host>>> = vec![
            Box::new(attention),
            Box::new(Sampler::new(model.requests)?),
            Box::new(PagedKv::new(model.kv)?),
        ];
        Ok((model.adapt)(cx, resources))
    }
    fn declare_step(&self, forward: &str, call: &StepRequests<'_>, step: &mut SubmoduleStep) -> Result<()> {
        let labels: &[Label] = match forward {
            "forward_guided" => &[COND, UNCOND],
            _ => &[Label::MAIN],
        };
        for resource in ["kv", "attention"] {
            let mut part = step.resource(resource);
            for (request, len) in call.requests.iter().zip(call.seq_lens) {
                for label in labels {
                    part.segment(*request, *label, len / labels.len());
                }
            }
        }
        for resource in self.0.extra {
            step.resource(resource);
        }
        if !self.0.undeclared {
            let mut sampler = step.resource("sampler");
            for request in call.requests {
                sampler.segment(*request, Label::MAIN, 1);
            }
        }
        Ok(())
    }
    fn make_static_inputs(_: &Toy, _: &str, shape: &Shape, statics: &mut Statics) {
        statics.input("token", [shape.total_tokens]).output("sum", [shape.bs]).output("token", [shape.bs]);
    }
    fn bind(toy: Arc<Toy>, _: &mut BindCx<'_, Host>) -> Result<Self> {
        Ok(ToyNode(toy))
    }
    fn forward(&mut self, forward: &str, cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
        let (pages, state) = (cx.resource::<KvPages<Host>>()?, cx.resource::<SamplerState<Host>>()?);
        let attention = cx.resource::<AttentionLaunch<Host>>()?;
        let (launch, partials) = (attention.shape(cx), attention.partials(cx)?);
        assert!(launch.splits > 0 && launch.rows == 2 * cx.dims().bs);
        assert_eq!(partials.dims(), [cx.dims().tokens, launch.splits, PARTIAL]);
        cx.stream().kernel("partials", (), (partials.view_mut(),), |(), (partials,)| partials.fill(0.0))?;
        let (keys, dim, page_size) = (pages.keys(0)?, pages.keys(0)?.dims()[1], pages.page_size());
        let token = call.inputs.get::<i32, 1>("token")?;
        let slot_mapping = cx.planned::<i32, 1>("kv", "slot_mapping")?;
        let positions = cx.planned::<i32, 1>("attention", "positions")?;
        let write = move |(tokens, rows, positions): (&[i32], &[i32], &[i32]), (keys,): (&mut [f32],)| {
            for ((token, row), position) in tokens.iter().zip(rows).zip(positions) {
                let value = value(*token, *position as usize);
                keys[*row as usize * dim..][..dim].fill(value);
            }
        };
        cx.stream().kernel("write", (token, slot_mapping, positions), (keys.view_mut(),), write)?;

        match self.0.wild {
            Wild::No => {}
            Wild::Keys => {
                let wild = keys.view_mut().rows(page_size..page_size + 1)?;
                cx.stream().kernel("wild", (), (wild,), |(), (wild,)| wild.fill(1.0))?;
            }
            Wild::Sampler => {
                let wild = state.words().view_mut().rows(3..4)?;
                cx.stream().kernel("wild", (), (wild,), |(), (wild,)| wild[2] += 1)?;
            }
        }

        let per_request = if forward == "forward_guided" { 2 } else { 1 };
        let loud = if forward == "forward_louder" { 100.0 } else { 1.0 };
        let plan = |name| cx.planned::<i32, 1>("attention", name);
        let (indptr, indices, last) = (plan("page_indptr")?, plan("page_indices")?, plan("last_page_len")?);
        let sum = call.outputs.get::<f32, 1>("sum")?;
        cx.stream().kernel(
            "attend",
            (keys.view(), indptr, indices, last),
            (sum,),
            move |(keys, indptr, indices, last), (sum,)| {
                let of_row = |row: usize| -> f32 {
                    let pages = &indices[indptr[row] as usize..indptr[row + 1] as usize];
                    let tokens = (pages.len() * page_size + last[row] as usize).saturating_sub(page_size);
                    (0..tokens)
                        .map(|i| keys[(pages[i / page_size] as usize * page_size + i % page_size) * dim])
                        .sum()
                };
                for (r, sum) in sum.iter_mut().enumerate() {
                    let row = r * per_request;
                    // Guidance: how far apart the two streams are.
                    *sum = loud * if per_request == 2 { of_row(row) - of_row(row + 1) } else { of_row(row) };
                }
            },
        )?;

        let logits = cx.scratch::<f32, 2>([cx.dims().bs, VOCABULARY])?;
        cx.stream().kernel("logits", (sum.read(),), (logits.view_mut(),), |(sum,), (logits,)| {
            for (sum, logits) in sum.iter().zip(logits.chunks_exact_mut(VOCABULARY)) {
                logits.copy_from_slice(&logits_of(*sum));
            }
        })?;
        let row = cx.planned::<i32, 1>("sampler", "row")?;
        let (state, token) = (state.words().view_mut(), call.outputs.get::<i32, 1>("token")?);
        cx.stream().kernel("sample", (logits.view(), row), (state, token), |(logits, row), (state, token)| {
            sample_rows(logits, row, state, token)
        })
    }
}

pub(crate) const COND: Label = Label("cond");
pub(crate) const UNCOND: Label = Label("uncond");

/// What a token adds to the sum at a position.
pub(crate) fn value(token: i32, position: usize) -> f32 {
    token as f32 * (1 + position % 7) as f32
}

pub(crate) fn logits_of(sum: f32) -> [f32; VOCABULARY] {
    std::array::from_fn(|i| ((sum as i64 * 31 + i as i64 * 17).rem_euclid(13)) as f32 / 4.0)
}

/// The sum of a whole stream.
pub(crate) fn sum_of(tokens: &[i32]) -> f32 {
    tokens.iter().enumerate().map(|(i, token)| value(*token, i)).sum()
}

pub(crate) fn registry() -> Registry {
    static ENTRY: NodeEntry = NodeEntry {
        name: "toy",
        forwards: &FORWARDS,
        at: Location { krate: "graph-resources", file: "tests/it/toy.rs", line: 1 },
        on: &[On::node::<Host, ToyNode>()],
    };
    Registry::from_entries(vec![], vec![&ENTRY], vec![]).unwrap()
}

/// An engine with the toy, and its stream.
pub(crate) struct Built {
    pub(crate) engine: Engine<Host>,
    pub(crate) stream: Stream,
    pub(crate) host: Host,
}

pub(crate) fn build(toy: Toy) -> Built {
    build_with(toy, CaptureOptions::default()).unwrap()
}

pub(crate) fn build_with(toy: Toy, capture: CaptureOptions) -> Result<Built> {
    let host = Host::new();
    let options = Options::default().with(toy);
    let builder = Engine::builder(host.clone()).options(options).capture_options(capture);
    let engine = builder.build(&registry())?;
    Ok(Built { stream: engine.stream().clone(), engine, host })
}

impl Built {
    pub(crate) fn node(&mut self) -> &mut NodeRunner<Host> {
        self.engine.node("toy").unwrap()
    }

    pub(crate) fn kv(&mut self) -> &PagedKv<Host> {
        self.node().steps().get::<PagedKv<Host>>().unwrap()
    }

    /// One step; sums and drawn tokens of the real rows, and whether it was replayed.
    pub(crate) fn step(
        &mut self,
        walk: &str,
        key: Option<&KeyInfo>,
        slot: usize,
        rows: &[(u64, &[i32])],
    ) -> Result<Stepped> {
        let requests: Vec<RequestId> = rows.iter().map(|(id, _)| RequestId(*id)).collect();
        let seq_lens: Vec<usize> = rows.iter().map(|(_, tokens)| tokens.len()).collect();
        let tokens: Vec<i32> = rows.iter().flat_map(|(_, tokens)| tokens.iter().copied()).collect();
        let slice = tokens.as_slice();
        let inputs = [("token", Source::host(&slice))];
        let call = NodeCall { requests: &requests, seq_lens: &seq_lens, inputs: &inputs, slot };
        let stream = self.stream.clone();
        let outcome = self.node().run_keyed(walk, key, &call)?;
        let replayed = matches!(outcome, WholeOutcome::Replayed(_));
        let mut out = outcome.into_out();
        Ok(Stepped {
            sums: out.take::<f32, 1>("sum")?.to_vec(&stream)?,
            tokens: out.take::<i32, 1>("token")?.to_vec(&stream)?,
            replayed,
        })
    }
}

#[derive(Debug, PartialEq)]
pub(crate) struct Stepped {
    pub(crate) sums: Vec<f32>,
    pub(crate) tokens: Vec<i32>,
    pub(crate) replayed: bool,
}
