//! What a resource keeps per request and label.

use std::collections::hash_map::Entry;

use graph_core::{ErrorKind, Label, RequestId, Result, Segment};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Tokens of a stream: those of committed steps, and those that the open step reserves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) committed: usize,
    pub(crate) reserved: usize,
    /// Whether an open step continues the stream.
    pub(crate) open: bool,
}

impl Tokens {
    /// With the open step's.
    pub(crate) fn all(&self) -> usize {
        self.committed.saturating_add(self.reserved)
    }

    /// An open step appends tokens; `false` where it does so already.
    pub(crate) fn reserve(&mut self, tokens: usize) -> bool {
        let fresh = !self.open;
        if fresh {
            (self.reserved, self.open) = (tokens, true);
        }
        fresh
    }

    pub(crate) fn commit(&mut self) {
        *self = Tokens { committed: self.all(), ..Tokens::default() };
    }

    pub(crate) fn rollback(&mut self) {
        *self = Tokens { committed: self.committed, ..Tokens::default() };
    }
}

/// Streams by request and label. Once there were as many streams as there will be, nothing here allocates.
#[derive(Debug)]
pub(crate) struct Streams<S> {
    places: Vec<Place<S>>,
    /// Where the streams of a request are.
    requests: FxHashMap<RequestId, SmallVec<[u32; 2]>>,
    /// Places of removed requests, with the memory that their streams grew.
    spare: Vec<u32>,
    /// Where the last admission has found the stream of each segment. Only a hint: what is there is compared.
    opened: Vec<u32>,
}

#[derive(Debug)]
struct Place<S> {
    /// `None` for a spare one.
    owner: Option<RequestId>,
    label: Label,
    stream: S,
}

impl<S: Default> Streams<S> {
    pub(crate) fn new() -> Self {
        let (places, spare, opened) = (Vec::new(), Vec::new(), Vec::new());
        Streams { places, requests: FxHashMap::default(), spare, opened }
    }

    /// A request begins, without streams.
    pub(crate) fn ingest(&mut self, resource: &'static str, request: RequestId) -> Result<()> {
        match self.requests.entry(request) {
            Entry::Occupied(_) => Err(ErrorKind::RequestKnown { node: resource, request }.into()),
            Entry::Vacant(at) => {
                at.insert(SmallVec::new());
                Ok(())
            }
        }
    }

    /// A request ends: `empty` gets each of its streams, to be used again.
    pub(crate) fn remove(&mut self, request: RequestId, mut empty: impl FnMut(&mut S)) {
        for at in self.requests.remove(&request).into_iter().flatten().rev() {
            let place = &mut self.places[at as usize];
            place.owner = None;
            empty(&mut place.stream);
            self.spare.push(at);
        }
    }

    pub(crate) fn get(&self, request: RequestId, label: Label) -> Option<&S> {
        self.find(request, label).map(|at| &self.places[at].stream)
    }

    /// The stream of segment `i` of the open step.
    pub(crate) fn of(&self, i: usize, segment: &Segment) -> Option<&S> {
        self.find_of(i, segment).map(|at| &self.places[at].stream)
    }

    pub(crate) fn of_mut(&mut self, i: usize, segment: &Segment) -> Option<&mut S> {
        self.find_of(i, segment).map(|at| &mut self.places[at].stream)
    }

    /// The stream of segment `i` of a step that is being admitted, begun if it is not there; an error for a request that
    /// is not known.
    pub(crate) fn begin(&mut self, resource: &'static str, i: usize, segment: &Segment) -> Result<&mut S> {
        let Segment { request, label, .. } = *segment;
        // A batch is mostly the one before.
        if let Some(at) = self.hint(i, segment) {
            return Ok(&mut self.places[at].stream);
        }
        let Some(streams) = self.requests.get_mut(&request) else {
            return Err(ErrorKind::RequestUnknown { node: resource, request }.into());
        };
        let found = streams.iter().copied().find(|at| same(self.places[*at as usize].label, label));
        let at = found.unwrap_or_else(|| {
            let at = self.spare.pop().unwrap_or_else(|| {
                self.places.push(Place { owner: None, label, stream: S::default() });
                self.places.len() as u32 - 1
            });
            streams.push(at);
            at
        });
        let place = &mut self.places[at as usize];
        (place.owner, place.label) = (Some(request), label);
        match self.opened.get_mut(i) {
            Some(opened) => *opened = at,
            None => self.opened.push(at),
        }
        Ok(&mut place.stream)
    }

    /// Every stream, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RequestId, Label, &S)> {
        self.places.iter().filter_map(|place| Some((place.owner?, place.label, &place.stream)))
    }

    fn find(&self, request: RequestId, label: Label) -> Option<usize> {
        let streams = self.requests.get(&request)?.iter().map(|at| *at as usize);
        streams.into_iter().find(|at| same(self.places[*at].label, label))
    }

    #[inline]
    fn find_of(&self, i: usize, segment: &Segment) -> Option<usize> {
        self.hint(i, segment).or_else(|| self.find(segment.request, segment.label))
    }

    /// Where the stream of segment `i` is, if that is where it was at the last admission.
    #[inline]
    fn hint(&self, i: usize, segment: &Segment) -> Option<usize> {
        let at = *self.opened.get(i)? as usize;
        let place = self.places.get(at)?;
        (place.owner == Some(segment.request) && same(place.label, segment.label)).then_some(at)
    }
}

/// Labels are mostly one constant: its address says so without a look at the text.
#[inline]
fn same(a: Label, b: Label) -> bool {
    std::ptr::eq(a.0, b.0) || a == b
}
