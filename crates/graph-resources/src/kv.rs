//! Paged keys and values: the resource.

use graph_core::{
    AdmitOutcome, Backend, Dependencies, Elem, Element, ErrorKind, IoSchema, Label, Options, Pad, RequestId,
    Resource, ResourceStep, Resources, Result, Segment, Shape, Source, Statics, StepContext,
};

use crate::{
    PageCounts, PageOwner, StreamPages,
    kv_pages::{MakeStorage, Storage, make_storage},
    pages::{PADDING_ROW, PageTable},
    slots::SlotPlans,
};

/// The sizes of a [`PagedKv`].
///
/// ```
/// use graph_resources::KvOptions;
/// // 64 pages of 16 tokens, 4 layers, 2 heads of 32 elements each.
/// let options = KvOptions::new(64, 16).layers(4, 2 * 32).max_tokens(256);
/// assert_eq!(options.max_pages(), 16);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvOptions {
    /// Pages, the padding page included.
    pub pages: usize,
    /// Tokens of a page.
    pub page_size: usize,
    /// Layers: one K and one V tensor each.
    pub layers: usize,
    /// Elements of a token's K (and V) row: heads times their size.
    pub kv_dim: usize,
    /// Tokens that a stream may have.
    pub max_tokens: usize,
}

impl KvOptions {
    /// Pages of `page_size` tokens, for one layer of one element; a stream may have all of them.
    pub const fn new(pages: usize, page_size: usize) -> Self {
        let max_tokens = pages.saturating_sub(1).saturating_mul(page_size);
        KvOptions { pages, page_size, layers: 1, kv_dim: 1, max_tokens }
    }

    /// The same with layers, and elements of a token's K (and V) row.
    pub const fn layers(self, layers: usize, kv_dim: usize) -> Self {
        KvOptions { layers, kv_dim, ..self }
    }

    /// The same with fewer tokens in a stream: what a page list of a captured step must hold.
    pub const fn max_tokens(self, max_tokens: usize) -> Self {
        KvOptions { max_tokens, ..self }
    }

    /// Pages that a stream may have.
    pub const fn max_pages(&self) -> usize {
        match self.page_size {
            0 => 0,
            size => self.max_tokens.div_ceil(size),
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let sizes = [
            ("pages", self.pages),
            ("page_size", self.page_size),
            ("layers", self.layers),
            ("kv_dim", self.kv_dim),
            ("max_tokens", self.max_tokens),
        ];
        if let Some((list, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
            return Err(ErrorKind::ZeroSize { name: KV.into(), list }.into());
        }
        let rows = self.pages.checked_mul(self.page_size).filter(|rows| i32::try_from(*rows).is_ok());
        let why = match rows {
            None => "pages times page_size is more than an i32 holds".to_string(),
            Some(_) if self.pages < 2 => "one page is for padding; there must be a second one".to_string(),
            Some(_) if self.max_tokens > (self.pages - 1) * self.page_size => {
                format!("they hold fewer than the {} tokens that a stream may have", self.max_tokens)
            }
            Some(_) => return Ok(()),
        };
        Err(ErrorKind::BadDeclaration { owner: KV.into(), input: "pages", why }.into())
    }
}

/// The name of the resource.
pub(crate) const KV: &str = "kv";

static INPUTS: [IoSchema; 1] = [IoSchema::host("slot_mapping", Elem::I32, 1, "[tokens]").pad(Pad::i32(0))];

/// A paged KV cache, resource `kv`: requests own pages, and a step's tokens get rows in them.
///
/// Each request has a stream per [`Label`]. Admitting a step takes the pages that its tokens need, in full or not at
/// all ([`AdmitOutcome::PagesShort`] says how many are missing); committing keeps them; rolling back gives back exactly
/// those, in the order that undoes the taking, wherever the stream is in the batch.
///
/// The planned input `slot_mapping` (i32 `[tokens]`) has the row of each new token in [`KvPages`](crate::KvPages). Padding rows have
/// row 0: they write to page [`PADDING_PAGE`](crate::PADDING_PAGE), which no request ever owns. So a step's tail needs
/// no dummy requests and takes no page.
///
/// # A removed request's pages are free at once
/// A graph that reads or writes those pages may still run when [`remove`](Resource::remove) returns. That is safe,
/// because pages are touched by launches only, and all launches of an engine are on one stream: whoever gets the pages
/// next writes them in a later launch, which the stream orders behind the one that runs. And a stream reads no token
/// that it did not write: its page list never reaches beyond its own tokens.
///
/// ```
/// use graph_core::{Label, Options, RequestId, Steps};
/// use graph_host::Host;
/// use graph_resources::{KvOptions, PagedKv};
/// let kv = PagedKv::<Host>::new(KvOptions::new(8, 4))?;
/// let mut steps = Steps::new("node", vec![Box::new(kv)])?;
/// steps.ingest(RequestId(7), &Options::default())?;
/// let step = steps.declare(|step| {
///     step.resource("kv").segment(RequestId(7), Label::MAIN, 5);
///     Ok(())
/// })?;
/// drop(step.admit()?); // not launched: rolled back
/// let kv = steps.get::<PagedKv<Host>>().unwrap();
/// assert_eq!((kv.counts().free, kv.counts().peak), (7, 2));
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct PagedKv<B: Backend> {
    options: KvOptions,
    table: PageTable,
    plans: SlotPlans<1>,
    make: MakeStorage<B>,
    element_bytes: usize,
    storage: Option<Box<dyn Storage<B>>>,
}

impl<B: Backend> PagedKv<B> {
    /// A cache of `f32`; forwards ask for `KvPages<B>`.
    ///
    /// # Errors
    /// As [`with_element`](Self::with_element).
    pub fn new(options: KvOptions) -> Result<Self> {
        Self::with_element::<f32>(options)
    }

    /// A cache of another element; forwards ask for `KvPages<B, T>`.
    ///
    /// # Errors
    /// [`ZeroSize`](ErrorKind::ZeroSize); [`BadDeclaration`](ErrorKind::BadDeclaration) for fewer than two pages, more rows
    /// than an `i32` counts, or a stream that is longer than all pages.
    pub fn with_element<T: Element>(options: KvOptions) -> Result<Self> {
        options.check()?;
        let table = PageTable::new(KV, options.pages, options.page_size, options.max_tokens);
        let (make, element_bytes) = (make_storage::<B, T> as MakeStorage<B>, size_of::<T>());
        Ok(PagedKv { options, table, plans: SlotPlans::new(), make, element_bytes, storage: None })
    }

    /// Its sizes.
    pub fn options(&self) -> &KvOptions {
        &self.options
    }

    /// How many pages there are, and how many are free.
    pub fn counts(&self) -> PageCounts {
        self.table.counts()
    }

    /// Tokens of a stream that are committed; 0 for one that never had any.
    pub fn stream_len(&self, request: RequestId, label: Label) -> usize {
        self.table.stream(request, label).map_or(0, |s| s.committed)
    }

    /// A stream's pages; `None` for one that no step has continued.
    pub fn stream(&self, request: RequestId, label: Label) -> Option<StreamPages<'_>> {
        self.table.stream(request, label)
    }

    /// The stream of segment `i` of the open step, which another resource plans.
    pub(crate) fn stream_of(&self, i: usize, segment: &Segment) -> Option<StreamPages<'_>> {
        self.table.stream_of(i, segment)
    }

