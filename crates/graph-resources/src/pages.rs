//! Pages: who owns which, and how many tokens each stream has in them.

use graph_core::{AdmitOutcome, ErrorKind, Label, RequestId, ResourceStep, Result, Segment};

use crate::streams::{Streams, Tokens};

/// The page that padding rows write to and read from. No request ever owns it.
pub const PADDING_PAGE: usize = 0;

/// The row of padding tokens.
pub(crate) const PADDING_ROW: i32 = 0;

/// Who owns a page.
///
/// ```
/// # use graph_core::{Label, Options, RequestId, Steps};
/// # use graph_host::Host;
/// # use graph_resources::{KvOptions, PADDING_PAGE, PageOwner, PagedKv};
/// let kv = PagedKv::<Host>::new(KvOptions::new(8, 4))?;
/// let mut steps = Steps::new("node", vec![Box::new(kv)])?;
/// steps.ingest(RequestId(7), &Options::default())?;
/// let step = steps.declare(|step| {
///     step.resource("kv").segment(RequestId(7), Label::MAIN, 1);
///     Ok(())
/// })?;
/// let mut step = step.admit()?;
/// let kv = step.inside().get::<PagedKv<Host>>().unwrap();
/// assert_eq!(kv.owner(PADDING_PAGE), Some(PageOwner::Padding));
/// assert_eq!(kv.owner(1), Some(PageOwner::Stream(RequestId(7), Label::MAIN)));
/// assert_eq!((kv.owner(2), kv.owner(8)), (Some(PageOwner::Free), None));
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageOwner {
    /// Padding rows: page [`PADDING_PAGE`].
    Padding,
    /// Nobody.
    Free,
    /// A stream of a request.
    Stream(RequestId, Label),
}

/// How many pages there are, in pages.
///
/// ```
/// # use graph_core::{Label, Options, RequestId, Steps};
/// # use graph_host::Host;
/// # use graph_resources::{KvOptions, PageCounts, PagedKv};
/// let kv = PagedKv::<Host>::new(KvOptions::new(8, 4))?; // one of the eight is for padding
/// let mut steps = Steps::new("node", vec![Box::new(kv)])?;
/// steps.ingest(RequestId(7), &Options::default())?;
/// let step = steps.declare(|step| {
///     step.resource("kv").segment(RequestId(7), Label::MAIN, 5);
///     Ok(())
/// })?;
/// let mut step = step.admit()?;
/// let counts = step.inside().get::<PagedKv<Host>>().unwrap().counts();
/// assert_eq!(counts, PageCounts { total: 7, free: 5, peak: 2 });
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCounts {
    /// That streams can own: all but the padding page.
    pub total: usize,
    /// That no stream owns.
    pub free: usize,
    /// The most that streams have owned at a time.
    pub peak: usize,
}

/// One stream's pages.
///
/// ```
/// # use graph_core::{Label, Options, RequestId, Steps};
/// # use graph_host::Host;
/// # use graph_resources::{KvOptions, PagedKv};
/// # let kv = PagedKv::<Host>::new(KvOptions::new(8, 4))?;
/// # let mut steps = Steps::new("node", vec![Box::new(kv)])?;
/// # steps.ingest(RequestId(7), &Options::default())?;
/// // While a step of five tokens is open: what a plan makes its page list from.
/// let step = steps.declare(|step| {
///     step.resource("kv").segment(RequestId(7), Label::MAIN, 5);
///     Ok(())
/// })?;
/// let mut step = step.admit()?;
/// let stream = step.inside().get::<PagedKv<Host>>().unwrap().stream(RequestId(7), Label::MAIN).unwrap();
/// assert_eq!((stream.pages, stream.committed, stream.reserved), (&[1, 2][..], 0, 5));
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StreamPages<'p> {
    /// Its pages, those that the open step reserves included.
    pub pages: &'p [i32],
    /// Tokens of committed steps.
    pub committed: usize,
    /// Tokens that the open step appends.
    pub reserved: usize,
}

#[derive(Debug, Default)]
struct Stream {
    pages: Vec<i32>,
    tokens: Tokens,
}

