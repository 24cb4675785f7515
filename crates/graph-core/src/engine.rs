//! The engine: loads, claims, captures and binds everything registered for a backend, then runs walks.

use std::{
    any::Any,
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use crate::{
    Backend, BindCx, BucketLists, CudaGraphConfig, Error, ErrorKind, Ledger, Loader, NodeRunner, Options,
    PiecewiseCudaGraphConfig, Registry, Resources, Result, RunnerStats, Steps,
    arena::Claims,
    capture::{CaptureOptions, CaptureProgress, Capturer},
    node::PendingNode,
    node_runner::NodeParts,
    runner::PendingRegion,
    runners::Runners,
    stats::Stats,
    whole::PendingWhole,
};

/// Everything that may be said before the engine is built.
///
/// ```
#[doc = include_str!("doc/scale.md")]
/// let lists = BucketLists::from_json(r#"{"toy.scale": {"batch_sizes": [2, 8]}}"#)?;
/// let mut captured = Vec::new();
/// let builder = Engine::builder(Host::new()).bucket_lists(lists);
/// builder.progress(|bucket| captured.push(bucket.dims.bs)).build(&registry)?;
/// assert_eq!(captured, [8, 2]);
///
/// // A name that nothing has is an error, not a setting without effect.
/// let wrong = Engine::builder(Host::new()).region_config("toy.scala", PiecewiseBatchedConfig::new(1));
/// let error = wrong.build(&registry).expect_err("no such region");
/// assert_eq!(error.to_string(), "region_config: there is no region `toy.scala`; known: toy.scale");
/// # Ok::<(), graph_core::Error>(())
/// ```
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
        let (device, stream) = (self.device.clone(), self.device.stream()?);
        let chosen = self.nodes.take();
        for name in chosen.iter().flatten() {
            registry.node(name)?;
        }
        let wanted = |node: &str| chosen.as_ref().is_none_or(|names| names.iter().any(|n| n == node));
        let mut loader = Loader::new(&device, &stream, &self.options);
        let mut skipped = Vec::new();
        let mut regions = Vec::new();
        for entry in registry.regions().iter().filter(|e| wanted(e.schema.node)) {
            let region = on_this_backend(registry.start_region(entry, &mut loader), &mut skipped)?;
            regions.extend(region.flatten());
        }
        let mut nodes = Vec::new();
        for entry in registry.nodes().iter().filter(|e| wanted(e.name)) {
            nodes.extend(on_this_backend(registry.start_node(entry, &mut loader), &mut skipped)?);
        }
        self.replace_configs(&mut regions, &mut nodes)?;

        let mut claims = Claims::default();
        for region in &mut regions {
            let node = nodes.iter_mut().find(|n| n.name == region.schema().node);
            let mut none = Steps::new(region.schema().node, Vec::new())?;
            let steps = node.map_or(&mut none, |n| &mut n.steps);
            region.claim(&self.capture, &mut claims, steps)?;
        }
        let mut wholes = Vec::new();
        for node in &mut nodes {
            wholes.push(PendingWhole::claim(node, &self.capture, &mut claims)?);
        }
        let mut ledger = Ledger {
            arena: claims.bytes(),
            blocks: regions
                .iter()
                .map(|r| r.blocks_bytes())
                .chain(wholes.iter().map(PendingWhole::blocks_bytes))
                .fold(0, usize::saturating_add),
            scratch: 0,
            resources: nodes
                .iter()
                .map(|n| n.steps.claimed_bytes(self.capture.slots_for(&n.steps)))
                .fold(0, usize::saturating_add),
        };
        self.capture.check_budget(&ledger)?;
        ledger.resources = 0;
        let arena = claims.allocate(&device)?;
        let engine_wide = Arc::new(self.resources);
        let mut shared = HashMap::new();
        for node in &mut nodes {
            node.steps.allocate(&device, &stream, self.capture.slots_for(&node.steps))?;
            ledger.resources += node.steps.device_bytes();
            let mut resources = Resources::clone(&engine_wide);
            node.steps.share(&mut resources);
            shared.insert(node.name, Arc::new(resources));
        }
        // Once more with what resources hold that did not say so.
        self.capture.check_budget(&ledger)?;

        let total = regions.iter().map(|r| r.buckets()).sum::<usize>()
            + wholes.iter().map(PendingWhole::buckets).sum::<usize>();
        let mut capturer = Capturer {
            device: &device,
            stream: &stream,
            arena: &arena,
            resources: engine_wide.clone(),
            options: &self.capture,
            scratch: None,
            ledger,
            done: 0,
            total,
            progress: &mut self.progress,
            stats: Vec::new(),
        };
        let mut runners = Runners::new();
        for region in regions {
            capturer.resources = shared.get(region.schema().node).unwrap_or(&engine_wide).clone();
            region.capture(&mut capturer, &mut runners)?;
        }
        let mut bound = Vec::new();
        for node in nodes {
            let mut cx = BindCx { device: &device, stream: &stream, runners: &mut runners };
            bound.push((node.name, node.forwards, node.statics, node.steps, (node.bind)(&mut cx)?));
        }
        let mut runnable = Vec::new();
        for ((name, forwards, statics, steps, mut node), whole) in bound.into_iter().zip(wholes) {
            let resources = shared.get(name).unwrap_or(&engine_wide).clone();
            capturer.resources = resources.clone();
            let whole = whole.capture(&mut capturer, &mut *node)?;
            let (device, stream, strict) = (device.clone(), stream.clone(), self.capture.strict);
            let parts = NodeParts { name, forwards, statics, steps, node, whole, resources };
            runnable.push(NodeRunner::new(parts, device, stream, strict));
        }
        B::synchronize(&stream)?;
        runnable.iter().try_for_each(NodeRunner::validate_capture)?;
        let (ledger, stats) = (capturer.ledger, capturer.stats);
        Ok(Engine { device, stream, nodes: runnable, runners, ledger, stats, skipped })
    }

    /// Configurations and bucket lists by name; a name that nothing has is an error.
    fn replace_configs(
        &self,
        regions: &mut [Box<dyn PendingRegion<B>>],
        nodes: &mut [PendingNode<B>],
    ) -> Result<()> {
        let (mut known, mut walks) = (BTreeSet::new(), BTreeSet::new());
        for region in regions {
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
        for node in nodes {
            for config in &mut node.configs {
                let name = format!("{}.{}", node.name, config.capture_graph_walk());
                if let Some(replace) = self.forwards_by_name.get(&name) {
                    *config = replace();
                }
                if let Some(list) = self.lists.get(&name) {
                    config.set_sizes(&name, list.batch_sizes.clone(), list.total_tokens.clone())?;
                }
                walks.insert(name);
            }
        }
        let region = self.regions_by_name.keys().find(|n| !known.contains(*n));
        let walk = self.forwards_by_name.keys().find(|n| !walks.contains(*n));
        let list = self.lists.names().find(|n| !known.contains(*n) && !walks.contains(*n));
        let (owner, what, got, known) = match (region, walk, list) {
            (Some(got), ..) => ("region_config", "region", got.as_str(), known),
            (_, Some(got), _) => ("forward_config", "captured walk", got.as_str(), walks),
            (.., Some(got)) => ("bucket lists", "region or captured walk", got, &known | &walks),
            (None, None, None) => return Ok(()),
        };
        let (owner, got) = (owner.to_string(), got.to_string());
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        Err(ErrorKind::UnknownName { owner, what, got, known }.into())
    }
}

