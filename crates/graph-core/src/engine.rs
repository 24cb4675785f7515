//! The engine: loads, claims, captures and binds everything registered for a backend, then runs walks.

use std::{
    any::{Any, TypeId},
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crate::{
    Backend, BindCx, BucketIx, BucketLists, CudaGraphConfig, Dims, ErrorKind, Kwargs, Ledger, Miss,
    NamedResults, PiecewiseCudaGraphConfig, Registry, RequestId, Resources, Result, Row, RunnerStats, Shape,
    Source, Submodule, WholeRunner,
    arena::Claims,
    capture::{CaptureOptions, CaptureProgress, Capturer},
    eager::EagerCall,
    named::in_order,
    node::{AnyNode, Forward, StaticsOf},
    runner::Runners,
    stats::Stats,
    whole::{PendingWhole, WholeFace},
};

/// Typed options for loaders: the engine author puts them in, a plugin asks by type.
///
/// ```
/// use graph_core::Options;
/// struct ModelDir(&'static str);
/// let options = Options::default().with(ModelDir("weights"));
/// assert_eq!(options.get::<ModelDir>().unwrap().0, "weights");
/// ```
#[derive(Default)]
pub struct Options(HashMap<TypeId, Box<dyn Any + Send + Sync>>);

impl Options {
    /// Adds an option, or replaces the one of its type.
    pub fn with<T: Send + Sync + 'static>(mut self, option: T) -> Self {
        self.0.insert(TypeId::of::<T>(), Box::new(option));
        self
    }

    /// The option of a type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }
}

/// What a submodule is loaded with.
pub struct LoadCx<'l, B: Backend> {
    /// The device.
    pub device: &'l B,
    /// The engine's stream.
    pub stream: &'l B::Stream,
    /// The engine author's options.
    pub options: &'l Options,
    /// The node that it is loaded for.
    pub node: &'static str,
}

/// Loads submodules, each once per node.
pub struct Loader<'l, B: Backend> {
    device: &'l B,
    stream: &'l B::Stream,
    options: &'l Options,
    loaded: HashMap<(TypeId, &'static str), Arc<dyn Any + Send + Sync>>,
}

impl<B: Backend> Loader<'_, B> {
    /// The submodule of a node: loaded on first use, then shared.
    pub fn submodule<S: Submodule<B>>(&mut self, node: &'static str) -> Result<Arc<S>> {
        let key = (TypeId::of::<S>(), node);
        if let Some(loaded) = self.loaded.get(&key).and_then(|s| s.clone().downcast().ok()) {
            return Ok(loaded);
        }
        let (device, stream, options) = (self.device, self.stream, self.options);
        let loaded = Arc::new(S::load(&LoadCx { device, stream, options, node })?);
        self.loaded.insert(key, loaded.clone());
        Ok(loaded)
    }

    /// The device.
    pub fn device(&self) -> &B {
        self.device
    }

    /// The engine's stream.
    pub fn stream(&self) -> &B::Stream {
        self.stream
    }

    /// The engine author's options.
    pub fn options(&self) -> &Options {
        self.options
    }
}

/// Everything that may be said before the engine is built.
pub struct EngineBuilder<'b, B: Backend> {
    device: B,
    options: Options,
    resources: Resources,
    capture: CaptureOptions,
    lists: BucketLists,
    nodes: Option<Vec<String>>,
    regions_by_name: HashMap<String, Box<dyn Fn() -> Box<dyn PiecewiseCudaGraphConfig> + 'b>>,
    forwards_by_name: HashMap<String, Box<dyn Fn() -> Box<dyn CudaGraphConfig> + 'b>>,
    progress: Box<dyn FnMut(CaptureProgress<'_>) + 'b>,
}

impl<'b, B: Backend> EngineBuilder<'b, B> {
    /// Options for the plugins' loaders.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// State that forwards may ask for by type.
    pub fn resource<T: Any + Send + Sync>(mut self, resource: T) -> Self {
        self.resources.insert(resource);
        self
    }

    /// Slots, warm-ups, default sizes, strict mode.
    pub fn capture_options(mut self, options: CaptureOptions) -> Self {
        self.capture = options;
        self
    }

    /// Sizes that replace the configured ones, by `node.region` or `node.walk`.
    pub fn bucket_lists(mut self, lists: BucketLists) -> Self {
        self.lists = lists;
        self
    }

