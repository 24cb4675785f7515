//! The typed face of the executor: one region, run by the eager code around it.

use std::{
    any::{Any, TypeId, type_name},
    marker::PhantomData,
    sync::Arc,
};

use crate::{
    AnyView, Args, Backend, BucketTable, Cx, Dims, ErrorKind, Kwargs, Miss, Outcome, PiecewiseConfigType,
    PiecewiseCudaGraphConfig, Region, RequestId, Resources, Result, Row, RunnerStats, Schema, Shape, Source,
    Statics,
    arena::Claims,
    capture::{CaptureOptions, Capturer},
    claim::{Claimed, Program, Target, claim},
    cx::InsideForward,
    eager::EagerCall,
    executor::Executor,
    request::padded_rows,
    stats::Stats,
};

/// Runs one instance of a region: replays a bucket that holds the call, or runs the forward eagerly.
pub struct Runner<R: Region> {
    region: Arc<R>,
    config: Box<dyn PiecewiseCudaGraphConfig>,
    table: BucketTable,
    executor: Executor<R::Backend>,
    resources: Arc<Resources>,
    slot: usize,
    strict: bool,
    eager_only: bool,
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
        if seq_lens.is_empty() || InsideForward::is_inside() {
            return Err(self.refuse(seq_lens));
        }
        args.check(self.executor.schema)?;
        let real = self.config.real_dims(seq_lens);
        let sources = args.sources();
        let bucket = match self.table.choose(real) {
            Ok(bucket) if !self.eager_only => bucket,
            Ok(_) => return self.eager(Miss::Forced, seq_lens, sources.as_ref()),
            Err(reason) => return self.eager(reason, seq_lens, sources.as_ref()),
        };
        let rows = self.region.in_rows(real);
        let lease = self.executor.lease(bucket, self.slot)?;
        let staged = self.executor.stage(lease, real, rows.as_ref(), sources.as_ref())?;
        let mut launched = self.executor.launch(staged, real)?;
        let rows = self.region.out_rows(real);
        let executor = &self.executor;
        let mut take = |i: usize| {
            let rows = rows.as_ref().get(i).copied().unwrap_or(0);
            executor.output(&mut launched, i, rows).ok_or_else(|| executor.no_output(i))
        };
        Ok(Outcome::Replayed(self.region.results(&mut take)?))
    }

    #[cold]
    fn refuse(&self, seq_lens: &[usize]) -> crate::Error {
        let owner = self.executor.owner.clone();
        match seq_lens.is_empty() {
            true => ErrorKind::EmptyBatch { owner }.into(),
            false => ErrorKind::InsideCapture { owner }.into(),
        }
    }

    #[cold]
    fn eager(
        &mut self,
        reason: Miss,
        seq_lens: &[usize],
        sources: &[Source<'_, R::Backend>],
    ) -> Result<Outcome<'_, R>> {
        if self.strict && reason != Miss::Forced {
            return Err(ErrorKind::Strict { owner: self.executor.owner.clone(), miss: reason }.into());
        }
        self.executor.stats.count_eager(reason);
        let Dims { bs, tokens } = self.config.real_dims(seq_lens);
        let seq_lens = match self.config.config_type() {
            PiecewiseConfigType::Batched => vec![tokens / bs; bs],
            PiecewiseConfigType::Packed => seq_lens.to_vec(),
        };
        let call = EagerCall {
            device: &self.executor.device,
            stream: &self.executor.stream,
            owner: &self.executor.owner,
            shape: &Shape { bs, seq_lens, total_tokens: tokens },
            request_ids: &[],
            kwargs: &self.executor.kwargs,
            resources: &self.resources,
        };
        let face = &mut Face { region: &*self.region, config: &*self.config };
        let mut outs: Vec<_> = call.run(face, sources)?.into_iter().map(Some).collect();
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
    pub fn bucket_for(&self, real: Dims) -> Result<Dims, Miss> {
        let bucket = self.table.choose(real)?;
        Ok(self.executor.buckets[bucket.index()].layout.dims)
    }

    /// Whose each row of a call in `bucket` is: the requests, then padding of the slot that the next call uses.
    pub fn step_rows(&self, bucket: Dims, requests: &[RequestId]) -> Result<Vec<Row>> {
        padded_rows(&self.executor.owner, self.slot % self.executor.slots.len(), bucket.bs, requests)
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
    fn claim(&mut self, options: &CaptureOptions, claims: &mut Claims) -> Result<()>;
    /// Buckets to capture, over all instances.
    fn buckets(&self) -> usize;
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
    fn claim(&mut self, options: &CaptureOptions, claims: &mut Claims) -> Result<()> {
        let name = self.schema.full_name();
        for instance in &mut self.instances {
            let config = &*instance.config;
            let shapes = config.shapes(&name, self.schema.names_bs, &options.default_batch_sizes)?;
            let batched = config.config_type() == PiecewiseConfigType::Batched;
            let compile = config.compile();
            let targets = shapes.into_iter().map(|shape| Target { shape, batched, compile }).collect();
            let face = Face { region: &*instance.region, config };
            instance.claimed = Some(claim(&face, targets, options.slots.max(1), claims)?);
        }
        Ok(())
    }
    fn buckets(&self) -> usize {
        self.instances.iter().flat_map(|i| &i.claimed).map(|c| c.targets.len()).sum()
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
            });
        }
        into.insert(self.schema.full_name(), runners);
        Ok(())
    }
}

