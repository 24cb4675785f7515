//! The typed face of the executor: one region, run by the eager code around it.

use std::{fmt, sync::Arc};

use smallvec::SmallVec;

use crate::{
    AnyView, Args, Backend, BucketIx, BucketTable, Cx, Dims, ErrorKind, Kwargs, Miss, Outcome,
    PiecewiseConfigType, PiecewiseCudaGraphConfig, Region, RequestId, Resources, Result, Row, RunnerStats,
    Schema, Shape, Source, Statics, StepContext, StepRequests, Steps,
    arena::Claims,
    bucket::clamp,
    capture::{CaptureOptions, Capturer},
    claim::{Claimed, Program, Target, claim},
    cx::InsideForward,
    eager::{EagerCall, UploadedPlan},
    executor::Executor,
    lease::Launched,
    request::padded_rows,
    runners::Runners,
    stats::Stats,
};

/// Runs one instance of a region: replays a bucket that holds the call, or runs the forward eagerly.
///
/// ```
#[doc = include_str!("doc/scale.md")]
#[doc = include_str!("doc/scaler.md")]
/// let call = Dims { bs: 3, tokens: 3 };
/// assert_eq!(scale.bucket_for(call), Ok(Dims { bs: 4, tokens: 4 }));
/// let y = scale.run(ScaleArgs { x: &[1.0, 2.0, 3.0] }, &[1; 3])?.into_out().y;
/// assert_eq!(y.to_vec(engine.stream())?, [3.0, 6.0, 9.0]);
/// drop(y); // while it lives, a second `run` does not compile
///
/// assert_eq!(scale.static_input("x", call)?[12..], [0; 4], "the fourth row is padding, of zeros");
/// assert_eq!(scale.stats().buckets[0].padded_rows, 1);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Runner<R: Region> {
    region: Arc<R>,
    config: Box<dyn PiecewiseCudaGraphConfig>,
    table: BucketTable,
    executor: Executor<R::Backend>,
    resources: Arc<Resources>,
    slot: usize,
    strict: bool,
    eager_only: bool,
    /// Storage that steps use again.
    rows: Vec<Row>,
}

impl<R: Region> fmt::Debug for Runner<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runner({}, {})", self.executor.owner, R::Backend::NAME)
    }
}