    /// Builds these nodes only; all by default.
    pub fn nodes<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.nodes = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Replaces the configuration of a region, by `node.region`.
    pub fn region_config<C>(mut self, name: impl Into<String>, config: C) -> Self
    where
        C: PiecewiseCudaGraphConfig + Clone + 'static,
    {
        self.regions_by_name.insert(name.into(), Box::new(move || Box::new(config.clone())));
        self
    }

    /// Replaces the configuration of a whole forward, by `node.walk`.
    pub fn forward_config<C: CudaGraphConfig + Clone + 'static>(
        mut self,
        name: impl Into<String>,
        config: C,
    ) -> Self {
        self.forwards_by_name.insert(name.into(), Box::new(move || Box::new(config.clone())));
        self
    }

    /// Called after every bucket.
    pub fn progress(mut self, progress: impl FnMut(CaptureProgress<'_>) + 'b) -> Self {
        self.progress = Box::new(progress);
        self
    }

    /// Loads, claims, allocates, captures the regions, binds the nodes, captures their whole forwards.
    ///
    /// A bucket that cannot be captured is dropped with its reason in the statistics; everything else that fails is an
    /// error here.
    pub fn build(mut self, registry: &Registry) -> Result<Engine<B>> {
        let device = self.device.clone();
        let stream = device.stream()?;
        let mut loader =
            Loader { device: &device, stream: &stream, options: &self.options, loaded: HashMap::new() };
        let chosen = self.nodes.take();
        for name in chosen.iter().flatten() {
            registry.node(name)?;
        }
        let wanted = |node: &str| chosen.as_ref().is_none_or(|names| names.iter().any(|n| n == node));
        let mut skipped = Vec::new();
        let mut regions = Vec::new();
        for entry in registry.regions().iter().filter(|e| wanted(e.schema.node)) {
            match registry.start_region(entry, &mut loader) {
                Ok(region) => regions.extend(region),
                Err(e) if matches!(e.kind(), ErrorKind::NotOnBackend { .. }) => skipped.push(e),
                Err(e) => return Err(e),
            }
        }
        let mut nodes = Vec::new();
        for entry in registry.nodes().iter().filter(|e| wanted(e.name)) {
            match registry.start_node(entry, &mut loader) {
                Ok(node) => nodes.push(node),
                Err(e) if matches!(e.kind(), ErrorKind::NotOnBackend { .. }) => skipped.push(e),
                Err(e) => return Err(e),
            }
        }
        let mut known = BTreeSet::new();
        for region in &mut regions {
            let name = region.schema().full_name();
            let (replace, lists) = (self.regions_by_name.get(&name), self.lists.get(&name));
            region.set_config(&mut |config| {
                if let Some(replace) = replace {
                    *config = replace();
                }
                let Some(list) = lists else { return Ok(()) };
                config.set_sizes(&name, list.batch_sizes.clone(), list.total_tokens.clone())
            })?;
            known.insert(name);
        }
        for node in &mut nodes {
            for config in &mut node.configs {
                let name = format!("{}.{}", node.name, config.capture_graph_walk());
                if let Some(replace) = self.forwards_by_name.get(&name) {
                    *config = replace();
                }
                if let Some(list) = self.lists.get(&name) {
                    config.set_sizes(&name, list.batch_sizes.clone(), list.total_tokens.clone())?;
                }
                known.insert(name);
            }
        }
        let replaced = self.regions_by_name.keys().chain(self.forwards_by_name.keys()).map(String::as_str);
        if let Some(got) = self.lists.names().chain(replaced).find(|n| !known.contains(*n)) {
            let (owner, what) = ("bucket lists".into(), "region or captured walk");
            let known = known.iter().cloned().collect::<Vec<_>>().join(", ");
            return Err(ErrorKind::UnknownName { owner, what, got: got.into(), known }.into());
        }

        let mut claims = Claims::default();
        for region in &mut regions {
            region.claim(&self.capture, &mut claims)?;
        }
        let mut wholes = Vec::new();
        for node in &mut nodes {
            wholes.push(PendingWhole::claim(node, &self.capture, &mut claims)?);
        }
        let arena = claims.allocate(&device)?;
        let resources = Arc::new(self.resources);
        let mut capturer = Capturer {
            device: &device,
            stream: &stream,
            arena: &arena,
            resources: &resources,
            options: &self.capture,
            scratch: None,
            ledger: Ledger { arena: arena.bytes().clone(), ..Ledger::default() },
            done: 0,
            total: regions.iter().map(|r| r.buckets()).sum::<usize>()
                + wholes.iter().map(PendingWhole::buckets).sum::<usize>(),
            progress: &mut self.progress,
            stats: Vec::new(),
        };
        let mut runners = Runners::new();
        for region in regions {
            region.capture(&mut capturer, &mut runners)?;
        }
        let mut bound = Vec::new();
        for node in nodes {
            let mut cx = BindCx { device: &device, stream: &stream, runners: &mut runners };
            bound.push((node.name, node.forwards, node.statics, (node.bind)(&mut cx)?));
        }
        let mut runnable = Vec::new();
        for ((name, forwards, statics, mut node), whole) in bound.into_iter().zip(wholes) {
            let whole = whole.capture(&mut capturer, &mut *node)?;
            let (device, stream, resources) = (device.clone(), stream.clone(), resources.clone());
            let strict = self.capture.strict;
            runnable.push(NodeRunner {
                name,
                forwards,
                statics,
                node,
                whole,
                device,
                stream,
                resources,
                strict,
                eager_only: false,
            });
        }
        B::synchronize(&stream)?;
        let (ledger, stats) = (capturer.ledger, capturer.stats);
        Ok(Engine { device, stream, nodes: runnable, runners, ledger, stats, skipped })
    }
}

