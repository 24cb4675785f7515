//! Packed attention: what kernels need to find each row's queries, pages and positions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graph_core::{
    AdmitOutcome, Backend, Dependencies, Dims, Elem, ErrorKind, GraphBuffers, IoSchema, Options, Pad,
    RequestId, Resource, ResourceStep, Resources, Result, Shape, Source, Statics, StepContext,
};

use crate::{
    AttentionLaunch, KvOptions, LaunchShape, LaunchShapes, PagedKv,
    attention_launch::{Launches, PARTIALS},
    kv::KV,
    slots::SlotPlans,
};

const ATTENTION: &str = "attention";

const INPUTS: [IoSchema; 5] = [
    IoSchema::host("indptr", Elem::I32, 1, "[bs + 1]").pad(Pad::RepeatLast),
    IoSchema::host("page_indptr", Elem::I32, 1, "[bs + 1]").pad(Pad::RepeatLast),
    IoSchema::host("page_indices", Elem::I32, 1, "[bs * max_pages]").pad(Pad::i32(0)),
    IoSchema::host("last_page_len", Elem::I32, 1, "[bs]").pad(Pad::i32(0)),
    IoSchema::host("positions", Elem::I32, 1, "[tokens]").pad(Pad::i32(0)),
];

/// The plan of packed attention over a [`PagedKv`], resource `attention`.
///
/// Row `r` of the plan is segment `r` of the step. Its planned inputs, all i32:
///
/// | input | size | what row `r` has | padding |
/// |---|---|---|---|
/// | `indptr` | `[bs + 1]` | its queries are tokens `indptr[r]..indptr[r + 1]` of the step | no queries |
/// | `page_indptr` | `[bs + 1]` | its pages are entries `page_indptr[r]..page_indptr[r + 1]` of `page_indices` | no pages |
/// | `page_indices` | `[bs * max_pages]` | pages in token order, the pages of this step's tokens included | the padding page |
/// | `last_page_len` | `[bs]` | tokens in its last page; 0 without pages | 0 |
/// | `positions` | `[tokens]` | each query's place in its stream: the queries are the last tokens of the context | 0 |
///
/// `bs` counts streams: where a step packs two labels of each request into one sequence, say so with
/// [`streams_per_request`](AttentionPlan::streams_per_request).
///
/// # Why it is a resource of its own
/// A step that writes K and V without attending (a cache that is filled from elsewhere), or attends without writing (a
/// second look at the same context), declares one of the two. And what a forward does not read is not uploaded. It
/// depends on `kv`, which is admitted before anything is planned, so a plan sees the pages that the step has reserved.
///
/// # Launch shapes
/// A kernel whose grid depends on the contexts bakes it into the graph. [`splits`](AttentionPlan::splits) names such a
/// number; [`AttentionLaunch`] gives it to the kernel, and a plan that needs another one than the bucket was captured
/// with is [`ErrorKind::LaunchShape`](graph_core::ErrorKind::LaunchShape), not a wrong result.
///
/// # Example
///
/// ```
/// use graph_core::{Dims, Label, Options, RequestId, Resource, Row, StepContext, Steps};
/// use graph_host::Host;
/// use graph_resources::{AttentionPlan, KvOptions, PagedKv};
///
/// let options = KvOptions::new(8, 4); // 8 pages of 4 tokens
/// let kv = PagedKv::new(options)?;
/// let mut steps = Steps::<Host>::new("node", vec![Box::new(kv), Box::new(AttentionPlan::new(&options))])?;
/// steps.ingest(RequestId(7), &Options::default())?;
/// let step = steps.declare(|step| {
///     step.resource("kv").segment(RequestId(7), Label::MAIN, 5);
///     step.resource("attention").segment(RequestId(7), Label::MAIN, 5);
///     Ok(())
/// })?;
/// # let rows = [Row::Request(RequestId(7))];
/// # let padded = Dims { bs: 1, tokens: 5 };
/// # let cx = StepContext { slot: 0, rows: &rows, real_bs: 1, padded, captured: false };
/// let mut step = step.admit()?.plan(&cx)?;
///
/// let plan = step.inside().get::<AttentionPlan<Host>>().unwrap();
/// let input = |i: usize| plan.planned(0, i).values::<i32>().unwrap();
/// assert_eq!(input(2), [1, 2]); // `page_indices`: five tokens, in two pages,
/// assert_eq!(input(3), [1]); // `last_page_len`: one of them in the second
/// assert_eq!(input(4), [0, 1, 2, 3, 4]); // `positions`
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct AttentionPlan<B: Backend> {
    kv: KvOptions,
    streams: usize,
    splits: Box<SplitsFn>,
    /// Elements of a token's partial result; 0 for none.
    partial: usize,
    launches: Arc<Mutex<Launches<B>>>,
    plans: SlotPlans<{ INPUTS.len() }>,
}

type SplitsFn = dyn Fn(Dims, usize) -> usize + Send;

impl<B: Backend> AttentionPlan<B> {
    /// The plan over a cache of these sizes, those of the node's [`PagedKv`]: one stream per request, one split.
    pub fn new(kv: &KvOptions) -> Self {
        let launches = Launches {
            shapes: LaunchShapes::new(ATTENTION),
            eager: LaunchShape { rows: 0, splits: 1 },
            buffers: GraphBuffers::new(ATTENTION),
        };
        AttentionPlan {
            kv: *kv,
            streams: 1,
            splits: Box::new(|_, _| 1),
            partial: 0,
            launches: Arc::new(Mutex::new(launches)),
            plans: SlotPlans::new(),
        }
    }

