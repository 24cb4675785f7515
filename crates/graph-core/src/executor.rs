//! The one executor behind regions and whole forwards: choose, lease, stage, launch, outputs.
//!
//! Building it is in `claim.rs` and `capture.rs`; writing a step's inputs is in `stage.rs`.

use std::{
    cell::Cell,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::{
    Backend, BucketIx, Dims, Elem, Error, ErrorKind, Kwargs, Pad, RawOut, Result, Schema, Side, SlotLease,
    lease::{Busy, Keep, Launched, LeaseHold, SlotPlaces, Staged},
    stats::{BucketStats, Stats},
    tensor::{MAX_RANK, elements},
};

pub(crate) struct Executor<B: Backend> {
    pub(crate) id: u64,
    /// `node.name`, for messages.
    pub(crate) owner: String,
    pub(crate) schema: &'static Schema,
    pub(crate) device: B,
    pub(crate) stream: B::Stream,
    /// The schema's, then the planned ones of its resources.
    pub(crate) inputs: Box<[IoPlan]>,
    pub(crate) outputs: Box<[IoPlan]>,
    pub(crate) kwargs: Kwargs,
    /// Those that were captured, in capture order.
    pub(crate) buckets: Vec<Bucket<B>>,
    pub(crate) slots: Box<[Slot<B>]>,
    pub(crate) stats: Arc<Stats>,
    /// Not `Sync` on any backend, whatever its graphs are.
    pub(crate) not_sync: PhantomData<Cell<()>>,
}

/// How one input or output lies in memory.
pub(crate) struct IoPlan {
    pub(crate) name: &'static str,
    pub(crate) elem: Elem,
    /// As declared, for messages.
    pub(crate) declared: &'static str,
    /// All axes; the entry of the varying one is of no meaning.
    pub(crate) dims: [usize; MAX_RANK],
    pub(crate) rank: usize,
    /// The varying axis.
    pub(crate) axis: usize,
    /// Product of the axes before the varying one: runs of rows.
    pub(crate) outer: usize,
    /// Bytes of one index of the varying axis within a run.
    pub(crate) row_bytes: usize,
    pub(crate) pad: Pad,
    pub(crate) side: Side,
}

impl IoPlan {
    pub(crate) fn bytes(&self, rows: usize) -> usize {
        elements(&[self.outer, rows, self.row_bytes])
    }

    pub(crate) fn dims_at(&self, rows: usize) -> [usize; MAX_RANK] {
        let mut dims = self.dims;
        dims[self.axis] = rows;
        dims
    }

    /// Whether `dims` is this input with `rows` rows. A loop: comparing slices that may be empty costs a call.
    #[inline]
    pub(crate) fn fits(&self, rows: usize, dims: &[usize; MAX_RANK]) -> bool {
        (0..self.rank).all(|axis| dims[axis] == if axis == self.axis { rows } else { self.dims[axis] })
    }
}

/// One captured bucket.
pub(crate) struct Bucket<B: Backend> {
    pub(crate) layout: Layout,
    /// One per slot.
    pub(crate) graphs: Box<[B::Graph]>,
    pub(crate) stats: Arc<BucketStats>,
}

/// Sizes of one bucket.
#[derive(Clone)]
pub(crate) struct Layout {
    pub(crate) dims: Dims,
    /// Its configuration is batched: its rows are requests. Otherwise they are tokens.
    pub(crate) batched: bool,
    /// The varying axis of each input and output.
    pub(crate) in_rows: Box<[usize]>,
    pub(crate) out_rows: Box<[usize]>,
    /// Where each host-side input starts in the block.
    pub(crate) host_at: Box<[usize]>,
    pub(crate) block_bytes: usize,
}

/// One copy of the static buffers.
pub(crate) struct Slot<B: Backend> {
    pub(crate) places: Arc<SlotPlaces<B>>,
    /// Packed host-side inputs; the header is first: the real rows of each input, then the sequence word.
    pub(crate) pinned: B::Pinned,
    pub(crate) block: B::Buffer,
    /// Where in `pinned` the tail of a graph puts the sequence word.
    pub(crate) done_at: usize,
    pub(crate) sequence: u32,
}

impl<B: Backend> Slot<B> {
    /// Whether the last launch on this slot is done: no driver call.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        let word = B::pinned_bytes(&self.pinned).cast::<u8>();
        // SAFETY: `done_at + 4` bytes were allocated, the backend aligns them to 16 and `done_at` is a multiple of 4;
        // the memory lives as long as `self.pinned`; every access to this word, the device's included, is atomic.
        let word = unsafe { AtomicU32::from_ptr(word.as_ptr().add(self.done_at).cast()) };
        word.load(Ordering::Acquire) == self.sequence
    }
}