/// Everything that was built for a backend.
pub struct Engine<B: Backend> {
    device: B,
    stream: B::Stream,
    nodes: Vec<NodeRunner<B>>,
    runners: Runners<B>,
    ledger: Ledger,
    stats: Vec<Arc<Stats>>,
    skipped: Vec<crate::Error>,
}

impl<B: Backend> Engine<B> {
    /// Starts to build an engine on a device.
    pub fn builder<'b>(device: B) -> EngineBuilder<'b, B> {
        EngineBuilder {
            device,
            options: Options::default(),
            resources: Resources::default(),
            capture: CaptureOptions::default(),
            lists: BucketLists::default(),
            nodes: None,
            regions_by_name: HashMap::new(),
            forwards_by_name: HashMap::new(),
            progress: Box::new(|_| {}),
        }
    }

    /// A node by name.
    pub fn node(&mut self, name: &str) -> Result<&mut NodeRunner<B>> {
        let known = self.nodes.iter().map(|n| n.name).collect::<Vec<_>>().join(", ");
        self.nodes.iter_mut().find(|n| n.name == name).ok_or_else(|| {
            ErrorKind::UnknownName { owner: "engine".into(), what: "node", got: name.into(), known }.into()
        })
    }

    /// The runners that no node took.
    pub fn runners(&mut self) -> &mut Runners<B> {
        &mut self.runners
    }

    /// The device.
    pub fn device(&self) -> &B {
        &self.device
    }

    /// The stream that everything runs on.
    pub fn stream(&self) -> &B::Stream {
        &self.stream
    }

    /// What is held in memory.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Registered entries that this backend has not, with reasons.
    pub fn skipped(&self) -> &[crate::Error] {
        &self.skipped
    }

    /// The counters of every region (all instances together) and whole forward, by name.
    pub fn stats(&self) -> Vec<RunnerStats> {
        let mut all: Vec<RunnerStats> = Vec::new();
        for stats in self.stats.iter().map(|s| s.snapshot()) {
            match all
                .iter_mut()
                .find(|s| (s.node, &s.name, &s.walk) == (stats.node, &stats.name, &stats.walk))
            {
                Some(mine) => mine.add(stats),
                None => all.push(stats),
            }
        }
        all.sort_by(|a, b| (a.node, &a.name).cmp(&(b.node, &b.name)));
        all
    }
}

/// A bound node with its captured whole forwards.
pub struct NodeRunner<B: Backend> {
    name: &'static str,
    forwards: &'static [Forward],
    statics: Arc<StaticsOf>,
    node: Box<dyn AnyNode<B>>,
    whole: WholeRunner<B>,
    device: B,
    stream: B::Stream,
    resources: Arc<Resources>,
    strict: bool,
    eager_only: bool,
}

/// One step of a node: requests, their lengths, and inputs by name.
pub struct NodeCall<'c, B: Backend> {
    /// The requests, one per length; may be empty where the node does not ask.
    pub requests: &'c [RequestId],
    /// Tokens of each request.
    pub seq_lens: &'c [usize],
    /// Inputs by name, in any order.
    pub inputs: &'c [(&'c str, Source<'c, B>)],
    /// The slot to use, modulo the number of slots.
    pub slot: usize,
}

/// What a step returns.
#[must_use]
pub enum WholeOutcome<'r, B: Backend> {
    /// A captured whole forward was replayed.
    Replayed(NamedResults<'r, B>),
    /// The forward ran eagerly; regions inside it may have been replayed.
    Eager {
        /// The results, in memory of their own.
        out: NamedResults<'r, B>,
        /// Why no bucket was used.
        reason: Miss,
    },
}

