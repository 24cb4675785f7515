//! The arena: all static buffers of all nodes, sized from every bucket, allocated once before the first capture.
//!
//! Two phases, kept apart by types: everybody claims from [`Claims`], which [`Claims::allocate`] turns into an
//! [`Arena`]; a claim after that does not compile.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::{Backend, Result, Wire};

/// A static buffer and the count of those who hold what is in it.
pub(crate) struct Place<B: Backend> {
    pub(crate) buffer: B::Buffer,
    pub(crate) offset: usize,
    held: Arc<AtomicU32>,
}

impl<B: Backend> Clone for Place<B> {
    fn clone(&self) -> Self {
        Place { buffer: self.buffer.clone(), offset: self.offset, held: self.held.clone() }
    }
}

impl<B: Backend> Place<B> {
    /// Whether both name one buffer.
    pub(crate) fn is(&self, other: &Place<B>) -> bool {
        Arc::ptr_eq(&self.held, &other.held)
    }

    /// Takes the place if nobody holds it.
    pub(crate) fn take(&self) -> bool {
        self.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Holds what somebody holds already, for as long as a staged step is to read it.
    pub(crate) fn share(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives back what [`take`](Self::take) or [`share`](Self::share) took.
    pub(crate) fn release(&self) {
        self.held.fetch_sub(1, Ordering::Release);
    }
}

/// Even and odd indices of a wire are two buffers.
const WIRE_DEPTH: usize = 2;

/// Every buffer starts at a multiple of this, which suits vector loads and copies of any element.
const ALIGN: usize = 256;

/// Where a claim will be found in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlaceId(usize);

struct Claim {
    node: &'static str,
    bytes: usize,
}

/// The claiming phase: how many bytes each static buffer needs.
#[derive(Default)]
pub(crate) struct Claims {
    claims: Vec<Claim>,
    shared: BTreeMap<(&'static str, String, usize), PlaceId>,
}

impl Claims {
    /// A buffer of its own.
    pub(crate) fn own(&mut self, node: &'static str, bytes: usize) -> PlaceId {
        self.claims.push(Claim { node, bytes });
        PlaceId(self.claims.len() - 1)
    }

    /// A buffer that everybody in the node who names the wire shares, at the largest size anybody claims.
    pub(crate) fn wire(&mut self, node: &'static str, wire: Wire, slot: usize, bytes: usize) -> PlaceId {
        self.share(node, format!("{}[{}]", wire.name, wire.index % WIRE_DEPTH), slot, bytes)
    }

    /// An unwired input, shared by all instances of its region: nobody holds inputs, and the stream orders a later
    /// instance's staging after an earlier one's replay.
    pub(crate) fn input(
        &mut self,
        node: &'static str,
        region: &'static str,
        input: &'static str,
        slot: usize,
        bytes: usize,
    ) -> PlaceId {
        self.share(node, format!("{region}.{input}"), slot, bytes)
    }

    fn share(&mut self, node: &'static str, name: String, slot: usize, bytes: usize) -> PlaceId {
        if let Some(id) = self.shared.get(&(node, name.clone(), slot)) {
            let claim = &mut self.claims[id.0];
            claim.bytes = claim.bytes.max(bytes);
            return *id;
        }
        let id = self.own(node, bytes);
        self.shared.insert((node, name, slot), id);
        id
    }

    /// Bytes of each node.
    pub(crate) fn bytes(&self) -> BTreeMap<&'static str, usize> {
        self.layout().1
    }

    /// Where each claim is in its node's buffer, and how long the buffers are.
    fn layout(&self) -> (Vec<usize>, BTreeMap<&'static str, usize>) {
        let mut ends: BTreeMap<&'static str, usize> = BTreeMap::new();
        let place = |claim: &Claim| {
            let end = ends.entry(claim.node).or_default();
            let offset = *end;
            *end = end.saturating_add(claim.bytes.next_multiple_of(ALIGN));
            offset
        };
        (self.claims.iter().map(place).collect(), ends)
    }

    /// Allocates one buffer per node and hands out the places.
    pub(crate) fn allocate<B: Backend>(self, device: &B) -> Result<Arena<B>> {
        let (offsets, ends) = self.layout();
        let buffers: BTreeMap<&'static str, B::Buffer> = ends
            .iter()
            .map(|(node, bytes)| Ok((*node, device.alloc((*bytes).max(ALIGN))?)))
            .collect::<Result<_>>()?;
        let places = self
            .claims
            .iter()
            .zip(offsets)
            .map(|(claim, offset)| Place {
                buffer: buffers[claim.node].clone(),
                offset,
                held: Arc::default(),
            })
            .collect();
        Ok(Arena { places })
    }
}

/// The allocated static buffers.
pub(crate) struct Arena<B: Backend> {
    places: Vec<Place<B>>,
}

impl<B: Backend> Arena<B> {
    pub(crate) fn place(&self, id: PlaceId) -> Place<B> {
        self.places[id.0].clone()
    }
}
