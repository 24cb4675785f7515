//! The sampler: the resource.

use graph_core::{
    AdmitOutcome, Backend, Dependencies, Elem, ErrorKind, IoSchema, Options, Pad, RequestId, Resource,
    ResourceStep, Resources, Result, Shape, Source, Statics, StepContext, Tensor,
};

use rustc_hash::FxHashMap;

use crate::{SampleParams, SamplerRow, slots::SlotPlans};

const SAMPLER: &str = "sampler";
static INPUTS: [IoSchema; 1] = [IoSchema::host("row", Elem::I32, 1, "[bs]").pad(Pad::i32(0))];

/// How each request's tokens are drawn, resource `sampler`.
///
/// A request's [`SampleParams`] are given at its start, in the options of `ingest`; without them it is greedy. They get
/// a row of [`SamplerState`] on the device, with the request's counter, which the sampling kernel advances: so a replay
/// draws fresh numbers, and the numbers depend on the seed and on how many were drawn before, never on the batch, the
/// slot, or whether the step was captured. A request that is removed and comes back goes on where it was with
/// [`counter`](Sampler::counter).
///
/// The planned input `row` (i32 `[bs]`) has the row of each segment; padding rows have row 0, the sink, whose state
/// never changes. A segment without tokens has the sink too: a prompt's part that draws no token yet.
///
/// ```
/// use graph_core::{Options, RequestId, Steps};
/// use graph_host::Host;
/// use graph_resources::{SampleParams, Sampler};
/// let mut steps = Steps::<Host>::new("node", vec![Box::new(Sampler::<Host>::new(32)?)])?;
/// let params = SampleParams::seeded(42).temperature(0.8).top_k(40).top_p(0.95);
/// steps.ingest(RequestId(7), &Options::default().with(params))?;
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Sampler<B: Backend> {
    /// Requests with a row.
    requests: FxHashMap<RequestId, Drawing>,
    /// The next row to take is last.
    free: Vec<u32>,
    most: usize,
    /// Where ingest writes, once it is there.
    device: Option<(SamplerState<B>, B::Stream)>,
    plans: SlotPlans<1>,
}

/// A request's row.
#[derive(Debug)]
struct Drawing {
    row: u32,
    /// As on the device after the committed steps.
    state: SamplerRow,
    open: bool,
}

/// The rows of all requests on the device: forwards ask for it with `cx.resource::<SamplerState<B>>()`.
///
/// ```
#[doc = include_str!("doc/node.md")]
/// fn forward(cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
///     let words = cx.resource::<SamplerState<Host>>()?.words();
///     let reads = (call.inputs.get::<f32, 2>("logits")?, cx.planned::<i32, 1>("sampler", "row")?);
///     let writes = (words.view_mut(), call.outputs.get::<i32, 1>("token")?);
///     cx.stream().kernel("sample", reads, writes, |(logits, rows), (words, tokens)| {
///         sample_rows(logits, rows, words, tokens);
///     })
/// }
/// # let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// # let stream = engine.stream().clone();
/// # let node = engine.node("toy")?;
/// # let logits = [0.5_f32, 2.0, 1.0, 0.0];
/// # let logits = HostTensor::new(&logits, [1, 4])?;
/// # let inputs = [("logits", Source::host(&logits))];
/// node.ingest(RequestId(7), &Options::default())?; // without `SampleParams` it is greedy
/// let call = NodeCall { requests: &[RequestId(7)], seq_lens: &[1], inputs: &inputs, slot: 0 };
/// let token = node.run("decode", &call)?.into_out().take::<i32, 1>("token")?.to_vec(&stream)?;
/// assert_eq!(token, [1]);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct SamplerState<B: Backend>(Tensor<B, u32, 2>);

impl<B: Backend> SamplerState<B> {
    /// `[rows, SamplerRow::WORDS]`, as [`SamplerRow::to_words`] has them.
    pub fn words(&self) -> &Tensor<B, u32, 2> {
        &self.0
    }
}

impl<B: Backend> Clone for SamplerState<B> {
    fn clone(&self) -> Self {
        SamplerState(self.0.clone())
    }
}

impl<B: Backend> Sampler<B> {
    /// A sampler for `most` requests at a time.
    ///
    /// # Errors
    /// [`ZeroSize`](ErrorKind::ZeroSize) for none, [`SizeTooLarge`](ErrorKind::SizeTooLarge) for more than an `i32` counts.
    pub fn new(most: usize) -> Result<Self> {
        if most == 0 {
            return Err(ErrorKind::ZeroSize { name: SAMPLER.into(), list: "requests" }.into());
        }
        if i32::try_from(most).is_err() {
            let (list, size, most) = ("requests", most, i32::MAX as usize);
            return Err(ErrorKind::SizeTooLarge { name: SAMPLER.into(), list, size, most }.into());
        }
        Ok(Sampler {
            requests: FxHashMap::default(),
            free: (1..=most as u32).rev().collect(),
            most,
            device: None,
            plans: SlotPlans::new(),
        })
    }

    /// A request's counter after its committed steps; `None` for an unknown request.
    pub fn counter(&self, request: RequestId) -> Option<u64> {
        self.requests.get(&request).map(|drawing| drawing.state.counter)
    }

    /// A request's row; `None` for an unknown request.
    pub fn row(&self, request: RequestId) -> Option<usize> {
        self.requests.get(&request).map(|drawing| drawing.row as usize)
    }

    fn each(&mut self, step: &ResourceStep<'_>, end: fn(&mut Drawing, usize)) {
        for segment in step.segments {
            if let Some(drawing) = self.requests.get_mut(&segment.request) {
                end(drawing, segment.span.len());
            }
        }
    }