    /// Streams that a step may continue for each request, such as two under guidance.
    pub fn streams_per_request(mut self, streams: usize) -> Self {
        self.streams = streams.max(1);
        self
    }

    /// Splits of a launch, from its shape and its longest context in tokens. A bucket is captured for the longest
    /// context that the cache allows.
    pub fn splits(mut self, splits: impl Fn(Dims, usize) -> usize + Send + 'static) -> Self {
        self.splits = Box::new(splits);
        self
    }

    /// Graph buffers for partial results of split contexts: `elements` f32 per token and split, see
    /// [`AttentionLaunch::partials`].
    pub fn partials(mut self, elements: usize) -> Self {
        self.partial = elements;
        self
    }

    /// Of each planned input.
    fn lengths(&self, shape: &Shape) -> [usize; INPUTS.len()] {
        let rows = shape.bs * self.streams;
        let pages = rows.saturating_mul(self.kv.max_pages()).min(self.kv.pages.saturating_sub(1));
        [rows + 1, rows + 1, pages, rows, shape.total_tokens]
    }

    fn launch_shape(&self, padded: Dims, longest: usize) -> LaunchShape {
        LaunchShape { rows: padded.bs * self.streams, splits: (self.splits)(padded, longest) }
    }

    fn launches(&self) -> MutexGuard<'_, Launches<B>> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B: Backend> Resource<B> for AttentionPlan<B> {
    fn name(&self) -> &'static str {
        ATTENTION
    }
    fn depends_on(&self) -> &'static [&'static str] {
        &[KV]
    }
    fn inputs(&self) -> &'static [IoSchema] {
        &INPUTS
    }
    fn make_static_inputs(&self, shape: &Shape, statics: &mut Statics) {
        for (io, len) in INPUTS.iter().zip(self.lengths(shape)) {
            statics.input(io.name, [len]);
        }
    }
    fn claim(&mut self, shape: &Shape) -> Result<()> {
        self.kv.check()?;
        let bucket = shape.dims();
        let launch = self.launch_shape(bucket, self.kv.max_tokens);
        let partials = bucket.tokens * launch.splits * self.partial;
        self.plans.claim(self.lengths(shape));
        let mut launches = self.launches();
        launches.shapes.record(bucket, launch)?;
        match partials {
            0 => Ok(()),
            len => launches.buffers.claim::<f32>(PARTIALS, len),
        }
    }
    fn allocate(&mut self, device: &B, _stream: &B::Stream, slots: usize) -> Result<()> {
        self.plans.allocate(slots);
        self.launches().buffers.allocate(device, slots)
    }
    fn share(&self, into: &mut Resources) {
        into.insert(AttentionLaunch { launches: self.launches.clone(), partial: self.partial });
    }
    fn ingest(&mut self, _request: RequestId, _info: &Options) -> Result<()> {
        Ok(())
    }
    fn remove(&mut self, _request: RequestId) {}
    fn admit(&mut self, _step: &ResourceStep<'_>) -> Result<AdmitOutcome> {
        Ok(AdmitOutcome::Admitted)
    }
    fn plan(
        &mut self,
        step: &ResourceStep<'_>,
        cx: &StepContext<'_>,
        dependencies: Dependencies<'_, B>,
    ) -> Result<()> {
        let kv = dependencies.get::<PagedKv<B>>()?;
        if *kv.options() != self.kv {
            let why = format!("it is for a cache of {:?}, the node's is of {:?}", self.kv, kv.options());
            return Err(ErrorKind::BadDeclaration { owner: ATTENTION.into(), input: KV, why }.into());
        }
        let page_size = self.kv.page_size;
        let plan = self.plans.begin(cx.slot);
        let [indptr, page_indptr, page_indices, last_page_len, positions] = plan;
        indptr.push(0);
        page_indptr.push(0);
        let mut longest = 0;
        for (i, segment) in step.segments.iter().enumerate() {
            let stream = kv.stream_of(i, segment);
            let context = stream.map_or(0, |s| s.committed + s.reserved);
            // As many as the context needs.
            let pages = stream.map_or(&[][..], |s| s.pages);
            page_indices.extend_from_slice(pages);
            indptr.push(segment.span.end as i32);
            page_indptr.push(page_indices.len() as i32);
            last_page_len.push((context - pages.len().saturating_sub(1) * page_size) as i32);
            let first = context.saturating_sub(segment.span.len()) as i32;
            positions.extend((first..).take(segment.span.len()));
            longest = longest.max(context);
        }
        let launch = self.launch_shape(cx.padded, longest);
        let mut launches = self.launches();
        if cx.captured {
            return launches.shapes.check(cx.padded, launch);
        }
        launches.eager = launch;
        Ok(())
    }
    fn planned(&self, slot: usize, input: usize) -> Source<'_, B> {
        self.plans.planned(slot, input)
    }
    fn commit(&mut self, _step: &ResourceStep<'_>) {}
    fn rollback(&mut self, _step: &ResourceStep<'_>) {}
    /// Plans are host memory of their slot.
    fn supports_preplan(&self) -> bool {
        true
    }
    fn claimed_bytes(&self, slots: usize) -> usize {
        self.launches().buffers.claimed_bytes(slots)
    }
    fn device_bytes(&self) -> usize {
        self.launches().buffers.bytes()
    }
}
