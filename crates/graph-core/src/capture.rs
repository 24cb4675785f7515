//! Capture: the one place that knows the order of the calls.
//!
//! Per bucket, largest first, and per slot: stage an all-padding call, prepare, warm up, begin, head, body, tail, end,
//! audit, instantiate, upload. Whatever fails costs that bucket and nothing else (invariant 8); a panic is an error
//! like any other (invariant 9).

use std::{
    collections::BTreeMap,
    fmt,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    Backend, BucketIx, Dims, Error, ErrorKind, Kwargs, Mode, ModelInputsFromEngine, Pad, PadRows, Resources,
    Result, Row, Side, Steps,
    arena::Arena,
    claim::{Claimed, Program, SlotClaim, Target},
    cx::{Cx, InsideForward, Workspace},
    eager::no_panic,
    executor::{Bucket, Executor, IoPlan, Layout, Slot},
    lease::SlotPlaces,
    resource::PlannedViews,
    stats::{BucketStats, Stats},
    tensor::AnyView,
};

/// How captures are made.
///
/// ```
#[doc = include_str!("doc/scale.md")]
/// let options = CaptureOptions { slots: Some(2), strict: true, ..CaptureOptions::default() };
/// let mut engine = Engine::builder(Host::new()).capture_options(options).build(&registry)?;
/// let mut scale = engine.runners().take_one::<Scale>()?;
///
/// // The largest bucket holds four requests. In strict mode a fifth is an error, not an eager call.
/// let error = scale.run(ScaleArgs { x: &[1.0; 5] }, &[1; 5]).expect_err("no bucket fits");
/// assert!(matches!(error.kind(), ErrorKind::Strict { miss: Miss::TooManyRequests { .. }, .. }));
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CaptureOptions {
    /// Copies of every node's static buffers; `None` for two where a resource of the node can plan ahead, one otherwise.
    pub slots: Option<usize>,
    /// Times that a forward runs on padding before its capture; 1 at the least, since it measures scratch memory.
    pub warm_ups: usize,
    /// Sizes where a configuration names none.
    pub default_batch_sizes: Vec<usize>,
    /// A call that no bucket fits is an error instead of an eager execution.
    pub strict: bool,
    /// Bytes on the device that static buffers, blocks, scratch memory and resources may have; `None` for any.
    ///
    /// All but scratch memory is known before anything is allocated, and refused then if it is too much. Scratch memory
    /// is measured by warm-ups: a bucket whose scratch does not fit is dropped. The driver's own memory for graphs is
    /// not counted.
    pub memory_budget: Option<usize>,
}

impl Default for CaptureOptions {
    /// Slots by the node's resources, two warm-ups, mstar's default sizes, not strict.
    fn default() -> Self {
        CaptureOptions {
            slots: None,
            warm_ups: 2,
            default_batch_sizes: crate::DEFAULT_BATCH_SIZES.to_vec(),
            strict: false,
            memory_budget: None,
        }
    }
}

impl CaptureOptions {
    /// Refuses what is over the budget.
    pub(crate) fn check_budget(&self, needed: &Ledger) -> Result<()> {
        match self.memory_budget {
            Some(budget) if needed.total() > budget => {
                Err(ErrorKind::OverBudget { budget, needed: Box::new(needed.clone()) }.into())
            }
            _ => Ok(()),
        }
    }

    /// Slots of a node with these resources.
    pub(crate) fn slots_for<B: Backend>(&self, steps: &Steps<B>) -> usize {
        self.slots.unwrap_or_else(|| steps.slots()).max(1)
    }
}

/// What happened to one bucket.
///
/// ```
#[doc = include_str!("doc/scale.md")]
/// let mut lines = Vec::new();
/// let builder = Engine::builder(Host::new()).progress(|p| {
///     let what = p.failure.map_or("captured".to_string(), |why| why.to_string());
///     lines.push(format!("{}/{} {} bs {}: {what}", p.done, p.total, p.owner, p.dims.bs));
/// });
/// builder.build(&registry)?;
/// assert_eq!(lines[0], "1/3 toy.scale bs 4: captured"); // the largest comes first
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Debug)]
pub struct CaptureProgress<'a> {
    /// `node.name`.
    pub owner: &'a str,
    /// The bucket's size.
    pub dims: Dims,
    /// Buckets done, this one included.
    pub done: usize,
    /// Buckets in all.
    pub total: usize,
    /// Why it is not there, if it is not.
    pub failure: Option<&'a Error>,
}

