//! What a resource keeps per request and label.

use graph_core::{ErrorKind, Label, RequestId, Result};
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
        self.committed + self.reserved
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
    /// Sorted by request.
    requests: Vec<Request<S>>,
    /// Of removed requests, with the memory that they grew.
    spare: Vec<S>,
}

#[derive(Debug)]
struct Request<S> {
    id: RequestId,
    streams: SmallVec<[(Label, S); 2]>,
}

impl<S: Default> Streams<S> {
    pub(crate) fn new() -> Self {
        Streams { requests: Vec::new(), spare: Vec::new() }
    }

    /// A request begins, without streams.
    pub(crate) fn ingest(&mut self, resource: &'static str, request: RequestId) -> Result<()> {
        match self.position(request) {
            Ok(_) => Err(ErrorKind::RequestKnown { node: resource, request }.into()),
            Err(at) => {
                self.requests.insert(at, Request { id: request, streams: SmallVec::new() });
                Ok(())
            }
        }
    }

    /// A request ends: `empty` gets each of its streams, to be used again.
    pub(crate) fn remove(&mut self, request: RequestId, mut empty: impl FnMut(&mut S)) {
        if let Ok(at) = self.position(request) {
            for (_, mut stream) in self.requests.remove(at).streams.into_iter().rev() {
                empty(&mut stream);
                self.spare.push(stream);
            }
        }
    }

    pub(crate) fn get(&self, request: RequestId, label: Label) -> Option<&S> {
        let streams = &self.requests[self.position(request).ok()?].streams;
        streams.iter().find(|(l, _)| same(*l, label)).map(|(_, s)| s)
    }

    pub(crate) fn get_mut(&mut self, request: RequestId, label: Label) -> Option<&mut S> {
        let at = self.position(request).ok()?;
        self.requests[at].streams.iter_mut().find(|(l, _)| same(*l, label)).map(|(_, s)| s)
    }

    /// The stream, begun if it is not there; an error for a request that is not known.
    pub(crate) fn begin(
        &mut self,
        resource: &'static str,
        request: RequestId,
        label: Label,
    ) -> Result<&mut S> {
        let Ok(at) = self.position(request) else {
            return Err(ErrorKind::RequestUnknown { node: resource, request }.into());
        };
        let streams = &mut self.requests[at].streams;
        let found = streams.iter().position(|(l, _)| same(*l, label));
        let i = found.unwrap_or_else(|| {
            streams.push((label, self.spare.pop().unwrap_or_default()));
            streams.len() - 1
        });
        Ok(&mut streams[i].1)
    }

    /// Every stream, by request.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RequestId, Label, &S)> {
        self.requests.iter().flat_map(|r| r.streams.iter().map(|(label, s)| (r.id, *label, s)))
    }

    fn position(&self, request: RequestId) -> Result<usize, usize> {
        self.requests.binary_search_by_key(&request, |r| r.id)
    }
}

/// Labels are mostly one constant: its address says so without a look at the text.
#[inline]
fn same(a: Label, b: Label) -> bool {
    std::ptr::eq(a.0, b.0) || a == b
}
