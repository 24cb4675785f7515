//! Slots, leases of slots, and holds on outputs.

use std::{
    fmt,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{Backend, arena::Place, bucket::BucketIx, tensor::MAX_RANK};

/// State of a lease: the slot is taken, nothing is written.
///
/// See [`SlotLease`] for an example.
#[derive(Debug)]
pub struct Leased(());
/// State of a lease: inputs and padding are in place.
///
/// See [`SlotLease`] for an example.
#[derive(Debug)]
pub struct Staged(());

/// The places of one slot of one executor, and whether somebody leases it.
pub(crate) struct SlotPlaces<B: Backend> {
    leased: AtomicBool,
    /// `None` for host-side inputs, which live in the block.
    pub(crate) inputs: Box<[Option<Place<B>>]>,
    pub(crate) outputs: Box<[Place<B>]>,
}

/// What a lease could not take.
pub(crate) enum Busy {
    Slot,
    Output(usize),
}

impl<B: Backend> SlotPlaces<B> {
    pub(crate) fn new(inputs: Box<[Option<Place<B>>]>, outputs: Box<[Place<B>]>) -> Self {
        SlotPlaces { leased: AtomicBool::new(false), inputs, outputs }
    }

    /// Takes the slot and every output place, or nothing.
    fn take(&self) -> Result<(), Busy> {
        if self.leased.swap(true, Ordering::Acquire) {
            return Err(Busy::Slot);
        }
        for (i, output) in self.outputs.iter().enumerate() {
            if !output.take() {
                self.outputs[..i].iter().for_each(Place::release);
                self.leased.store(false, Ordering::Release);
                return Err(Busy::Output(i));
            }
        }
        Ok(())
    }
}

/// The right to use one slot for one step, with the bucket that was chosen for it.
///
/// It moves through its states, so a launch before staging does not compile. Dropped early, it gives everything back.
///
/// ```
#[doc = include_str!("doc/node.md")]
#[doc = include_str!("doc/square.md")]
/// let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// let stream = engine.stream().clone();
/// let (whole, steps) = engine.node("toy")?.whole_and_steps();
/// let walk = whole.walk("decode", None).expect("it is captured");
/// let bucket = whole.select_bucket(walk, 3, 3).expect("a bucket of four");
/// let lease = whole.lease_slot(bucket, 0)?;
/// assert!(whole.lease_slot(bucket, 0).is_err(), "the slot is leased");
///
/// let (shape, padded) = (Shape::batched(3, 1), Dims { bs: 4, tokens: 4 });
/// let rows = whole.step_rows(&lease, &[RequestId(1), RequestId(2), RequestId(3)])?;
/// let cx = StepContext { slot: lease.slot(), rows: &rows, real_bs: 3, padded, captured: true };
/// let step = steps.declare(|_| Ok(()))?.admit()?.plan(&cx)?;
/// let staged = whole.stage(lease, &shape, &[("x", Source::slice(&[1.0_f32, 2.0, 3.0]))], &step)?;
/// let y = whole.replay(staged, &shape)?.take::<f32, 1>("y")?;
/// step.commit(&rows[3..]);
/// assert_eq!(y.to_vec(&stream)?, [1.0, 4.0, 9.0]);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[must_use = "a dropped lease gives the slot back"]
pub struct SlotLease<B: Backend, S = Leased> {
    pub(crate) token: Token<B>,
    state: PhantomData<S>,
}

pub(crate) struct Token<B: Backend> {
    pub(crate) executor: u64,
    /// The bucket's position in its executor.
    pub(crate) local: BucketIx,
    /// Its position among all of a node's whole forwards; the same for a region.
    pub(crate) bucket: BucketIx,
    pub(crate) slot: usize,
    places: Arc<SlotPlaces<B>>,
    /// Bit `i`: input place `i` was taken, or is shared, from staging to launch.
    staging: u32,
    /// Bit `i`: the hold on output `i` is this token's.
    outputs: u32,
    leased: bool,
}

impl<B: Backend> SlotLease<B> {
    pub(crate) fn take(
        executor: u64,
        bucket: BucketIx,
        slot: usize,
        places: &Arc<SlotPlaces<B>>,
    ) -> Result<Self, Busy> {
        places.take()?;
        let outputs = ((1_u64 << places.outputs.len()) - 1) as u32;
        let places = places.clone();
        let token =
            Token { executor, local: bucket, bucket, slot, places, staging: 0, outputs, leased: true };
        Ok(SlotLease { token, state: PhantomData })
    }
}

impl<B: Backend, S> fmt::Debug for SlotLease<B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotLease(bucket {}, slot {})", self.bucket().index(), self.slot())
    }
}