impl<R: Region> Runner<R> {
    /// One call of requests with these lengths. The results borrow the runner: running it again while they live does
    /// not compile; [`Outcome::hold`] turns that into a check at run time.
    ///
    /// # Errors
    /// Inputs of a wrong size, before anything is written; an output of this slot that is still held; no bucket in
    /// strict mode; whatever the driver reports.
    #[inline]
    pub fn run<A: Args<R>>(&mut self, args: A, seq_lens: &[usize]) -> Result<Outcome<'_, R>> {
        if seq_lens.is_empty() || InsideForward::is_inside() || !self.region.resources().is_empty() {
            return Err(self.refuse(seq_lens));
        }
        args.check(self.executor.schema)?;
        let real = self.config.real_dims(seq_lens);
        let sources = args.sources();
        let bucket = match self.choose(real) {
            Ok(bucket) => bucket,
            Err(reason) => return self.eager(reason, seq_lens, sources.as_ref(), None),
        };
        let rows = self.region.in_rows(real);
        let lease = self.executor.lease(bucket, self.slot)?;
        let staged = self.executor.stage(lease, real, rows.as_ref(), sources.as_ref())?;
        let launched = self.executor.launch(staged, real)?;
        self.results(launched, real)
    }

    /// The same for a region that brings its own step: its resources are declared, admitted, planned and committed
    /// around the launch. With `lease_before_step` the slot is taken before the step is declared.
    ///
    /// # Errors
    /// As [`run`](Runner::run), and what a step may fail with: [`ErrorKind::Refused`] above all. Nothing is reserved
    /// then.
    pub fn run_step<A: Args<R>>(
        &mut self,
        args: A,
        call: StepRequests<'_>,
        steps: &mut Steps<R::Backend>,
    ) -> Result<Outcome<'_, R>> {
        let StepRequests { requests, seq_lens } = call;
        if seq_lens.is_empty() || InsideForward::is_inside() {
            return Err(self.refuse(seq_lens));
        }
        if requests.len() != seq_lens.len() {
            let (owner, lens, bs) = (self.executor.owner.clone(), seq_lens.len(), requests.len());
            return Err(ErrorKind::LengthsDisagree { owner, lens, bs }.into());
        }
        args.check(self.executor.schema)?;
        let real = self.config.real_dims(seq_lens);
        let sources = args.sources();
        let bucket = match self.choose(real) {
            Ok(bucket) => bucket,
            Err(reason) => return self.eager(reason, seq_lens, sources.as_ref(), Some((requests, steps))),
        };
        let before = self.config.lease_before_step();
        let early = before.then(|| self.executor.lease(bucket, self.slot)).transpose()?;
        let region = &*self.region;
        let step = steps.declare(|step| region.declare_step(&call, step))?.admit()?;
        let lease = early.map_or_else(|| self.executor.lease(bucket, self.slot), Ok)?;
        let padded = self.executor.buckets[bucket.index()].layout.dims;
        let rows = &mut self.rows;
        padded_rows(&self.executor.owner, lease.slot(), padded.bs, requests, rows)?;
        self.executor.wait_for(lease.slot())?;
        let cx = StepContext { slot: lease.slot(), rows, real_bs: real.bs, padded, captured: true };
        let step = step.plan(&cx)?;

        let mut sources: SmallVec<[Source<'_, R::Backend>; 16]> = sources.as_ref().iter().copied().collect();
        let mut lengths: SmallVec<[usize; 16]> = region.in_rows(real).as_ref().iter().copied().collect();
        let mut planned = self.executor.inputs.iter().skip(self.executor.schema.inputs.len());
        step.planned(region.resources(), lease.slot(), |_, _, source| {
            lengths.extend(planned.next().map(|plan| source.dims[plan.axis]));
            sources.push(source);
            Ok(())
        })?;
        let staged = self.executor.stage(lease, real, &lengths, &sources)?;
        drop(sources);
        let launched = self.executor.launch(staged, real)?;
        step.commit(&rows[requests.len()..]);
        self.results(launched, real)
    }

    #[inline]
    fn choose(&self, real: Dims) -> Result<BucketIx, Miss> {
        match self.eager_only {
            true => Err(Miss::Forced), // whether or not a bucket fits: nothing is missing, so strict mode allows it
            false => self.table.choose(real).map_err(|miss| self.reason(miss)),
        }
    }

    #[inline]
    fn results(&self, mut launched: Launched<R::Backend>, real: Dims) -> Result<Outcome<'_, R>> {
        let rows = self.region.out_rows(real);
        let executor = &self.executor;
        let mut take = |i: usize| {
            let rows = rows.as_ref().get(i).copied().unwrap_or(0);
            executor.output(&mut launched, i, rows).ok_or_else(|| executor.no_output(i))
        };
        Ok(Outcome::Replayed(self.region.results(&mut take)?))
    }

    /// Nothing to choose from because every capture failed is another reason than nothing was asked for.
    #[cold]
    fn reason(&self, miss: Miss) -> Miss {
        match (miss, self.executor.stats.failed()) {
            (Miss::NoBuckets, failed @ 1..) => Miss::CaptureFailed { buckets: clamp(failed) },
            _ => miss,
        }
    }

    #[cold]
    fn refuse(&self, seq_lens: &[usize]) -> crate::Error {
        let owner = self.executor.owner.clone();
        if seq_lens.is_empty() {
            return ErrorKind::EmptyBatch { owner }.into();
        }
        match self.region.resources().first() {
            Some(resource) if !InsideForward::is_inside() => ErrorKind::StepMissing { owner, resource },
            _ => ErrorKind::InsideCapture { owner },
        }
        .into()
    }

    #[cold]
    fn eager(
        &mut self,
        reason: Miss,
        seq_lens: &[usize],
        sources: &[Source<'_, R::Backend>],
        step: Option<(&[RequestId], &mut Steps<R::Backend>)>,
    ) -> Result<Outcome<'_, R>> {
        if self.strict && reason != Miss::Forced {
            return Err(ErrorKind::Strict { owner: self.executor.owner.clone(), miss: reason }.into());
        }
        self.executor.stats.count_eager(reason);
        let dims = self.config.real_dims(seq_lens);
        let Dims { bs, tokens } = dims;
        let requests = step.as_ref().map_or(&[][..], |(requests, _)| requests);
        let rows: Vec<Row> = requests.iter().map(|r| Row::Request(*r)).collect();
        let seq_lens = match self.config.config_type() {
            PiecewiseConfigType::Batched => vec![tokens / bs.max(1); bs],
            PiecewiseConfigType::Packed => seq_lens.to_vec(),
        };
        let call = EagerCall {
            device: &self.executor.device,
            stream: &self.executor.stream,
            owner: &self.executor.owner,
            shape: &Shape { bs, seq_lens, total_tokens: tokens },
            request_ids: &rows,
            kwargs: &self.executor.kwargs,
            resources: &self.resources,
        };
        let face = &mut Face { region: &*self.region, config: &*self.config };
        let outs = match step {
            None => call.run(face, sources, &UploadedPlan::none(), None)?,
            Some((requests, steps)) => {
                let declared = StepRequests { requests, seq_lens: &call.shape.seq_lens };
                let step = steps.declare(|step| self.region.declare_step(&declared, step))?.admit()?;
                let cx = StepContext { slot: 0, rows: &rows, real_bs: bs, padded: dims, captured: false };
                let mut step = step.plan(&cx)?;
                let planned = call.upload_planned(&step, self.region.resources())?;
                let outs = call.run(face, sources, &planned, Some(step.inside()))?;
                step.commit(&[]);
                outs
            }
        };
        let mut outs: Vec<_> = outs.into_iter().map(Some).collect();
        let executor = &self.executor;
        let mut take = |i: usize| outs.get_mut(i).and_then(Option::take).ok_or_else(|| executor.no_output(i));
        Ok(Outcome::Eager { out: self.region.results(&mut take)?, reason })
    }

    /// Which slot the next calls use: a property of the step, the same for every region of it. Modulo the number of
    /// slots.
    pub fn set_slot(&mut self, slot: usize) {
        self.slot = slot;
    }

    /// Runs every call eagerly from now on (or no longer).
    pub fn set_eager(&mut self, eager_only: bool) {
        self.eager_only = eager_only;
    }

    /// The region.
    pub fn region(&self) -> &Arc<R> {
        &self.region
    }

    /// The configuration that was captured.
    pub fn config(&self) -> &dyn PiecewiseCudaGraphConfig {
        &*self.config
    }

    /// The size of the bucket that a call of this size runs in.
    ///
    /// # Errors
    /// A [`Miss`] with its numbers.
    pub fn bucket_for(&self, real: Dims) -> Result<Dims, Miss> {
        let bucket = self.table.choose(real)?;
        Ok(self.executor.buckets[bucket.index()].layout.dims)
    }

    /// Whose each row of a call in `bucket` is: the requests, then padding of the slot that the next call uses.
    ///
    /// # Errors
    /// [`BeyondBucket`](ErrorKind::BeyondBucket) for more requests than the bucket has rows.
    pub fn step_rows(&self, bucket: Dims, requests: &[RequestId]) -> Result<Vec<Row>> {
        let (owner, slot) = (&self.executor.owner, self.slot % self.executor.slots.len());
        let mut rows = Vec::new();
        padded_rows(owner, slot, bucket.bs, requests, &mut rows)?;
        Ok(rows)
    }

    /// The bytes of a static input, padding included, as a call of this size would find them now: what the last replay
    /// in that bucket and slot read, unless another bucket was staged since. Waits for the stream.
    ///
    /// # Errors
    /// [`UnknownName`](ErrorKind::UnknownName) with the known inputs; [`Strict`](ErrorKind::Strict) with the [`Miss`] where
    /// no bucket holds a call of this size; what the backend reports.
    pub fn static_input(&self, name: &str, real: Dims) -> Result<Vec<u8>> {
        let owner = || self.executor.owner.clone();
        let bucket = self.table.choose(real).map_err(|miss| ErrorKind::Strict { owner: owner(), miss })?;
        let Some(i) = self.executor.schema.inputs.iter().position(|io| io.name == name) else {
            let known = self.executor.schema.inputs.iter().map(|io| io.name).collect::<Vec<_>>().join(", ");
            return Err(
                ErrorKind::UnknownName { owner: owner(), what: "input", got: name.into(), known }.into()
            );
        };
        self.executor.static_input(bucket, self.slot, i)
    }

    /// A copy of its counters.
    pub fn stats(&self) -> RunnerStats {
        self.executor.stats.snapshot()
    }
}