impl Stream {
    fn pages(&self) -> StreamPages<'_> {
        let Tokens { committed, reserved, .. } = self.tokens;
        StreamPages { pages: &self.pages, committed, reserved }
    }

    /// Gives back all pages but the first `keep`, in the order that undoes their taking.
    fn release(&mut self, keep: usize, free: &mut Vec<i32>) {
        free.extend(self.pages.drain(keep..).rev());
    }
}

/// The page table of a resource.
#[derive(Debug)]
pub(crate) struct PageTable {
    resource: &'static str,
    pages: usize,
    page_size: usize,
    max_tokens: usize,
    max_pages: usize,
    /// The next page to take is last.
    free: Vec<i32>,
    peak: usize,
    streams: Streams<Stream>,
}

impl PageTable {
    /// `pages` pages, the padding page included, of `page_size` tokens; no stream longer than `max_tokens`.
    pub(crate) fn new(resource: &'static str, pages: usize, page_size: usize, max_tokens: usize) -> Self {
        let free = (PADDING_PAGE + 1..pages).rev().map(|page| page as i32).collect();
        let (max_pages, streams) = (max_tokens.div_ceil(page_size), Streams::new());
        PageTable { resource, pages, page_size, max_tokens, max_pages, free, peak: 0, streams }
    }

    pub(crate) fn ingest(&mut self, request: RequestId) -> Result<()> {
        self.streams.ingest(self.resource, request)
    }

    pub(crate) fn remove(&mut self, request: RequestId) {
        let free = &mut self.free;
        self.streams.remove(request, |stream| {
            stream.release(0, free);
            stream.tokens = Tokens::default();
        });
    }

    /// Takes the pages that a step needs, or none.
    pub(crate) fn admit(&mut self, step: &ResourceStep<'_>) -> Result<AdmitOutcome> {
        for (i, segment) in step.segments.iter().enumerate() {
            let refused = match self.reserve(i, segment) {
                Ok(true) => continue,
                Ok(false) => None,
                Err(error) => Some(error),
            };
            self.rollback(&ResourceStep { segments: &step.segments[..i] });
            return refused.map_or_else(|| Ok(self.refusal(step)), Err);
        }
        self.peak = self.peak.max(self.pages - 1 - self.free.len());
        Ok(AdmitOutcome::Admitted)
    }

    /// Why a step that does not fit does not.
    #[cold]
    fn refusal(&self, step: &ResourceStep<'_>) -> AdmitOutcome {
        let (mut needed, mut short) = (0, None);
        for segment in step.segments {
            let (request, label) = (segment.request, segment.label);
            let (has, tokens) =
                self.streams.get(request, label).map_or((0, 0), |s| (s.pages.len(), s.tokens.committed));
            let tokens = segment.span.len().saturating_add(tokens);
            if tokens > self.max_tokens {
                return AdmitOutcome::TooLong { tokens, most: self.max_tokens, request, label };
            }
            needed += missing(has, tokens, self.page_size);
            if needed > self.free.len() && short.is_none() {
                short = Some((request, label));
            }
        }
        match short {
            Some((request, label)) => {
                AdmitOutcome::PagesShort { pages: needed - self.free.len(), request, label }
            }
            None => AdmitOutcome::Admitted,
        }
    }

    /// `false` where the stream would be too long, or there are too few pages; then nothing is reserved.
    fn reserve(&mut self, i: usize, segment: &Segment) -> Result<bool> {
        let Segment { request, label, .. } = *segment;
        let stream = self.streams.begin(self.resource, i, segment)?;
        if stream.tokens.open {
            return Err(ErrorKind::SegmentTwice { resource: self.resource, request, label }.into());
        }
        let tokens = segment.span.len().saturating_add(stream.tokens.committed);
        let missing = missing(stream.pages.len(), tokens, self.page_size);
        if tokens > self.max_tokens || missing > self.free.len() {
            return Ok(false);
        }
        stream.tokens.reserve(segment.span.len());
        if stream.pages.capacity() < self.max_pages {
            // A stream's list never grows later, and is used again by another one.
            stream.pages.reserve_exact(self.max_pages - stream.pages.len());
        }
        for _ in 0..missing {
            stream.pages.extend(self.free.pop());
        }
        Ok(true)
    }

