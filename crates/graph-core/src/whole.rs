//! The engine's face of the executor: a node's whole forwards, by walk.

use std::{borrow::Cow, sync::Arc};

use crate::{
    AnyView, Backend, BucketIx, BucketKey, BucketTable, CallInputs, CudaGraphConfig, CudaGraphConfigType, Cx,
    Dims, ErrorKind, KeyInfo, Kwargs, Miss, NamedInputs, NamedOutputs, NamedResults, NodeInputs, Planned,
    RequestId, Result, Row, Schema, Shape, SlotLease, Source, Staged, Statics, Step,
    arena::Claims,
    bucket::clamp,
    capture::{CaptureOptions, Capturer},
    claim::{Claimed, Program, Target, check_schema, claim},
    config::{PlannedBucket, plan_captures, shape_of},
    executor::Executor,
    named::in_order,
    node::{AnyNode, Forward, PendingNode, StaticsOf, forward_named},
    request::padded_rows,
    stats::Stats,
};

/// A walk with its key info, looked up once: no string on the hot path.
///
/// ```
#[doc = include_str!("doc/node.md")]
#[doc = include_str!("doc/square.md")]
/// # let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// let whole = engine.node("toy")?.whole();
/// let decode = whole.walk("decode", None).expect("it is captured"); // once, when the engine starts
/// assert_eq!(whole.walk("prefill", None), None, "it is eager");
/// let bucket = whole.select_bucket(decode, 3, 3).expect("a bucket of four"); // at every step
/// assert_eq!(whole.key(bucket)?.bs, 4);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk(usize);

/// The captured whole forwards of a node.
///
/// What [`NodeRunner::run`](crate::NodeRunner::run) does with it is spelled out in [`SlotLease`]'s example. A scheduler
/// asks it for sizes:
///
/// ```
#[doc = include_str!("doc/node.md")]
#[doc = include_str!("doc/square.md")]
/// # let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// let whole = engine.node("toy")?.whole();
/// assert_eq!(whole.max_batch_size_for("decode"), Some(4)); // form no batch that is larger
/// assert_eq!(whole.max_batch_size_for("prefill"), None); // eager, so of any size
/// assert_eq!(whole.buckets().map(|key| key.bs).collect::<Vec<_>>(), [4, 1]);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct WholeRunner<B: Backend> {
    node: &'static str,
    configs: Vec<Box<dyn CudaGraphConfig>>,
    /// One per configuration.
    executors: Vec<Executor<B>>,
    /// All buckets in capture order: configuration, position in its executor, key.
    buckets: Vec<WholeBucket>,
    groups: Vec<Group>,
    /// The captured forward of each configuration.
    forwards: Vec<&'static Forward>,
    statics: Arc<StaticsOf>,
    /// Reused at every step, so that sizes are worked out without allocating.
    sizes: Statics,
    rows: Vec<usize>,
}

struct WholeBucket {
    config: usize,
    local: BucketIx,
    key: BucketKey,
}

/// The buckets of one walk and key.
struct Group {
    walk: Cow<'static, str>,
    key: Option<KeyInfo>,
    table: BucketTable,
}

impl<B: Backend> WholeRunner<B> {
    /// A walk by name and key info; `None` where nothing is captured for it.
    pub fn walk(&self, name: &str, key: Option<&KeyInfo>) -> Option<Walk> {
        self.groups.iter().position(|g| g.walk == name && g.key.as_ref() == key).map(Walk)
    }

    /// Whether anything is captured for a walk.
    pub fn captures_walk(&self, name: &str) -> bool {
        self.groups.iter().any(|g| g.walk == name)
    }

    /// The smallest (tokens, bs) that holds both.
    ///
    /// # Errors
    /// A [`Miss`] with its numbers.
    #[inline]
    pub fn select_bucket(&self, walk: Walk, bs: usize, tokens: usize) -> Result<BucketIx, Miss> {
        self.groups.get(walk.0).map_or(Err(Miss::NoBuckets), |g| g.table.choose(Dims { bs, tokens }))
    }