/// Everything that captures share.
pub(crate) struct Capturer<'b, B: Backend> {
    pub(crate) device: &'b B,
    pub(crate) stream: &'b B::Stream,
    pub(crate) arena: &'b Arena<B>,
    /// Of the node whose graphs are being captured.
    pub(crate) resources: Arc<Resources>,
    pub(crate) options: &'b CaptureOptions,
    /// Scratch memory that all graphs of the stream share: they run one after the other. A graph keeps what it
    /// recorded, so replacing it by a larger one is safe.
    pub(crate) scratch: Option<B::Buffer>,
    pub(crate) ledger: Ledger,
    pub(crate) done: usize,
    pub(crate) total: usize,
    pub(crate) progress: &'b mut dyn FnMut(CaptureProgress<'_>),
    /// The counters of every executor that was built.
    pub(crate) stats: Vec<Arc<Stats>>,
}

/// An executor whose buckets are being captured.
pub(crate) struct ExecutorBuild<B: Backend> {
    owner: String,
    claimed: Claimed,
    slots: Vec<Slot<B>>,
    buckets: Vec<Bucket<B>>,
    failures: Vec<Arc<Error>>,
    stats: Stats,
}

impl<B: Backend> Capturer<'_, B> {
    /// Allocates the blocks of every slot.
    pub(crate) fn begin(&mut self, claimed: Claimed, stats: Stats) -> Result<ExecutorBuild<B>> {
        let block_bytes = claimed.block_bytes();
        let done_at = block_bytes.next_multiple_of(4);
        let slot = |claim: &SlotClaim| {
            let inputs = claim.inputs.iter().map(|id| id.map(|id| self.arena.place(id))).collect();
            let outputs = claim.outputs.iter().map(|id| self.arena.place(*id)).collect();
            Ok(Slot {
                places: Arc::new(SlotPlaces::new(inputs, outputs)),
                pinned: self.device.alloc_pinned(done_at + 4)?,
                block: self.device.alloc(block_bytes)?,
                done_at,
                sequence: 0,
            })
        };
        let slots: Vec<_> = claimed.slots.iter().map(slot).collect::<Result<_>>()?;
        let owner = format!("{}.{}", stats.node, stats.name);
        Ok(ExecutorBuild { owner, claimed, slots, buckets: Vec::new(), failures: Vec::new(), stats })
    }

    /// Captures the bucket of one target; `None` when that failed.
    pub(crate) fn bucket(
        &mut self,
        build: &mut ExecutorBuild<B>,
        program: &mut dyn Program<B>,
        target: usize,
    ) -> Option<BucketIx> {
        let claimed = &build.claimed;
        let (target, layout) = &claimed.targets[target];
        let mut bucket = BucketCapture {
            inputs: &claimed.inputs,
            outputs: &claimed.outputs,
            kwargs: &claimed.kwargs,
            planned: &claimed.planned,
            target,
            layout,
        };
        let captured = bucket.run(self, program, &build.slots, &build.owner).map_err(Arc::new);
        self.done += 1;
        (self.progress)(CaptureProgress {
            owner: &build.owner,
            dims: layout.dims,
            done: self.done,
            total: self.total,
            failure: captured.as_ref().err().map(|e| &**e),
        });
        match captured {
            Err(failure) => {
                build.failures.push(failure);
                None
            }
            Ok((graphs, operations)) => {
                let ins = claimed.inputs.iter().zip(&layout.in_rows);
                let device_side = ins.filter(|(plan, _)| plan.side == Side::Device);
                let buffers = device_side.chain(claimed.outputs.iter().zip(&layout.out_rows));
                let bytes = layout.block_bytes + buffers.map(|(plan, rows)| plan.bytes(*rows)).sum::<usize>();
                let stats = Arc::new(BucketStats::new(layout.dims, operations, bytes));
                build.buckets.push(Bucket { layout: layout.clone(), graphs, stats });
                Some(BucketIx(build.buckets.len() as u32 - 1))
            }
        }
    }

    pub(crate) fn finish(&mut self, build: ExecutorBuild<B>) -> Executor<B> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let stats = Arc::new(build.stats);
        stats.finish(build.buckets.iter().map(|b| b.stats.clone()).collect(), build.failures);
        self.stats.push(stats.clone());
        Executor {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            owner: build.owner,
            schema: build.claimed.schema,
            device: self.device.clone(),
            stream: self.stream.clone(),
            inputs: build.claimed.inputs,
            outputs: build.claimed.outputs,
            kwargs: build.claimed.kwargs,
            buckets: build.buckets,
            slots: build.slots.into(),
            stats,
            not_sync: PhantomData,
        }
    }

    /// Scratch memory of at least `bytes` bytes.
    fn scratch(&mut self, bytes: usize) -> Result<B::Buffer> {
        match &self.scratch {
            Some(buffer) if B::buffer_bytes(buffer) >= bytes => Ok(buffer.clone()),
            _ => {
                let needed = Ledger { scratch: self.ledger.scratch + bytes, ..self.ledger.clone() };
                self.options.check_budget(&needed)?;
                let buffer = self.device.alloc(bytes.max(1))?;
                self.ledger = needed;
                Ok(self.scratch.insert(buffer).clone())
            }
        }
    }
}