impl<'r, B: Backend> WholeOutcome<'r, B> {
    /// The results, however they came about.
    pub fn into_out(self) -> NamedResults<'r, B> {
        match self {
            WholeOutcome::Replayed(out) | WholeOutcome::Eager { out, .. } => out,
        }
    }

    /// Why the step ran eagerly, if it did.
    pub fn reason(&self) -> Option<Miss> {
        match self {
            WholeOutcome::Replayed(_) => None,
            WholeOutcome::Eager { reason, .. } => Some(*reason),
        }
    }
}

impl<B: Backend> NodeRunner<B> {
    /// One step of a walk: replayed where a bucket of the walk holds it, else eager.
    ///
    /// # Errors
    /// An unknown walk, with the known ones; inputs of a wrong name or size; no bucket in strict mode where the walk
    /// is captured; whatever the driver reports.
    pub fn run(&mut self, walk: &str, call: &NodeCall<'_, B>) -> Result<WholeOutcome<'_, B>> {
        let owner = || format!("{}.{walk}", self.name);
        let bs = call.seq_lens.len();
        if bs == 0 {
            return Err(ErrorKind::EmptyBatch { owner: owner() }.into());
        }
        if !call.requests.is_empty() && call.requests.len() != bs {
            return Err(
                ErrorKind::LengthsDisagree { owner: owner(), lens: bs, bs: call.requests.len() }.into()
            );
        }
        let total_tokens = call.seq_lens.iter().sum();
        let shape = Shape { bs, seq_lens: call.seq_lens.to_vec(), total_tokens };
        self.node.set_slot(call.slot);
        let reason = match self.bucket(walk, shape.dims()) {
            Ok(bucket) => {
                let lease = self.whole.lease_slot(bucket, call.slot)?;
                let staged = self.whole.stage(lease, &shape, call.inputs)?;
                return Ok(WholeOutcome::Replayed(self.whole.replay(staged, &shape)?));
            }
            Err(miss) if self.strict && !matches!(miss, Miss::Forced) && self.whole.captures_walk(walk) => {
                return Err(ErrorKind::Strict { owner: owner(), miss }.into());
            }
            Err(miss) => miss,
        };
        self.whole.count_eager(walk, reason);
        let out = self.eager(walk, &shape, call)?;
        Ok(WholeOutcome::Eager { out, reason })
    }

    fn bucket(&self, walk: &str, dims: Dims) -> Result<BucketIx, Miss> {
        let found = self.whole.walk(walk, None).ok_or(Miss::NoBuckets)?;
        if self.eager_only {
            return Err(Miss::Forced);
        }
        self.whole.select_bucket(found, dims.bs, dims.tokens)
    }

    fn eager(&mut self, walk: &str, shape: &Shape, call: &NodeCall<'_, B>) -> Result<NamedResults<'_, B>> {
        let Some(forward) = self.forwards.iter().find(|f| f.walks.contains(&walk)) else {
            let known = self.walks().collect::<Vec<_>>().join(", ");
            let owner = self.name.into();
            return Err(ErrorKind::UnknownName { owner, what: "walk", got: walk.into(), known }.into());
        };
        let sources = in_order(&forward.schema, call.inputs)?;
        let rows: Vec<Row> = call.requests.iter().map(|r| Row::Request(*r)).collect();
        let eager = EagerCall {
            device: &self.device,
            stream: &self.stream,
            owner: &format!("{}.{walk}", self.name),
            shape,
            request_ids: &rows,
            kwargs: &Kwargs::new(),
            resources: &self.resources,
        };
        let mut face =
            WholeFace { schema: &forward.schema, statics: &*self.statics, node: Some(&mut *self.node) };
        let outs = eager.run(&mut face, &sources)?.into_iter().map(Some).collect();
        Ok(NamedResults { schema: &forward.schema, outs })
    }

    /// The walks that the node knows.
    pub fn walks(&self) -> impl Iterator<Item = &'static str> {
        self.forwards.iter().flat_map(|f| f.walks.iter().copied())
    }

    /// Its captured whole forwards, for an engine that leases, stages and replays by itself.
    pub fn whole(&mut self) -> &mut WholeRunner<B> {
        &mut self.whole
    }

    /// Runs every step eagerly from now on (or no longer), the regions inside included.
    pub fn set_eager(&mut self, eager_only: bool) {
        self.eager_only = eager_only;
        self.node.set_eager(eager_only);
    }
}
