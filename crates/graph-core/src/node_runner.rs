//! The life of a step of a node: declare, admit, lease, plan, stage, launch (or run eagerly), commit.

use std::{fmt, sync::Arc};

use crate::{
    Backend, BucketIx, Dims, ErrorKind, KeyInfo, Kwargs, Miss, NamedResults, Options, RequestId, Resources,
    Result, Row, Shape, Source, StepContext, StepRequests, Steps, WholeRunner,
    eager::EagerCall,
    named::in_order,
    node::{AnyNode, Forward, StaticsOf},
    shape::tokens_of,
    whole::WholeFace,
};

/// A bound node with its captured whole forwards and its resources.
///
/// ```
#[doc = include_str!("doc/node.md")]
#[doc = include_str!("doc/square.md")]
/// let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// let stream = engine.stream().clone();
/// let node = engine.node("toy")?;
/// let inputs = [("x", Source::slice(&[1.0_f32, 2.0, 3.0]))];
/// let call = NodeCall { requests: &[], seq_lens: &[1; 3], inputs: &inputs, slot: 0 };
/// let y = node.run("decode", &call)?.into_out().take::<f32, 1>("y")?.to_vec(&stream)?;
/// assert_eq!(y, [1.0, 4.0, 9.0]);
///
/// node.set_eager(true); // the same numbers, one launch after the other
/// assert_eq!(node.run("decode", &call)?.reason(), Some(Miss::Forced));
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct NodeRunner<B: Backend> {
    parts: NodeParts<B>,
    device: B,
    stream: B::Stream,
    strict: bool,
    eager_only: bool,
    scratch: Scratch,
}

/// Storage that steps use again, so that a replay allocates nothing.
#[derive(Default)]
struct Scratch {
    shape: Shape,
    rows: Vec<Row>,
}

/// What the engine builds a runner from.
pub(crate) struct NodeParts<B: Backend> {
    pub(crate) name: &'static str,
    pub(crate) forwards: &'static [Forward],
    pub(crate) statics: Arc<StaticsOf>,
    pub(crate) steps: Steps<B>,
    pub(crate) node: Box<dyn AnyNode<B>>,
    pub(crate) whole: WholeRunner<B>,
    pub(crate) resources: Arc<Resources>,
}

/// One step of a node: requests, their lengths, and inputs by name.
///
/// ```
#[doc = include_str!("doc/node.md")]
#[doc = include_str!("doc/square.md")]
/// # let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// # let node = engine.node("toy")?;
/// let inputs = [("x", Source::slice(&[1.0_f32, 2.0]))];
/// for step in 0..4 {
///     // The slots in turn: 0, 1, 0, 1 where the node has two.
///     let call = NodeCall { requests: &[], seq_lens: &[1, 1], inputs: &inputs, slot: step };
///     assert_eq!(node.run("decode", &call)?.reason(), None);
/// }
/// // Three requests, two rows.
/// let call = NodeCall { requests: &[], seq_lens: &[1, 1, 1], inputs: &inputs, slot: 0 };
/// assert!(matches!(node.run("decode", &call).unwrap_err().kind(), ErrorKind::WrongSize { .. }));
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct NodeCall<'c, B: Backend> {
    /// The requests, one per length; may be empty where the node has no resources.
    pub requests: &'c [RequestId],
    /// Tokens of each request.
    pub seq_lens: &'c [usize],
    /// Inputs by name, in any order, each once.
    pub inputs: &'c [(&'c str, Source<'c, B>)],
    /// The slot to use, modulo the number of slots.
    pub slot: usize,
}

/// What a step returns.
///
/// ```
#[doc = include_str!("doc/node.md")]
#[doc = include_str!("doc/square.md")]
/// # let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// # let node = engine.node("toy")?;
/// let inputs = [("x", Source::slice(&[1.0_f32; 5]))];
/// let call = NodeCall { requests: &[], seq_lens: &[1; 5], inputs: &inputs, slot: 0 };
/// match node.run("decode", &call)? {
///     WholeOutcome::Replayed(_) => unreachable!("the largest bucket holds four"),
///     WholeOutcome::Eager { mut out, reason } => {
///         assert_eq!(reason, Miss::TooManyRequests { bs: 5, largest: 4 });
///         assert_eq!(out.take::<f32, 1>("y")?.dims(), [5]);
///     }
/// }
/// # Ok::<(), graph_core::Error>(())
/// ```
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