    fn open(&mut self, request: RequestId) -> Result<bool> {
        match self.requests.get_mut(&request) {
            Some(drawing) => Ok(!std::mem::replace(&mut drawing.open, true)),
            None => Err(ErrorKind::RequestUnknown { node: SAMPLER, request }.into()),
        }
    }

    fn upload(&self, drawing: &Drawing) -> Result<()> {
        let Some((state, stream)) = &self.device else { return Ok(()) };
        let mut bytes = [0; SamplerRow::WORDS * 4];
        for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(drawing.state.to_words()) {
            *to = word.to_ne_bytes();
        }
        let view = state.0.view();
        B::upload(stream, &bytes, view.buffer(), view.offset() + drawing.row as usize * bytes.len())
    }
}

impl<B: Backend> Resource<B> for Sampler<B> {
    fn name(&self) -> &'static str {
        SAMPLER
    }
    fn inputs(&self) -> &'static [IoSchema] {
        &INPUTS
    }
    fn make_static_inputs(&self, shape: &Shape, statics: &mut Statics) {
        statics.input("row", [shape.bs]);
    }
    fn claim(&mut self, shape: &Shape) -> Result<()> {
        self.plans.claim([shape.bs]);
        Ok(())
    }
    fn allocate(&mut self, device: &B, stream: &B::Stream, slots: usize) -> Result<()> {
        self.plans.allocate(slots);
        // Zeros are the sink's state, too.
        let words = Tensor::zeros(device, stream, [self.most + 1, SamplerRow::WORDS])?;
        self.device = Some((SamplerState(words), stream.clone()));
        self.requests.values().try_for_each(|drawing| self.upload(drawing))
    }
    fn share(&self, into: &mut Resources) {
        if let Some((state, _)) = &self.device {
            into.insert(state.clone());
        }
    }
    fn ingest(&mut self, request: RequestId, info: &Options) -> Result<()> {
        let params = info.get::<SampleParams>().copied().unwrap_or_default();
        params.check()?;
        if self.requests.contains_key(&request) {
            return Err(ErrorKind::RequestKnown { node: SAMPLER, request }.into());
        }
        let Some(row) = self.free.last().copied() else {
            return Err(ErrorKind::TooManyRequests { resource: SAMPLER, most: self.most }.into());
        };
        let drawing = Drawing { row, state: SamplerRow::new(&params), open: false };
        self.upload(&drawing)?;
        self.free.pop();
        self.requests.insert(request, drawing);
        Ok(())
    }
    fn remove(&mut self, request: RequestId) {
        self.free.extend(self.requests.remove(&request).map(|drawing| drawing.row));
    }
    fn admit(&mut self, step: &ResourceStep<'_>) -> Result<AdmitOutcome> {
        for (i, segment) in step.segments.iter().enumerate() {
            let (request, label) = (segment.request, segment.label);
            let opened = self.open(request).and_then(|fresh| match fresh {
                true => Ok(()),
                false => Err(ErrorKind::SegmentTwice { resource: SAMPLER, request, label }.into()),
            });
            if let Err(error) = opened {
                self.each(&ResourceStep { segments: &step.segments[..i] }, |drawing, _| drawing.open = false);
                return Err(error);
            }
        }
        Ok(AdmitOutcome::Admitted)
    }
    fn plan(
        &mut self,
        step: &ResourceStep<'_>,
        cx: &StepContext<'_>,
        _dependencies: Dependencies<'_, B>,
    ) -> Result<()> {
        let (requests, [rows]) = (&self.requests, self.plans.begin(cx.slot));
        for segment in step.segments {
            let row = match segment.span.is_empty() {
                true => None,
                false => requests.get(&segment.request).map(|drawing| drawing.row),
            };
            rows.push(row.unwrap_or(0) as i32);
        }
        Ok(())
    }
    fn planned(&self, slot: usize, _input: usize) -> Source<'_, B> {
        self.plans.planned(slot, 0)
    }
    fn commit(&mut self, step: &ResourceStep<'_>) {
        self.each(step, |drawing, tokens| {
            // One that was removed meanwhile, and came back, has drawn nothing.
            let open = std::mem::take(&mut drawing.open);
            let draws = open && tokens > 0 && drawing.state.temperature > 0.0;
            drawing.state.counter = drawing.state.counter.wrapping_add(u64::from(draws));
        });
    }
    fn rollback(&mut self, step: &ResourceStep<'_>) {
        self.each(step, |drawing, _| drawing.open = false);
    }
    /// Plans are host memory of their slot, and counters advance on the device.
    fn supports_preplan(&self) -> bool {
        true
    }
    /// No row has drawn anything: warm-ups and captures draw on the sink.
    fn validate_capture(&self, stream: &B::Stream) -> Result<()> {
        let Some((state, _)) = &self.device else { return Ok(()) };
        let words = state.0.to_vec(stream)?;
        let rows = words.as_chunks::<{ SamplerRow::WORDS }>().0.iter().enumerate();
        let of = |row: usize| self.requests.values().find(|d| d.row as usize == row);
        let known = |row: usize| of(row).map_or(SamplerRow::SINK, |d| d.state);
        match rows.into_iter().find(|(row, words)| **words != known(*row).to_words()) {
            None => Ok(()),
            Some((row, _)) => {
                Err(ErrorKind::StateChanged { resource: SAMPLER, what: format!("row {row}") }.into())
            }
        }
    }
    fn claimed_bytes(&self, _slots: usize) -> usize {
        (self.most + 1) * SamplerRow::WORDS * 4
    }
    fn device_bytes(&self) -> usize {
        self.device.as_ref().map_or(0, |(state, _)| state.0.view().len() * 4)
    }
}