    /// Streams that are gone were removed while the step was open: they gave everything back then.
    pub(crate) fn commit(&mut self, step: &ResourceStep<'_>) {
        for (i, segment) in step.segments.iter().enumerate() {
            if let Some(stream) = self.streams.of_mut(i, segment) {
                stream.tokens.commit();
            }
        }
    }

    pub(crate) fn rollback(&mut self, step: &ResourceStep<'_>) {
        for (i, segment) in step.segments.iter().enumerate().rev() {
            if let Some(stream) = self.streams.of_mut(i, segment) {
                stream.tokens.rollback();
                if stream.pages.len() * self.page_size >= stream.tokens.committed + self.page_size {
                    stream.release(stream.tokens.committed.div_ceil(self.page_size), &mut self.free);
                }
            }
        }
    }

    /// The rows of the device tensors where the tokens that a stream's open step appends are: `tokens` of them.
    pub(crate) fn rows(&self, stream: StreamPages<'_>, tokens: usize, into: &mut Vec<i32>) {
        let size = self.page_size as i32;
        // The tokens of a decode step are mostly in the last page, which is seen without a division.
        let last = stream.pages.len().saturating_sub(1);
        let (first, offset) = match stream.committed.checked_sub(last * self.page_size) {
            Some(offset) if offset < self.page_size => (last, offset),
            _ => (stream.committed / self.page_size, stream.committed % self.page_size),
        };
        let mut offset = offset as i32;
        let mut pages = stream.pages.get(first..).unwrap_or(&[]).iter();
        let mut page = pages.next();
        for _ in 0..tokens {
            if offset == size {
                (page, offset) = (pages.next(), 0);
            }
            into.push(page.map_or(PADDING_ROW, |page| page * size + offset));
            offset += 1;
        }
    }

    pub(crate) fn stream(&self, request: RequestId, label: Label) -> Option<StreamPages<'_>> {
        self.streams.get(request, label).map(Stream::pages)
    }

    /// The stream of segment `i` of the open step.
    pub(crate) fn stream_of(&self, i: usize, segment: &Segment) -> Option<StreamPages<'_>> {
        self.streams.of(i, segment).map(Stream::pages)
    }

    pub(crate) fn counts(&self) -> PageCounts {
        PageCounts { total: self.pages - 1, free: self.free.len(), peak: self.peak }
    }

    pub(crate) fn owner(&self, page: usize) -> Option<PageOwner> {
        let of = |pages: &[i32]| pages.iter().any(|p| *p as usize == page);
        if page == PADDING_PAGE {
            return Some(PageOwner::Padding);
        }
        if let Some((request, label, _)) = self.streams.iter().find(|(_, _, s)| of(&s.pages)) {
            return Some(PageOwner::Stream(request, label));
        }
        of(&self.free).then_some(PageOwner::Free)
    }

    pub(crate) fn assert_consistent(&self) {
        let mut owners = vec![None; self.pages];
        owners[PADDING_PAGE] = Some("padding".to_string());
        let mut take = |page: i32, who: String| match owners.get_mut(page as usize) {
            None => panic!("{}: {who} has page {page} of {}", self.resource, self.pages),
            Some(owner) => {
                if let Some(other) = owner.replace(who.clone()) {
                    panic!("{}: page {page} belongs to {other} and to {who}", self.resource);
                }
            }
        };
        self.free.iter().for_each(|page| take(*page, "the free list".into()));
        for (request, label, stream) in self.streams.iter() {
            let who = format!("request {} ({label})", request.0);
            stream.pages.iter().for_each(|page| take(*page, who.clone()));
            let (has, tokens) = (stream.pages.len(), stream.tokens);
            let wants = tokens.all().div_ceil(self.page_size);
            assert_eq!(has, wants, "{}: pages of {who}, with {tokens:?}", self.resource);
        }
        let leaked = owners.iter().position(Option::is_none);
        assert_eq!(leaked, None, "{}: a page that nobody has", self.resource);
    }
}

/// Pages that a stream needs besides those it has. Mostly none, which is found without a division.
#[inline]
fn missing(pages: usize, tokens: usize, page_size: usize) -> usize {
    match tokens.saturating_sub(pages * page_size) {
        0 => 0,
        beyond => beyond.div_ceil(page_size),
    }
}