/// Which of the two it is, and why; the results are not shown.
impl<B: Backend> fmt::Debug for WholeOutcome<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WholeOutcome::Replayed(_) => f.write_str("Replayed(..)"),
            WholeOutcome::Eager { reason, .. } => write!(f, "Eager({reason})"),
        }
    }
}

impl<B: Backend> fmt::Debug for NodeRunner<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeRunner({}, {})", self.parts.name, B::NAME)
    }
}

impl<B: Backend> NodeRunner<B> {
    pub(crate) fn new(parts: NodeParts<B>, device: B, stream: B::Stream, strict: bool) -> Self {
        NodeRunner { parts, device, stream, strict, eager_only: false, scratch: Scratch::default() }
    }

    /// One step of a walk: replayed where a bucket of the walk holds it, else eager.
    ///
    /// # Errors
    /// An unknown walk, with the known ones; inputs of a wrong name or size; a resource that does not admit the step
    /// ([`ErrorKind::Refused`]); no bucket in strict mode where the walk is captured; whatever the driver reports.
    /// After any of them the step did not happen: nothing is reserved, staged or held.
    pub fn run(&mut self, walk: &str, call: &NodeCall<'_, B>) -> Result<WholeOutcome<'_, B>> {
        self.run_keyed(walk, None, call)
    }

    /// The same among the captures with this `additional_key_info` only. A walk that is captured with a key runs
    /// eagerly through the forward of that capture, too.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_keyed(
        &mut self,
        walk: &str,
        key: Option<&KeyInfo>,
        call: &NodeCall<'_, B>,
    ) -> Result<WholeOutcome<'_, B>> {
        self.check(walk, call)?;
        let shape = &mut self.scratch.shape;
        shape.bs = call.seq_lens.len();
        shape.total_tokens = tokens_of(call.seq_lens);
        shape.seq_lens.clear();
        shape.seq_lens.extend_from_slice(call.seq_lens);
        let dims = shape.dims();
        self.parts.node.set_slot(call.slot);
        match self.bucket(walk, key, dims) {
            Ok(bucket) => self.replay(bucket, call).map(WholeOutcome::Replayed),
            Err(miss)
                if self.strict && !matches!(miss, Miss::Forced) && self.parts.whole.captures_walk(walk) =>
            {
                Err(ErrorKind::Strict { owner: self.owner(walk), miss }.into())
            }
            Err(reason) => {
                self.parts.whole.count_eager(walk, key, reason);
                let out = self.eager(walk, key, call)?;
                Ok(WholeOutcome::Eager { out, reason })
            }
        }
    }

    fn check(&self, walk: &str, call: &NodeCall<'_, B>) -> Result<()> {
        let bs = call.seq_lens.len();
        if bs == 0 {
            return Err(ErrorKind::EmptyBatch { owner: self.owner(walk) }.into());
        }
        if !call.requests.is_empty() && call.requests.len() != bs {
            let (owner, requests) = (self.owner(walk), call.requests.len());
            return Err(ErrorKind::LengthsDisagree { owner, lens: bs, bs: requests }.into());
        }
        if call.requests.is_empty() && !self.parts.steps.is_empty() {
            return Err(ErrorKind::RequestsMissing { owner: self.owner(walk), bs }.into());
        }
        Ok(())
    }

    fn owner(&self, walk: &str) -> String {
        format!("{}.{walk}", self.parts.name)
    }

    fn bucket(&self, walk: &str, key: Option<&KeyInfo>, dims: Dims) -> Result<BucketIx, Miss> {
        let whole = &self.parts.whole;
        let found = whole.walk(walk, key).ok_or(Miss::NoBuckets)?;
        if self.eager_only {
            return Err(Miss::Forced);
        }
        let bucket = whole.select_bucket(found, dims.bs, dims.tokens).map_err(|miss| match miss {
            Miss::NoBuckets => whole.failed(walk).map_or(miss, |buckets| Miss::CaptureFailed { buckets }),
            miss => miss,
        })?;
        whole.check_lengths(bucket, &self.scratch.shape.seq_lens)?;
        Ok(bucket)
    }

    fn replay(&mut self, bucket: BucketIx, call: &NodeCall<'_, B>) -> Result<NamedResults<'_, B>> {
        let NodeParts { node, steps, whole, .. } = &mut self.parts;
        let Scratch { shape, rows } = &mut self.scratch;
        let forward = whole.forward(bucket)?;
        let requests = StepRequests { requests: call.requests, seq_lens: call.seq_lens };
        let step = steps.declare(|step| node.declare_step(forward.schema.name, &requests, step))?.admit()?;
        let lease = whole.lease_slot(bucket, call.slot)?;
        whole.step_rows_into(&lease, call.requests, rows)?;
        let padded = whole.key(bucket).map(|k| Dims { bs: k.bs, tokens: k.tokens })?;
        whole.wait_for_slot(&lease)?;
        let cx = StepContext { slot: lease.slot(), rows, real_bs: shape.bs, padded, captured: true };
        let step = step.plan(&cx)?;
        let staged = whole.stage(lease, shape, call.inputs, &step)?;
        let out = whole.replay(staged, shape)?;
        step.commit(&rows[call.requests.len()..]);
        Ok(out)
    }

    fn eager(
        &mut self,
        walk: &str,
        key: Option<&KeyInfo>,
        call: &NodeCall<'_, B>,
    ) -> Result<NamedResults<'_, B>> {
        let owner = self.owner(walk);
        let shape = &self.scratch.shape;
        let NodeParts { node, steps, forwards, statics, resources, whole, .. } = &mut self.parts;
        let keyed = key.and_then(|key| whole.forward_of(walk, Some(key)));
        let named = || forwards.iter().find(|f| f.walks.contains(&walk));
        let Some(forward) = keyed.or_else(named).or_else(|| whole.forward_of(walk, None)) else {
            let known = self.walks().collect::<Vec<_>>().join(", ");
            let owner = self.parts.name.into();
            return Err(ErrorKind::UnknownName { owner, what: "walk", got: walk.into(), known }.into());
        };
        let sources = in_order(&forward.schema, call.inputs)?;
        let requests = StepRequests { requests: call.requests, seq_lens: call.seq_lens };
        let step = steps.declare(|step| node.declare_step(forward.schema.name, &requests, step))?.admit()?;
        let rows: Vec<Row> = call.requests.iter().map(|r| Row::Request(*r)).collect();
        let cx =
            StepContext { slot: 0, rows: &rows, real_bs: shape.bs, padded: shape.dims(), captured: false };
        let mut step = step.plan(&cx)?;
        let eager = EagerCall {
            device: &self.device,
            stream: &self.stream,
            owner: &owner,
            shape,
            request_ids: &rows,
            kwargs: &Kwargs::new(),
            resources,
        };
        let planned = eager.upload_planned(&step, forward.resources)?;
        let mut face = WholeFace {
            schema: &forward.schema,
            resources: forward.resources,
            statics: &**statics,
            node: Some(&mut **node),
        };
        let outs = eager.run(&mut face, &sources, &planned, Some(step.inside()))?;
        step.commit(&[]);
        Ok(NamedResults { schema: &forward.schema, outs: outs.into_iter().map(Some).collect() })
    }

    /// The node's name.
    pub fn name(&self) -> &'static str {
        self.parts.name
    }

    /// The walks that the node knows.
    pub fn walks(&self) -> impl Iterator<Item = &'static str> {
        self.parts.forwards.iter().flat_map(|f| f.walks.iter().copied())
    }

    /// Copies of the node's static buffers: steps that use them in turn (`NodeCall::slot`) are staged while others run.
    pub fn slots(&self) -> usize {
        self.parts.whole.slots()
    }

    /// Its captured whole forwards, for an engine that leases, stages and replays by itself.
    pub fn whole(&mut self) -> &mut WholeRunner<B> {
        &mut self.parts.whole
    }

    /// Its resources, for an engine that declares, admits and commits by itself.
    pub fn steps(&mut self) -> &mut Steps<B> {
        &mut self.parts.steps
    }

    /// Both at once.
    pub fn whole_and_steps(&mut self) -> (&mut WholeRunner<B>, &mut Steps<B>) {
        (&mut self.parts.whole, &mut self.parts.steps)
    }

    /// A request begins: every resource of the node learns of it.
    ///
    /// # Errors
    /// As [`Steps::ingest`].
    pub fn ingest(&mut self, request: RequestId, info: &Options) -> Result<()> {
        self.parts.steps.ingest(request, info)
    }

    /// A request ends: everything it had comes back.
    pub fn remove(&mut self, request: RequestId) {
        self.parts.steps.remove(request);
    }

    /// Runs every step eagerly from now on (or no longer), the regions inside included.
    pub fn set_eager(&mut self, eager_only: bool) {
        self.eager_only = eager_only;
        self.parts.node.set_eager(eager_only);
    }

    pub(crate) fn validate_capture(&self) -> Result<()> {
        self.parts.steps.validate_capture(&self.stream)
    }
}