    /// Who owns a page; `None` beyond the last one. Slow: for tests.
    pub fn owner(&self, page: usize) -> Option<PageOwner> {
        self.table.owner(page)
    }

    /// Checks that every page is in one place: the padding page, the free list, or one stream, which has as many as
    /// its tokens need. Slow: for tests.
    ///
    /// # Panics
    /// When it is not so, with the page and who has it.
    pub fn assert_consistent(&self) {
        self.table.assert_consistent();
    }
}

impl<B: Backend> Resource<B> for PagedKv<B> {
    fn name(&self) -> &'static str {
        KV
    }
    fn inputs(&self) -> &'static [IoSchema] {
        &INPUTS
    }
    fn make_static_inputs(&self, shape: &Shape, statics: &mut Statics) {
        statics.input("slot_mapping", [shape.total_tokens]);
    }
    fn claim(&mut self, shape: &Shape) -> Result<()> {
        self.plans.claim([shape.total_tokens]);
        Ok(())
    }
    fn allocate(&mut self, device: &B, stream: &B::Stream, slots: usize) -> Result<()> {
        self.plans.allocate(slots);
        self.storage = Some((self.make)(device, stream, &self.options)?);
        Ok(())
    }
    fn share(&self, into: &mut Resources) {
        if let Some(storage) = &self.storage {
            storage.share(into);
        }
    }
    fn ingest(&mut self, request: RequestId, _info: &Options) -> Result<()> {
        self.table.ingest(request)
    }
    fn remove(&mut self, request: RequestId) {
        self.table.remove(request);
    }
    fn admit(&mut self, step: &ResourceStep<'_>) -> Result<AdmitOutcome> {
        self.table.admit(step)
    }
    fn plan(
        &mut self,
        step: &ResourceStep<'_>,
        cx: &StepContext<'_>,
        _dependencies: Dependencies<'_, B>,
    ) -> Result<()> {
        let (table, [rows]) = (&self.table, self.plans.begin(cx.slot));
        for (i, segment) in step.segments.iter().enumerate() {
            let tokens = segment.span.len();
            match table.stream_of(i, segment) {
                Some(stream) => table.rows(stream, tokens, rows),
                // Removed meanwhile: its tokens are nobody's.
                None => rows.extend(std::iter::repeat_n(PADDING_ROW, tokens)),
            }
        }
        Ok(())
    }
    fn planned(&self, slot: usize, _input: usize) -> Source<'_, B> {
        self.plans.planned(slot, 0)
    }
    fn commit(&mut self, step: &ResourceStep<'_>) {
        self.table.commit(step);
    }
    fn rollback(&mut self, step: &ResourceStep<'_>) {
        self.table.rollback(step);
    }
    /// Plans are host memory of their slot, and the page table changes at commits only, which come right after
    /// launches.
    fn supports_preplan(&self) -> bool {
        true
    }
    /// Every page that a request can get is still zero.
    fn validate_capture(&self, stream: &B::Stream) -> Result<()> {
        self.storage.as_ref().map_or(Ok(()), |storage| storage.check_zero(stream, self.options.page_size))
    }
    fn claimed_bytes(&self, _slots: usize) -> usize {
        let KvOptions { pages, page_size, layers, kv_dim, .. } = self.options;
        [page_size, layers, kv_dim, 2 * self.element_bytes]
            .iter()
            .fold(pages, |all, n| all.saturating_mul(*n))
    }
    fn device_bytes(&self) -> usize {
        self.storage.as_ref().map_or(0, |storage| storage.bytes())
    }
}