/// The runners of an engine, by the type of their region, until a node takes them.
pub struct Runners<B: Backend> {
    all: Vec<(String, TypeId, Box<dyn Any + Send>)>,
    backend: PhantomData<B>,
}

impl<B: Backend> Runners<B> {
    pub(crate) fn new() -> Self {
        Runners { all: Vec::new(), backend: PhantomData }
    }

    fn insert<R: Region<Backend = B>>(&mut self, name: String, runners: Vec<Runner<R>>) {
        self.all.push((name, TypeId::of::<R>(), Box::new(runners)));
    }

    /// One runner per instance, in order. Taken: the eager code owns them, as fields that it can borrow apart.
    pub fn take<R: Region<Backend = B>>(&mut self) -> Result<Vec<Runner<R>>> {
        self.take_where::<R>(|_| true, type_name::<R>())
    }

    /// The same for a hand-written region, whose type says nothing: by `node.name`.
    pub fn take_named<R: Region<Backend = B>>(&mut self, name: &str) -> Result<Vec<Runner<R>>> {
        self.take_where::<R>(|n| n == name, name)
    }

    /// The only runner of a region.
    pub fn take_one<R: Region<Backend = B>>(&mut self) -> Result<Runner<R>> {
        let mut runners = self.take::<R>()?;
        match (runners.pop(), runners.len()) {
            (Some(runner), 0) => Ok(runner),
            (_, n) => {
                Err(Self::none::<R>(type_name::<R>(), format!("it has {} instances; use `take`", n + 1)))
            }
        }
    }

    fn take_where<R: Region<Backend = B>>(
        &mut self,
        name: impl Fn(&str) -> bool,
        asked: &str,
    ) -> Result<Vec<Runner<R>>> {
        let found = self.all.iter().position(|(n, id, _)| *id == TypeId::of::<R>() && name(n));
        let Some(i) = found else {
            return Err(Self::none::<R>(asked, "not registered for this backend, or taken already".into()));
        };
        let (name, _, any) = self.all.swap_remove(i);
        match any.downcast::<Vec<Runner<R>>>() {
            Ok(runners) => Ok(*runners),
            Err(_) => Err(Self::none::<R>(&name, "its type is another".into())),
        }
    }

    fn none<R>(region: &str, why: String) -> crate::Error {
        let (region, rust_type) = (region.into(), type_name::<R>());
        ErrorKind::NoRunner { region, rust_type, backend: B::NAME, why }.into()
    }
}
