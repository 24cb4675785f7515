//! A node over pages, an attention plan and a sampler: each token's number goes into its K row, and a row's output is a
//! sum over its whole stream.

use std::{marker::PhantomData, sync::Arc};

use graph_core::{
    BatchedCudaGraphConfig, BindCx, CallInputs, CaptureOptions, CudaGraphConfig, Cx, Elem, Engine, Forward,
    IoSchema, LoadCx, Node, NodeCall, NodeEntry, NodeInputs, NodeRunner, On, Options, PackedCudaGraphConfig,
    Pad, Registry, RequestId, Resource, Resources, Result, Schema, Shape, Source, Statics, StepRequests,
    Submodule, SubmoduleStep, Tensor, WholeOutcome,
};
use graph_resources::{AttentionPlan, KvOptions, KvPages, PagedKv, Positions, Sampler, SamplerState};
use llama_plugin::{LlamaOps, PagedRows};

use super::region::{AT, Loaded};
use crate::{Bench, SuiteOps};

/// Tokens that can be drawn.
const VOCABULARY: usize = 11;

/// What a case asks of the toy: an option of its loader.
#[derive(Clone, Copy)]
pub(crate) struct Toy {
    pub(crate) kv: KvOptions,
    pub(crate) requests: usize,
    /// The forward writes a row of the page behind the padding page, which nothing planned.
    pub(crate) wild: bool,
}

impl Default for Toy {
    /// 40 pages of 4 tokens. It is captured for decodes of 1, 2 and 4 requests, and prefills of 8 and 16 tokens.
    fn default() -> Self {
        Toy { kv: KvOptions::new(40, 4).max_tokens(40), requests: 8, wild: false }
    }
}

/// The toy, with its kernels and what the sampler's need.
struct Model<B: SuiteOps> {
    toy: Toy,
    ones: Tensor<B, f32, 2>,
    _kernels: (Loaded<B>, <B as LlamaOps>::Kernels),
}

impl<B: SuiteOps> Submodule<B> for Model<B> {
    fn load(cx: &LoadCx<'_, B>) -> Result<Self> {
        let toy = cx.options.get::<Toy>().copied().unwrap_or_default();
        let kernels = (Loaded::new(cx.device)?, <B as LlamaOps>::kernels(cx.device)?);
        Ok(Model { toy, ones: Tensor::from_slice(cx.device, cx.stream, &[1.0], [1, 1])?, _kernels: kernels })
    }
}

const RESOURCES: &[&str] = &["kv", "attention", "positions", "sampler"];
static FORWARDS: [Forward; 1] = [Forward::new(
    Schema::new(
        "toy",
        "forward_batched",
        "",
        &[IoSchema::host("token", Elem::I32, 1, "[tokens]").pad(Pad::i32(-1))],
        &[IoSchema::device("sum", Elem::F32, 1, "[bs]"), IoSchema::device("token", Elem::I32, 1, "[bs]")],
    ),
    &["decode", "prefill"],
)
.resources(RESOURCES)];

struct Paged<B: SuiteOps>(Arc<Model<B>>, PhantomData<B>);

impl<B: SuiteOps> Paged<B> {
    const ON: &'static [On] = &[On::node::<B, Paged<B>>()];
    const ENTRY: &'static NodeEntry = &NodeEntry { name: "toy", forwards: &FORWARDS, at: AT, on: Self::ON };
}

impl<B: SuiteOps> Node<B> for Paged<B> {
    type Submodule = Model<B>;