    /// The smallest (bs, tokens) of a batched configuration, for when tokens are not known yet.
    ///
    /// # Errors
    /// A [`Miss`]: no batched bucket, or none that is large enough.
    #[inline]
    pub fn select_batched_bucket(&self, walk: Walk, bs: usize) -> Result<BucketIx, Miss> {
        self.groups.get(walk.0).map_or(Err(Miss::NoBuckets), |g| g.table.choose_batched(bs))
    }

    /// The key of a bucket; the walk in it is its capture walk. An error for a bucket of another runner.
    pub fn key(&self, bucket: BucketIx) -> Result<&BucketKey> {
        self.bucket(bucket).map(|b| &b.key)
    }

    fn bucket(&self, bucket: BucketIx) -> Result<&WholeBucket> {
        self.buckets
            .get(bucket.index())
            .ok_or_else(|| ErrorKind::ForeignLease { owner: self.node.into() }.into())
    }

    /// The buckets, in capture order.
    pub fn buckets(&self) -> impl Iterator<Item = &BucketKey> {
        self.buckets.iter().map(|b| &b.key)
    }

    /// How large a batch of a walk a scheduler should form: the largest captured size of the configurations that cap
    /// it; `None` for no cap. A capture that failed lowers it (difference 13).
    pub fn max_batch_size_for(&self, walk: &str) -> Option<usize> {
        let caps = |c: &dyn CudaGraphConfig| c.caps_eager_batch_size() && serves(c, walk);
        let capped = self.buckets.iter().filter(|b| caps(&*self.configs[b.config]));
        capped.map(|b| b.key.bs).max()
    }

    /// Takes a slot (modulo the number of slots) for a step in `bucket`.
    ///
    /// # Errors
    /// [`SlotLeased`](ErrorKind::SlotLeased); [`OutputHeld`](ErrorKind::OutputHeld);
    /// [`ForeignLease`](ErrorKind::ForeignLease) for a bucket of another runner.
    #[inline]
    pub fn lease_slot(&self, bucket: BucketIx, slot: usize) -> Result<SlotLease<B>> {
        let b = self.bucket(bucket)?;
        let mut lease = self.executors[b.config].lease(b.local, slot)?;
        lease.token.bucket = bucket;
        Ok(lease)
    }

    /// The rows of a step in `bucket`: the real ones, then padding rows.
    ///
    /// # Errors
    /// [`BeyondBucket`](ErrorKind::BeyondBucket) for more rows than it has; [`ForeignLease`](ErrorKind::ForeignLease) for a
    /// bucket of another runner.
    pub fn pad_inputs(&self, bucket: BucketIx, rows: Vec<NodeInputs>) -> Result<Vec<NodeInputs>> {
        let b = self.bucket(bucket)?;
        self.configs[b.config].pad_inputs(&b.key, rows)
    }

