//! Positions, for models that keep no pages.

use graph_core::{
    AdmitOutcome, Backend, Dependencies, Elem, ErrorKind, IoSchema, Label, Options, RequestId, Resource,
    ResourceStep, Result, Segment, Shape, Source, Statics, StepContext,
};

use crate::{
    slots::SlotPlans,
    streams::{Streams, Tokens},
};

const POSITIONS: &str = "positions";
/// Tokens of a stream at the most: positions are i32.
const MOST: usize = i32::MAX as usize;
static INPUTS: [IoSchema; 1] = [IoSchema::host("positions", Elem::I32, 1, "[tokens]")];

/// How long each stream is, resource `positions`: for models without a paged cache, such as those that rotate by
/// position and keep their own state. A cache has an [`AttentionPlan`](crate::AttentionPlan), which plans positions too.
///
/// The planned input `positions` (i32 `[tokens]`) counts on from the tokens of committed steps; padding rows have 0.
///
/// ```
/// use graph_core::{Label, Options, RequestId, Steps};
/// use graph_host::Host;
/// use graph_resources::Positions;
/// let mut steps = Steps::<Host>::new("node", vec![Box::new(Positions::new())])?;
/// steps.ingest(RequestId(7), &Options::default())?;
/// assert_eq!(steps.get::<Positions>().unwrap().stream_len(RequestId(7), Label::MAIN), 0);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Positions {
    streams: Streams<Tokens>,
    plans: SlotPlans<1>,
}

impl Positions {
    /// No requests yet.
    pub fn new() -> Self {
        Positions { streams: Streams::new(), plans: SlotPlans::new() }
    }

    /// Tokens of a stream that are committed; 0 for one that never had any.
    pub fn stream_len(&self, request: RequestId, label: Label) -> usize {
        self.streams.get(request, label).map_or(0, |tokens| tokens.committed)
    }

    /// `None` where the tokens are reserved.
    fn reserve(&mut self, i: usize, segment: &Segment) -> Result<Option<AdmitOutcome>> {
        let Segment { request, label, .. } = *segment;
        let stream = self.streams.begin(POSITIONS, i, segment)?;
        let tokens = segment.span.len().saturating_add(stream.committed);
        if tokens > MOST {
            return Ok(Some(AdmitOutcome::TooLong { tokens, most: MOST, request, label }));
        }
        match stream.reserve(segment.span.len()) {
            true => Ok(None),
            false => Err(ErrorKind::SegmentTwice { resource: POSITIONS, request, label }.into()),
        }
    }

    fn each(&mut self, step: &ResourceStep<'_>, end: fn(&mut Tokens)) {
        for (i, segment) in step.segments.iter().enumerate() {
            self.streams.of_mut(i, segment).into_iter().for_each(end);
        }
    }
}

impl Default for Positions {
    fn default() -> Self {
        Self::new()
    }
}

impl<B: Backend> Resource<B> for Positions {
    fn name(&self) -> &'static str {
        POSITIONS
    }
    fn inputs(&self) -> &'static [IoSchema] {
        &INPUTS
    }
    fn make_static_inputs(&self, shape: &Shape, statics: &mut Statics) {
        statics.input("positions", [shape.total_tokens]);
    }
    fn claim(&mut self, shape: &Shape) -> Result<()> {
        self.plans.claim([shape.total_tokens]);
        Ok(())
    }
    fn allocate(&mut self, _device: &B, _stream: &B::Stream, slots: usize) -> Result<()> {
        self.plans.allocate(slots);
        Ok(())
    }
    fn ingest(&mut self, request: RequestId, _info: &Options) -> Result<()> {
        self.streams.ingest(POSITIONS, request)
    }
    fn remove(&mut self, request: RequestId) {
        self.streams.remove(request, |tokens| *tokens = Tokens::default());
    }
    fn admit(&mut self, step: &ResourceStep<'_>) -> Result<AdmitOutcome> {
        for (i, segment) in step.segments.iter().enumerate() {
            let refused = match self.reserve(i, segment) {
                Ok(None) => continue,
                Ok(Some(outcome)) => Ok(outcome),
                Err(error) => Err(error),
            };
            self.each(&ResourceStep { segments: &step.segments[..i] }, Tokens::rollback);
            return refused;
        }
        Ok(AdmitOutcome::Admitted)
    }
    fn plan(
        &mut self,
        step: &ResourceStep<'_>,
        cx: &StepContext<'_>,
        _dependencies: Dependencies<'_, B>,
    ) -> Result<()> {
        let [positions] = self.plans.begin(cx.slot);
        for (i, segment) in step.segments.iter().enumerate() {
            let stream = self.streams.of(i, segment);
            let first = stream.map_or(0, |tokens| tokens.committed) as i32;
            positions.extend((first..).take(segment.span.len()));
        }
        Ok(())
    }
    fn planned(&self, slot: usize, _input: usize) -> Source<'_, B> {
        self.plans.planned(slot, 0)
    }
    fn commit(&mut self, step: &ResourceStep<'_>) {
        self.each(step, Tokens::commit);
    }
    fn rollback(&mut self, step: &ResourceStep<'_>) {
        self.each(step, Tokens::rollback);
    }
    /// Plans are host memory of their slot.
    fn supports_preplan(&self) -> bool {
        true
    }
}