    fn configs(_: &Model<B>) -> Vec<Box<dyn CudaGraphConfig>> {
        let decode = BatchedCudaGraphConfig::new("decode", NodeInputs::new(1)).capture_batch_sizes([1, 2, 4]);
        let prefill = PackedCudaGraphConfig::new("prefill", [8, 16], NodeInputs::new);
        vec![Box::new(decode), Box::new(prefill.capture_batch_sizes([1, 4]))]
    }
    fn resources(model: &Arc<Model<B>>, _: &LoadCx<'_, B>) -> Result<Vec<Box<dyn Resource<B>>>> {
        Ok(vec![
            Box::new(AttentionPlan::new(&model.toy.kv)),
            Box::new(Sampler::new(model.toy.requests)?),
            Box::new(PagedKv::new(model.toy.kv)?),
            Box::new(Positions::new()),
        ])
    }
    fn declare_step(&self, _: &str, call: &StepRequests<'_>, step: &mut SubmoduleStep) -> Result<()> {
        RESOURCES.iter().for_each(|resource| call.append(resource, step));
        Ok(())
    }
    fn make_static_inputs(_: &Model<B>, _: &str, shape: &Shape, statics: &mut Statics) {
        statics.input("token", [shape.total_tokens]).output("sum", [shape.bs]).output("token", [shape.bs]);
    }
    fn bind(model: Arc<Model<B>>, _: &mut BindCx<'_, B>) -> Result<Self> {
        Ok(Paged(model, PhantomData))
    }
    fn forward(&mut self, _: &str, cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>) -> Result<()> {
        let (pages, state) = (cx.resource::<KvPages<B>>()?, cx.resource::<SamplerState<B>>()?);
        let (s, keys, page_size) = (cx.stream(), pages.keys(0)?, pages.page_size());
        let (token, slots) = (call.inputs.get("token")?, cx.planned("kv", "slot_mapping")?);
        // The cache's own plan of positions and that of the resource which has nothing else must agree.
        B::write_keys(s, token, slots, cx.planned("positions", "positions")?, keys.view_mut())?;
        if self.0.toy.wild {
            keys.view_mut().rows(page_size..page_size + 1)?.copy_from(s, self.0.ones.view())?;
        }
        let rows = PagedRows {
            indptr: cx.planned("attention", "indptr")?,
            page_indptr: cx.planned("attention", "page_indptr")?,
            page_indices: cx.planned("attention", "page_indices")?,
            last_page_len: cx.planned("attention", "last_page_len")?,
            positions: cx.planned("attention", "positions")?,
            page_size,
        };
        let sum = call.outputs.get::<f32, 1>("sum")?;
        B::sum_pages(s, keys.view(), rows, sum)?;
        let logits = cx.scratch::<f32, 2>([cx.dims().bs, VOCABULARY])?;
        B::toy_logits(s, sum.read(), logits.view_mut())?;
        let (row, state) = (cx.planned("sampler", "row")?, state.words().view_mut());
        B::sample(s, logits.view(), row, state, call.outputs.get("token")?)
    }
}

/// What a token adds to the sum at a position.
pub(crate) fn value(token: i32, position: usize) -> f32 {
    (token * (1 + position as i32 % 7)) as f32
}

/// The sum of a whole stream.
pub(crate) fn sum_of(tokens: &[i32]) -> f32 {
    tokens.iter().enumerate().map(|(i, token)| value(*token, i)).sum()
}

/// An engine with the toy.
pub(crate) struct PagedToy<B: SuiteOps> {
    pub(crate) engine: Engine<B>,
    pub(crate) stream: B::Stream,
}

impl<B: SuiteOps> PagedToy<B> {
    pub(crate) fn new(bench: &Bench<B>, toy: Toy) -> Result<Self> {
        Self::with(bench, toy, CaptureOptions::default())
    }

    pub(crate) fn with(bench: &Bench<B>, toy: Toy, capture: CaptureOptions) -> Result<Self> {
        let registry = Registry::from_entries(vec![], vec![Paged::<B>::ENTRY], vec![])?;
        let builder = Engine::builder(bench.device()?).options(Options::default().with(toy));
        let engine = builder.capture_options(capture).build(&registry)?;
        Ok(PagedToy { stream: engine.stream().clone(), engine })
    }

    pub(crate) fn node(&mut self) -> Result<&mut NodeRunner<B>> {
        self.engine.node("toy")
    }

    pub(crate) fn ingest(&mut self, requests: &[u64]) -> Result<()> {
        requests.iter().try_for_each(|r| self.node()?.ingest(RequestId(*r), &Options::default()))
    }

    pub(crate) fn kv(&mut self) -> &PagedKv<B> {
        self.engine.node("toy").ok().and_then(|node| node.steps().get()).expect("the toy has pages")
    }

    /// The K rows of every page.
    pub(crate) fn keys(&mut self) -> Result<Tensor<B, f32, 2>> {
        let mut shared = Resources::default();
        Resource::<B>::share(self.kv(), &mut shared);
        shared.get::<KvPages<B>>()?.keys(0).cloned()
    }

    /// What each page holds, bit by bit.
    pub(crate) fn page_bits(&mut self) -> Result<Vec<Vec<u32>>> {
        let page_size = self.kv().options().page_size;
        let keys = self.keys()?.to_vec(&self.stream)?;
        Ok(keys.chunks(page_size).map(|page| page.iter().map(|x| x.to_bits()).collect()).collect())
    }

    /// One step; sums and drawn tokens of the real rows, and whether it was replayed.
    pub(crate) fn step(&mut self, walk: &str, slot: usize, rows: &[(u64, &[i32])]) -> Result<Stepped> {
        let requests: Vec<RequestId> = rows.iter().map(|(id, _)| RequestId(*id)).collect();
        let seq_lens: Vec<usize> = rows.iter().map(|(_, tokens)| tokens.len()).collect();
        let tokens: Vec<i32> = rows.iter().flat_map(|(_, tokens)| tokens.iter().copied()).collect();
        let slice = tokens.as_slice();
        let inputs = [("token", Source::host(&slice))];
        let call = NodeCall { requests: &requests, seq_lens: &seq_lens, inputs: &inputs, slot };
        let stream = self.stream.clone();
        let outcome = self.node()?.run(walk, &call)?;
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