impl<B: Backend, S> SlotLease<B, S> {
    /// The slot.
    pub fn slot(&self) -> usize {
        self.token.slot
    }

    /// The bucket that was chosen with it.
    pub fn bucket(&self) -> BucketIx {
        self.token.bucket
    }

    pub(crate) fn into_state<T>(self) -> SlotLease<B, T> {
        SlotLease { token: self.token, state: PhantomData }
    }
}

impl<B: Backend> Token<B> {
    /// Takes an input place for the time of staging and launch, so that no other thread stages into it.
    pub(crate) fn take_input(&mut self, i: usize, place: &Place<B>) -> bool {
        // Not `let taken = ..; self.staging |= u32::from(taken) << i; taken`: once inlined into a caller that branches on
        // the result, rustc 1.95 drops the comparison behind `taken` (MIR pass SimplifyComparisonIntegral) and shifts an
        // undefined value.
        if !place.take() {
            return false;
        }
        self.staging |= 1 << i;
        true
    }

    /// Holds an input that stays where it lies, so that it is there still when the step is launched.
    pub(crate) fn share_input(&mut self, i: usize, place: &Place<B>) {
        place.share();
        self.staging |= 1 << i;
    }

    /// After the launch only the outputs are held.
    pub(crate) fn launched(mut self) -> Launched<B> {
        self.end_staging();
        self.end_lease();
        Launched(self)
    }

    fn end_staging(&mut self) {
        for (i, place) in self.places.inputs.iter().enumerate() {
            if let (true, Some(place)) = (self.staging >> i & 1 == 1, place) {
                place.release();
            }
        }
        self.staging = 0;
    }

    fn end_lease(&mut self) {
        if std::mem::take(&mut self.leased) {
            self.places.leased.store(false, Ordering::Release);
        }
    }
}

impl<B: Backend> Drop for Token<B> {
    fn drop(&mut self) {
        self.end_staging();
        for (i, place) in self.places.outputs.iter().enumerate() {
            if self.outputs >> i & 1 == 1 {
                place.release();
            }
        }
        self.end_lease();
    }
}

/// A launched step, whose outputs can be taken, each once.
pub(crate) struct Launched<B: Backend>(Token<B>);

impl<B: Backend> Launched<B> {
    pub(crate) fn local(&self) -> BucketIx {
        self.0.local
    }

    pub(crate) fn slot(&self) -> usize {
        self.0.slot
    }

    /// Moves the hold on output `i` to the caller.
    pub(crate) fn take_output(&mut self, i: usize) -> bool {
        let mine = self.0.outputs >> i & 1 == 1;
        self.0.outputs &= !(1 << i);
        mine
    }
}

/// What keeps an output's memory as it is.
pub(crate) enum Keep<'r, B: Backend> {
    /// A borrow of the runner, and a count.
    Lease(LeaseHold<'r, B>),
    /// A count only.
    Held(Hold<B>),
    /// Memory of its own.
    Owned(B::Buffer, usize),
}

pub(crate) struct LeaseHold<'r, B: Backend>(pub(crate) &'r Place<B>);
pub(crate) struct Hold<B: Backend>(Place<B>);

impl<B: Backend> Drop for LeaseHold<'_, B> {
    fn drop(&mut self) {
        self.0.release();
    }
}
impl<B: Backend> Drop for Hold<B> {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl<'r, B: Backend> Keep<'r, B> {
    /// Gives up the borrow and keeps the count.
    pub(crate) fn hold(self) -> Keep<'static, B> {
        match self {
            Keep::Lease(lease) => {
                let place = lease.0.clone();
                std::mem::forget(lease); // its count moves on
                Keep::Held(Hold(place))
            }
            Keep::Held(held) => Keep::Held(held),
            Keep::Owned(buffer, offset) => Keep::Owned(buffer, offset),
        }
    }

    pub(crate) fn place(&self) -> Option<&Place<B>> {
        match self {
            Keep::Lease(lease) => Some(lease.0),
            Keep::Held(held) => Some(&held.0),
            Keep::Owned(..) => None,
        }
    }

    pub(crate) fn memory(&self) -> (&B::Buffer, usize) {
        match self {
            Keep::Lease(lease) => (&lease.0.buffer, lease.0.offset),
            Keep::Held(held) => (&held.0.buffer, held.0.offset),
            Keep::Owned(buffer, offset) => (buffer, *offset),
        }
    }
}

/// An output without its types.
///
/// See [`RegionSpec`](crate::RegionSpec) for an example.
pub struct RawOut<'r, B: Backend> {
    pub(crate) keep: Keep<'r, B>,
    pub(crate) elem: crate::Elem,
    pub(crate) dims: [usize; MAX_RANK],
    pub(crate) rank: usize,
}