impl<B: Backend> Executor<B> {
    /// Fails when the slot, or memory that this slot's outputs share, is still in somebody's hands.
    #[inline]
    pub(crate) fn lease(&self, bucket: BucketIx, slot: usize) -> Result<SlotLease<B>> {
        let slot = slot % self.slots.len();
        SlotLease::take(self.id, bucket, slot, &self.slots[slot].places).map_err(|busy| self.busy(slot, busy))
    }

    #[cold]
    fn busy(&self, slot: usize, busy: Busy) -> Error {
        let owner = self.owner.clone();
        match busy {
            Busy::Slot => ErrorKind::SlotLeased { owner, slot },
            Busy::Output(i) => ErrorKind::OutputHeld { owner, output: self.outputs[i].name, slot },
        }
        .into()
    }

    /// One driver call. The slot itself is free again; its outputs are the caller's to hold.
    #[inline]
    pub(crate) fn launch(&mut self, lease: SlotLease<B, Staged>, real: Dims) -> Result<Launched<B>> {
        let token = lease.token;
        let (bucket, slot) = (&mut self.buckets[token.local.index()], &mut self.slots[token.slot]);
        let (what, rows, all) = match bucket.layout.batched {
            true => ("requests", real.bs, bucket.layout.dims.bs),
            false => ("tokens", real.tokens, bucket.layout.dims.tokens),
        };
        if rows > all {
            let owner = self.owner.clone();
            return Err(ErrorKind::BeyondBucket { owner, what, got: rows, most: all }.into());
        }
        B::launch(&bucket.graphs[token.slot], &self.stream)?;
        slot.sequence = slot.sequence.wrapping_add(1);
        bucket.stats.count(rows, all);
        Ok(token.launched())
    }

    /// Output `i` of a launched step, `rows` real rows of it; `None` if there is none, or it was taken before.
    #[inline]
    pub(crate) fn output(&self, launched: &mut Launched<B>, i: usize, rows: usize) -> Option<RawOut<'_, B>> {
        let plan = self.outputs.get(i)?;
        let place = &self.slots[launched.slot()].places.outputs[i];
        let rows = rows.min(self.buckets[launched.local().index()].layout.out_rows[i]);
        launched.take_output(i).then(|| RawOut {
            keep: Keep::Lease(LeaseHold(place)),
            elem: plan.elem,
            dims: plan.dims_at(rows),
            rank: plan.rank,
        })
    }

    /// An output that is asked for twice, or that is not there: a mistake of hand-written results.
    #[cold]
    pub(crate) fn no_output(&self, i: usize) -> Error {
        let known = format!("0..{}, each once", self.outputs.len());
        ErrorKind::UnknownName { owner: self.owner.clone(), what: "output", got: i.to_string(), known }.into()
    }

    /// The bytes of a static input as its bucket's graph reads it, padding included: what is in the slot now.
    pub(crate) fn static_input(&self, bucket: BucketIx, slot: usize, i: usize) -> Result<Vec<u8>> {
        let slot = &self.slots[slot % self.slots.len()];
        let layout = &self.buckets[bucket.index()].layout;
        let (buffer, at) = match &slot.places.inputs[i] {
            Some(place) => (&place.buffer, place.offset),
            None => (&slot.block, layout.host_at[i]),
        };
        let mut bytes = vec![0; self.inputs[i].bytes(layout.in_rows[i])];
        B::download(&self.stream, buffer, at, &mut bytes)?;
        Ok(bytes)
    }
}