/// The capture of one bucket on every slot.
struct BucketCapture<'c> {
    inputs: &'c [IoPlan],
    outputs: &'c [IoPlan],
    kwargs: &'c Kwargs,
    planned: &'c [(&'static str, &'static str)],
    target: &'c Target,
    layout: &'c Layout,
}

type Captured<B> = (Box<[<B as Backend>::Graph]>, Vec<String>);

impl BucketCapture<'_> {
    fn run<B: Backend>(
        &mut self,
        capturer: &mut Capturer<'_, B>,
        program: &mut dyn Program<B>,
        slots: &[Slot<B>],
        owner: &str,
    ) -> Result<Captured<B>> {
        let mut graphs = Vec::new();
        let mut operations = Vec::new();
        for (index, slot) in slots.iter().enumerate() {
            let mut stage = "staging";
            let (graph, names) =
                self.run_slot(capturer, program, slot, index, &mut stage).map_err(|cause| {
                    let Dims { bs, tokens } = self.layout.dims;
                    ErrorKind::Capture { owner: owner.into(), bs, tokens, slot: index, stage, cause }
                })?;
            graphs.push(graph);
            operations = names;
        }
        Ok((graphs.into(), operations))
    }

    fn run_slot<B: Backend>(
        &mut self,
        capturer: &mut Capturer<'_, B>,
        program: &mut dyn Program<B>,
        slot: &Slot<B>,
        index: usize,
        stage: &mut &'static str,
    ) -> Result<(B::Graph, Vec<String>)> {
        let (device, stream) = (capturer.device, capturer.stream);
        let x: Vec<_> = self.inputs.iter().enumerate().map(|(i, plan)| self.input(plan, i, slot)).collect();
        let y: Vec<_> = self.outputs.iter().enumerate().map(|(i, plan)| self.output(plan, i, slot)).collect();
        let rows: Vec<Row> = (0..self.layout.dims.bs).map(|row| Row::Padding { slot: index, row }).collect();
        let engine_inputs =
            ModelInputsFromEngine { request_ids: &rows, seq_lens: &self.target.shape.seq_lens };
        let resources = &*capturer.resources.clone();
        let (x, planned) = x.split_at(x.len() - self.planned.len());
        let planned = PlannedViews { names: self.planned, views: planned };
        let mut run = |mode, workspace: &mut Workspace<B>, prepare: bool| {
            let (dims, kwargs) = (self.layout.dims, self.kwargs);
            let mut cx = Cx {
                device,
                stream,
                dims,
                slot: index,
                mode,
                workspace,
                engine_inputs,
                kwargs,
                resources,
                planned,
                steps: None,
            };
            let _inside = InsideForward::enter();
            no_panic(|| match prepare {
                true => program.prepare(&mut cx),
                false => program.record(&mut cx, x, &y, &[]),
            })
        };

        B::synchronize(stream)?;
        self.zero_block(slot);
        self.head(stream, slot)?;
        if index == 0 && self.target.compile {
            *stage = "prepare";
            run(Mode::WarmUp, &mut Workspace::fresh(), true)?;
        }
        *stage = "warm-up";
        let (mut issued, mut scratch) = (0, 0);
        for _ in 0..capturer.options.warm_ups.max(1) {
            let before = device.issued();
            let mut workspace = Workspace::fresh();
            let ran = run(Mode::WarmUp, &mut workspace, false);
            B::synchronize(stream)?;
            ran?;
            (issued, scratch) = (device.issued() - before, workspace.used());
        }

        *stage = "capture";
        let mut workspace = Workspace::planned(capturer.scratch(scratch)?);
        B::begin_capture(stream)?;
        let body = self.head(stream, slot).and_then(|()| {
            run(Mode::Capture, &mut workspace, false)?;
            let sequence = self.inputs.len() * 4;
            B::signal(stream, (&slot.block, sequence), (&slot.pinned, slot.done_at))
        });
        let ended = B::end_capture(stream); // on every path
        body?;
        let captured = ended?;

        *stage = "audit";
        let mut names = B::operations(&captured);
        let head = 1 + slot.places.inputs.iter().flatten().count();
        let recorded = names.len().saturating_sub(head + 1);
        if recorded as u64 != issued {
            let recorded_names = names.drain(..).skip(head).take(recorded).collect::<Vec<_>>().join(", ");
            return Err(
                ErrorKind::OperationsDiffer { issued, recorded: recorded as u64, recorded_names }.into()
            );
        }
        *stage = "instantiate";
        let graph = device.instantiate(captured)?;
        *stage = "upload";
        B::upload_graph(&graph, stream)?;
        Ok((graph, names))
    }

    fn input<'s, B: Backend>(&self, plan: &IoPlan, i: usize, slot: &'s Slot<B>) -> AnyView<'s, B> {
        let (buffer, offset) = match &slot.places.inputs[i] {
            Some(place) => (&place.buffer, place.offset),
            None => (&slot.block, self.layout.host_at[i]),
        };
        let dims = plan.dims_at(self.layout.in_rows[i]);
        AnyView { buffer, offset, elem: plan.elem, dims, rank: plan.rank }
    }

    fn output<'s, B: Backend>(&self, plan: &IoPlan, i: usize, slot: &'s Slot<B>) -> AnyView<'s, B> {
        let place = &slot.places.outputs[i];
        let dims = plan.dims_at(self.layout.out_rows[i]);
        AnyView { buffer: &place.buffer, offset: place.offset, elem: plan.elem, dims, rank: plan.rank }
    }

    /// An all-padding call: no real row anywhere, so that a warm-up never runs on garbage.
    fn zero_block<B: Backend>(&self, slot: &Slot<B>) {
        let pinned = B::pinned_bytes(&slot.pinned);
        // SAFETY: the slot is not yet shared, nothing that reads or writes its block is in flight (the caller has
        // just synchronised the stream), and the slice ends before the sequence word.
        let block =
            unsafe { std::slice::from_raw_parts_mut(pinned.cast::<u8>().as_ptr(), self.layout.block_bytes) };
        block.fill(0);
        for (i, plan) in self.inputs.iter().enumerate() {
            if let (Pad::Value(value), Side::Host) = (&plan.pad, plan.side) {
                let at = self.layout.host_at[i];
                let all = &mut block[at..at + plan.bytes(self.layout.in_rows[i])];
                all.chunks_exact_mut(value.bytes().len()).for_each(|e| e.copy_from_slice(value.bytes()));
            }
        }
    }

    /// The first operations of a graph: upload the block, pad the device-side inputs by the header.
    fn head<B: Backend>(&self, stream: &B::Stream, slot: &Slot<B>) -> Result<()> {
        B::upload_block(stream, &slot.pinned, &slot.block, self.layout.block_bytes)?;
        for (i, (plan, place)) in self.inputs.iter().zip(&slot.places.inputs).enumerate() {
            if let Some(place) = place {
                let pad = PadRows {
                    buffer: &place.buffer,
                    offset: place.offset,
                    row_bytes: plan.row_bytes,
                    rows: self.layout.in_rows[i],
                    header: &slot.block,
                    word: i,
                    pad: plan.pad,
                };
                B::pad_rows(stream, pad)?;
            }
        }
        Ok(())
    }
}