    /// Whose each row of a leased step is: the requests, then padding.
    ///
    /// # Errors
    /// [`BeyondBucket`](ErrorKind::BeyondBucket) for more requests than the bucket has rows;
    /// [`ForeignLease`](ErrorKind::ForeignLease) for a bucket of another runner.
    pub fn step_rows<S>(&self, lease: &SlotLease<B, S>, requests: &[RequestId]) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        self.step_rows_into(lease, requests, &mut rows)?;
        Ok(rows)
    }

    /// The same into storage that is used again.
    pub(crate) fn step_rows_into<S>(
        &self,
        lease: &SlotLease<B, S>,
        requests: &[RequestId],
        into: &mut Vec<Row>,
    ) -> Result<()> {
        padded_rows(self.node, lease.slot(), self.key(lease.token.bucket)?.bs, requests, into)
    }

    /// Waits until the last graph that was launched on a leased slot is done. Graphs on other slots may still run.
    ///
    /// # Errors
    /// [`NeverCompleted`](ErrorKind::NeverCompleted); [`ForeignLease`](ErrorKind::ForeignLease); what the backend reports.
    pub fn wait_for_slot<S>(&self, lease: &SlotLease<B, S>) -> Result<()> {
        let executor = &self.executors[self.bucket(lease.token.bucket)?.config];
        match lease.token.executor == executor.id {
            true => executor.wait_for(lease.slot()),
            false => Err(ErrorKind::ForeignLease { owner: executor.owner.clone() }.into()),
        }
    }

    /// Copies of the static buffers; 1 where nothing is captured.
    pub fn slots(&self) -> usize {
        self.executors.iter().map(|e| e.slots.len()).max().unwrap_or(1)
    }

    /// Writes the inputs of a step, its planned inputs, and all padding. `inputs` are by name, in any order, each once.
    ///
    /// # Errors
    /// An input that is unknown, missing, named twice, of another type or size, or whose buffer somebody holds
    /// ([`InputHeld`](ErrorKind::InputHeld)); a step that was planned for another slot
    /// ([`OtherSlot`](ErrorKind::OtherSlot)); a lease of another runner; what the backend reports. The slot is free again.
    pub fn stage(
        &mut self,
        lease: SlotLease<B>,
        shape: &Shape,
        inputs: &[(&str, Source<'_, B>)],
        step: &Step<'_, B, Planned>,
    ) -> Result<SlotLease<B, Staged>> {
        let config = self.bucket(lease.token.bucket)?.config;
        let executor = &mut self.executors[config];
        let mut sources = in_order(executor.schema, inputs)?;
        self.sizes.clear();
        (self.statics)(executor.schema.name, shape, &mut self.sizes);
        self.rows.clear();
        let sizes = self.sizes.inputs.iter().zip(executor.schema.inputs);
        self.rows.extend(sizes.map(|(size, io)| size.dims[io.axis]));
        let mut planned = executor.inputs.iter().skip(executor.schema.inputs.len());
        step.planned(self.forwards[config].resources, lease.slot(), |_, _, source| {
            self.rows.extend(planned.next().map(|plan| source.dims[plan.axis]));
            sources.push(source);
            Ok(())
        })?;
        executor.stage(lease, shape.dims(), &self.rows, &sources)
    }

    /// Launches the graph of a staged step.
    ///
    /// # Errors
    /// [`BeyondBucket`](ErrorKind::BeyondBucket); a lease of another runner; what the backend reports. The slot is free
    /// again.
    pub fn replay(&mut self, lease: SlotLease<B, Staged>, shape: &Shape) -> Result<NamedResults<'_, B>> {
        let config = self.bucket(lease.token.bucket)?.config;
        let executor = &mut self.executors[config];
        if lease.token.executor != executor.id {
            return Err(ErrorKind::ForeignLease { owner: executor.owner.clone() }.into());
        }
        let mut launched = executor.launch(lease, shape.dims())?;
        self.sizes.clear();
        (self.statics)(executor.schema.name, shape, &mut self.sizes);
        let executor = &self.executors[config];
        let sizes = self.sizes.outputs.iter().zip(executor.schema.outputs).enumerate();
        let outs =
            sizes.map(|(i, (size, io))| executor.output(&mut launched, i, size.dims[io.axis])).collect();
        Ok(NamedResults { schema: executor.schema, outs })
    }

    /// The forward that a bucket captured.
    pub(crate) fn forward(&self, bucket: BucketIx) -> Result<&'static Forward> {
        Ok(self.forwards[self.bucket(bucket)?.config])
    }

    /// The forward that is captured for a walk with this key, whether or not a capture succeeded.
    pub(crate) fn forward_of(&self, walk: &str, key: Option<&KeyInfo>) -> Option<&'static Forward> {
        let config = self.configs.iter().position(|c| serves(&**c, walk) && c.additional_key_info() == key);
        config.map(|i| self.forwards[i])
    }

    /// How many buckets of a walk could not be captured, where that is all of them.
    pub(crate) fn failed(&self, walk: &str) -> Option<u32> {
        let serving = (0..self.configs.len()).filter(|i| serves(&*self.configs[*i], walk));
        let failed: usize = serving.map(|i| self.executors[i].stats.failed()).sum();
        (failed > 0).then_some(clamp(failed))
    }

    /// A batched capture replays requests of its own length only: its graph has that length in it.
    pub(crate) fn check_lengths(&self, bucket: BucketIx, seq_lens: &[usize]) -> Result<(), Miss> {
        let Some(b) = self.buckets.get(bucket.index()) else { return Err(Miss::NoBuckets) };
        if self.configs[b.config].config_type() != CudaGraphConfigType::BasicBatched {
            return Ok(());
        }
        let want = b.key.tokens / b.key.bs;
        // A template without tokens says nothing about lengths.
        match seq_lens.iter().find(|len| want > 0 && **len != want) {
            Some(got) => Err(Miss::OtherLengths { got: clamp(*got), want: clamp(want) }),
            None => Ok(()),
        }
    }

    /// Counts an eager call of a walk, for the configuration with its key if there is one.
    pub(crate) fn count_eager(&self, walk: &str, key: Option<&KeyInfo>, reason: Miss) {
        let mut serving = (0..self.configs.len()).filter(|i| serves(&*self.configs[*i], walk));
        let keyed = serving.clone().find(|i| self.configs[*i].additional_key_info() == key);
        if let Some(i) = keyed.or_else(|| serving.next()) {
            self.executors[i].stats.count_eager(reason);
        }
    }
}