/// A region as something to capture.
struct Face<'r, R> {
    region: &'r R,
    config: &'r dyn PiecewiseCudaGraphConfig,
}

impl<R: Region> Program<R::Backend> for Face<'_, R> {
    fn schema(&self) -> &'static Schema {
        self.region.schema()
    }
    fn statics(&self, shape: &Shape, statics: &mut Statics) -> Result<()> {
        self.region.make_static_inputs(shape, statics);
        Ok(())
    }
    fn kwargs(&self) -> Kwargs {
        self.config.forward_kwargs().clone()
    }
    fn resources(&self) -> &'static [&'static str] {
        self.region.resources()
    }
    fn prepare(&mut self, cx: &mut Cx<'_, R::Backend>) -> Result<()> {
        self.region.prepare(cx)
    }
    fn record(
        &mut self,
        cx: &mut Cx<'_, R::Backend>,
        x: &[AnyView<'_, R::Backend>],
        y: &[AnyView<'_, R::Backend>],
        _host: &[Source<'_, R::Backend>],
    ) -> Result<()> {
        self.region.forward(cx, &self.region.inputs(x), &self.region.outputs(y))
    }
}

/// The runners of one region between claim and capture, without its type.
pub(crate) trait PendingRegion<B: Backend> {
    fn schema(&self) -> &'static Schema;
    /// The configuration of all instances.
    fn set_config(
        &mut self,
        change: &mut dyn FnMut(&mut Box<dyn PiecewiseCudaGraphConfig>) -> Result<()>,
    ) -> Result<()>;
    fn claim(&mut self, options: &CaptureOptions, claims: &mut Claims, steps: &mut Steps<B>) -> Result<()>;
    /// Buckets to capture, over all instances.
    fn buckets(&self) -> usize;
    /// Bytes of the blocks of host-side inputs, over all instances.
    fn blocks_bytes(&self) -> usize;
    fn capture(self: Box<Self>, capturer: &mut Capturer<'_, B>, into: &mut Runners<B>) -> Result<()>;
}

pub(crate) struct PendingRunners<R> {
    instances: Vec<PendingRunner<R>>,
    schema: &'static Schema,
}

struct PendingRunner<R> {
    region: Arc<R>,
    config: Box<dyn PiecewiseCudaGraphConfig>,
    claimed: Option<Claimed>,
}

impl<R: Region> PendingRunners<R> {
    /// `None` when there is no instance.
    pub(crate) fn new(regions: Vec<Arc<R>>) -> Option<Self> {
        let schema = regions.first()?.schema();
        let pending = |region: Arc<R>| PendingRunner { config: region.config(), region, claimed: None };
        Some(PendingRunners { instances: regions.into_iter().map(pending).collect(), schema })
    }
}

impl<R: Region> PendingRegion<R::Backend> for PendingRunners<R> {
    fn schema(&self) -> &'static Schema {
        self.schema
    }
    fn set_config(
        &mut self,
        change: &mut dyn FnMut(&mut Box<dyn PiecewiseCudaGraphConfig>) -> Result<()>,
    ) -> Result<()> {
        self.instances.iter_mut().try_for_each(|i| change(&mut i.config))
    }
    fn claim(
        &mut self,
        options: &CaptureOptions,
        claims: &mut Claims,
        steps: &mut Steps<R::Backend>,
    ) -> Result<()> {
        let name = self.schema.full_name();
        for instance in &mut self.instances {
            let config = &*instance.config;
            let shapes = config.shapes(&name, self.schema.names_bs, &options.default_batch_sizes)?;
            let batched = config.config_type() == PiecewiseConfigType::Batched;
            let compile = config.compile();
            let targets = shapes.into_iter().map(|shape| Target { shape, batched, compile }).collect();
            let face = Face { region: &*instance.region, config };
            let slots = options.slots_for(steps);
            instance.claimed = Some(claim(&face, targets, slots, claims, steps)?);
        }
        Ok(())
    }
    fn buckets(&self) -> usize {
        self.instances.iter().flat_map(|i| &i.claimed).map(|c| c.targets.len()).sum()
    }
    fn blocks_bytes(&self) -> usize {
        self.instances.iter().flat_map(|i| &i.claimed).map(Claimed::blocks_bytes).sum()
    }
    fn capture(
        self: Box<Self>,
        capturer: &mut Capturer<'_, R::Backend>,
        into: &mut Runners<R::Backend>,
    ) -> Result<()> {
        let mut runners = Vec::new();
        for PendingRunner { region, config, claimed } in self.instances {
            let Some(claimed) = claimed else { continue };
            let batched = config.config_type() == PiecewiseConfigType::Batched;
            let targets = claimed.targets.len();
            let stats = Stats::new(self.schema.node, self.schema.name.into(), None);
            let mut build = capturer.begin(claimed, stats)?;
            let mut face = Face { region: &*region, config: &*config };
            for target in 0..targets {
                capturer.bucket(&mut build, &mut face, target);
            }
            let executor = capturer.finish(build);
            let table = BucketTable::new(executor.buckets.iter().map(|b| (b.layout.dims, batched)));
            let strict = capturer.options.strict;
            let resources = capturer.resources.clone();
            runners.push(Runner {
                region,
                config,
                table,
                executor,
                resources,
                slot: 0,
                strict,
                eager_only: false,
                rows: Vec::new(),
            });
        }
        into.insert(self.schema.full_name(), runners);
        Ok(())
    }
}