/// What is held in memory, by node (bytes).
///
/// ```
#[doc = include_str!("doc/scale.md")]
/// let engine = Engine::builder(Host::new()).build(&registry)?;
/// let ledger = engine.ledger();
/// // The output of the largest bucket, on its own 256 bytes; the host-side input lies in the block, behind its header.
/// assert_eq!((ledger.arena["toy"], ledger.blocks), (256, 16 + 4 * 4));
/// assert_eq!(ledger.total(), 256 + 32);
///
/// // The same numbers, before anything is allocated, where a budget refuses them.
/// let options = CaptureOptions { memory_budget: Some(100), ..CaptureOptions::default() };
/// let error = Engine::builder(Host::new()).capture_options(options).build(&registry).unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::OverBudget { needed, .. } if **needed == *ledger));
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Static buffers of each node, once at the largest bucket for each slot.
    pub arena: BTreeMap<&'static str, usize>,
    /// Blocks of host-side inputs, on the device; pinned memory holds the same again.
    pub blocks: usize,
    /// Scratch memory of captured forwards, shared by all graphs.
    pub scratch: usize,
    /// What resources hold, such as KV pages.
    pub resources: usize,
}

impl Ledger {
    /// All of it.
    pub fn total(&self) -> usize {
        let parts = [self.blocks, self.scratch, self.resources].into_iter();
        parts.chain(self.arena.values().copied()).fold(0, usize::saturating_add)
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ledger { arena, blocks, scratch, resources } = self;
        arena.iter().try_for_each(|(node, bytes)| write!(f, "static buffers of {node} {bytes}, "))?;
        write!(f, "blocks of host-side inputs {blocks}, scratch {scratch}, resources {resources}")
    }
}