/// `None`, and the reason put aside, for an entry that is registered for other backends only.
fn on_this_backend<T>(started: Result<T>, skipped: &mut Vec<Error>) -> Result<Option<T>> {
    match started {
        Ok(started) => Ok(Some(started)),
        Err(e) if matches!(e.kind(), ErrorKind::NotOnBackend { .. }) => {
            skipped.push(e);
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// Everything that was built for a backend.
///
/// ```
#[doc = include_str!("doc/scale.md")]
/// let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// let mut scale = engine.runners().take_one::<Scale>()?;
///
/// // Three requests run in the bucket of four; the fourth row is padding.
/// let y = scale.run(ScaleArgs { x: &[1.0, 2.0, 3.0] }, &[1; 3])?.into_out().y;
/// assert_eq!(y.to_vec(engine.stream())?, [3.0, 6.0, 9.0]);
/// let bucket = engine.stats()[0].buckets[0];
/// assert_eq!((bucket.replays, bucket.real_rows, bucket.padded_rows), (1, 3, 1));
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Engine<B: Backend> {
    device: B,
    stream: B::Stream,
    nodes: Vec<NodeRunner<B>>,
    runners: Runners<B>,
    ledger: Ledger,
    stats: Vec<Arc<Stats>>,
    skipped: Vec<Error>,
}

impl<B: Backend> fmt::Debug for Engine<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Engine");
        debug.field("backend", &B::NAME).field("nodes", &self.nodes).finish_non_exhaustive()
    }
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
    ///
    /// # Errors
    /// [`UnknownName`](ErrorKind::UnknownName) with the known ones.
    pub fn node(&mut self, name: &str) -> Result<&mut NodeRunner<B>> {
        let known = self.nodes.iter().map(|n| n.name()).collect::<Vec<_>>().join(", ");
        self.nodes.iter_mut().find(|n| n.name() == name).ok_or_else(|| {
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
    pub fn skipped(&self) -> &[Error] {
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