/// Whether a configuration's captures may be replayed for a walk.
fn serves(config: &dyn CudaGraphConfig, walk: &str) -> bool {
    config.capture_graph_walk() == walk || config.replay_graph_walks().iter().any(|w| w == walk)
}

/// A node's named forward as something to capture.
pub(crate) struct WholeFace<'n, B: Backend> {
    pub(crate) schema: &'static Schema,
    pub(crate) resources: &'static [&'static str],
    pub(crate) statics: &'n StaticsOf,
    /// Not there while sizes are claimed: the node is bound later.
    pub(crate) node: Option<&'n mut dyn AnyNode<B>>,
}

impl<B: Backend> Program<B> for WholeFace<'_, B> {
    fn schema(&self) -> &'static Schema {
        self.schema
    }
    fn statics(&self, shape: &Shape, statics: &mut Statics) -> Result<()> {
        (self.statics)(self.schema.name, shape, statics);
        Ok(())
    }
    fn kwargs(&self) -> Kwargs {
        Kwargs::new()
    }
    fn resources(&self) -> &'static [&'static str] {
        self.resources
    }
    fn prepare(&mut self, cx: &mut Cx<'_, B>) -> Result<()> {
        self.node.as_mut().map_or(Ok(()), |node| node.prepare(self.schema.name, cx))
    }
    fn record(
        &mut self,
        cx: &mut Cx<'_, B>,
        x: &[AnyView<'_, B>],
        y: &[AnyView<'_, B>],
        host: &[Source<'_, B>],
    ) -> Result<()> {
        let (engine_inputs, kwargs, resources) = (cx.engine_inputs, cx.kwargs, cx.resources);
        let inputs = NamedInputs { schema: self.schema, views: x, host };
        let outputs = NamedOutputs { schema: self.schema, views: y };
        let call = CallInputs { inputs, outputs, engine_inputs, kwargs, resources };
        self.node.as_mut().map_or(Ok(()), |node| node.forward(self.schema.name, cx, &call))
    }
}

/// The whole forwards of a node between claim and capture.
pub(crate) struct PendingWhole {
    node: &'static str,
    /// The captured forward of each configuration.
    forwards: Vec<&'static Forward>,
    configs: Vec<Box<dyn CudaGraphConfig>>,
    statics: Arc<StaticsOf>,
    plan: Vec<PlannedBucket>,
    claimed: Vec<Claimed>,
}

impl PendingWhole {
    /// Plans the buckets of all configurations and claims their static buffers.
    pub(crate) fn claim<B: Backend>(
        node: &mut PendingNode<B>,
        options: &CaptureOptions,
        claims: &mut Claims,
    ) -> Result<Self> {
        node.forwards.iter().try_for_each(|forward| check_schema(&forward.schema))?;
        let configs = std::mem::take(&mut node.configs);
        let plan = plan_captures(node.name, &configs, &options.default_batch_sizes)?;
        let mut claimed = Vec::new();
        let mut captured = Vec::new();
        for (i, config) in configs.iter().enumerate() {
            let forward = forward_named(node.name, node.forwards, config.capture_forward_method())?;
            let batched = config.config_type() == CudaGraphConfigType::BasicBatched;
            let mine = plan.iter().filter(|p| p.config == i);
            let targets = mine
                .map(|p| {
                    let shape = shape_of(&**config, Dims { bs: p.key.bs, tokens: p.key.tokens })?;
                    Ok(Target { shape, batched, compile: config.compile() })
                })
                .collect::<Result<_>>()?;
            let face: WholeFace<'_, B> = WholeFace {
                schema: &forward.schema,
                resources: forward.resources,
                statics: &*node.statics,
                node: None,
            };
            let slots = options.slots_for(&node.steps);
            claimed.push(claim(&face, targets, slots, claims, &mut node.steps)?);
            captured.push(forward);
        }
        let (name, statics) = (node.name, node.statics.clone());
        Ok(PendingWhole { node: name, forwards: captured, configs, statics, plan, claimed })
    }

    /// Buckets to capture.
    pub(crate) fn buckets(&self) -> usize {
        self.plan.len()
    }

    /// Bytes of the blocks of host-side inputs.
    pub(crate) fn blocks_bytes(&self) -> usize {
        self.claimed.iter().map(Claimed::blocks_bytes).sum()
    }

    /// Captures every bucket, in the planned order over all configurations.
    pub(crate) fn capture<B: Backend>(
        self,
        capturer: &mut Capturer<'_, B>,
        node: &mut dyn AnyNode<B>,
    ) -> Result<WholeRunner<B>> {
        let mut builds = Vec::new();
        for (config, claimed) in self.configs.iter().zip(self.claimed) {
            let walk = config.capture_graph_walk().to_string();
            let stats = Stats::new(self.node, walk.clone(), Some(walk));
            builds.push(capturer.begin(claimed, stats)?);
        }
        let mut next = vec![0; builds.len()];
        let mut buckets = Vec::new();
        type Filed = Vec<(BucketIx, Dims, bool)>;
        let mut groups: Vec<(Cow<'static, str>, Option<KeyInfo>, Filed)> = Vec::new();
        for planned in &self.plan {
            let config = planned.config;
            let Forward { schema, resources, .. } = self.forwards[config];
            let mut face = WholeFace { schema, resources, statics: &*self.statics, node: Some(&mut *node) };
            let captured = capturer.bucket(&mut builds[config], &mut face, next[config]);
            next[config] += 1;
            let ix = captured.map(|local| {
                buckets.push(WholeBucket { config, local, key: planned.key.clone() });
                BucketIx(buckets.len() as u32 - 1)
            });
            let batched = self.configs[config].config_type() == CudaGraphConfigType::BasicBatched;
            for walk in &planned.walks {
                let key = &planned.key.key;
                let mine = match groups.iter().position(|g| g.0 == *walk && g.1 == *key) {
                    Some(i) => &mut groups[i].2,
                    None => {
                        groups.push((walk.clone(), key.clone(), Vec::new()));
                        &mut groups.last_mut().expect("pushed").2
                    }
                };
                let dims = Dims { bs: planned.key.bs, tokens: planned.key.tokens };
                mine.extend(ix.map(|ix| (ix, dims, batched)));
            }
        }
        let group = |(walk, key, mine)| Group { walk, key, table: BucketTable::of(mine) };
        Ok(WholeRunner {
            node: self.node,
            configs: self.configs,
            executors: builds.into_iter().map(|b| capturer.finish(b)).collect(),
            buckets,
            groups: groups.into_iter().map(group).collect(),
            forwards: self.forwards,
            statics: self.statics,
            sizes: Statics::default(),
            rows: Vec::new(),
        })
    }
}
