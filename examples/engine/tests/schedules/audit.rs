//! Who owns which page, and whether anybody writes to one that is not theirs.

use graph_core::{NodeRunner, RequestId, Resource, Resources};
use graph_host::{Host, Stream};
use graph_resources::{KvPages, PageOwner, PagedKv};

/// The pages as they were after the call before.
pub(crate) struct Audit {
    pages: KvPages<Host>,
    stream: Stream,
    sums: Vec<u64>,
}

impl Audit {
    pub(crate) fn begin(node: &mut NodeRunner<Host>, stream: &Stream) -> Self {
        let mut shared = Resources::default();
        kv(node).share(&mut shared);
        let pages: KvPages<Host> = shared.get::<KvPages<Host>>().expect("allocated").clone();
        let mut audit = Audit { pages, stream: stream.clone(), sums: Vec::new() };
        audit.sums = audit.checksums();
        audit
    }

    /// Pages are in one place each, and a page that belongs to no request of the call has the bits that it had: padding
    /// wrote to its own page only.
    pub(crate) fn after_call(&mut self, node: &mut NodeRunner<Host>, requests: &[RequestId]) {
        let kv = kv(node);
        kv.assert_consistent();
        let sums = self.checksums();
        for page in (0..sums.len()).filter(|page| sums[*page] != self.sums[*page]) {
            match kv.owner(page).expect("a page") {
                PageOwner::Padding => {}
                PageOwner::Stream(request, _) if requests.contains(&request) => {}
                owner => panic!("page {page} of {owner:?} changed in a call of {requests:?}"),
            }
        }
        self.sums = sums;
    }

    /// No request is left, so all pages are free and in one place each.
    pub(crate) fn nothing_left(node: &mut NodeRunner<Host>) {
        let kv = kv(node);
        kv.assert_consistent();
        assert_eq!(kv.counts().free, kv.counts().total, "a page leaked");
    }

    /// One number per page, over keys and values of all layers.
    fn checksums(&self) -> Vec<u64> {
        let mut sums = Vec::new();
        for layer in 0..self.pages.layers() {
            for tensor in [self.pages.keys(layer), self.pages.values(layer)].map(|t| t.expect("a layer")) {
                let [rows, width] = tensor.dims();
                let per_page = self.pages.page_size() * width;
                sums.resize(rows / self.pages.page_size(), 0);
                let data = tensor.to_vec(&self.stream).expect("read back");
                for (sum, page) in sums.iter_mut().zip(data.chunks(per_page)) {
                    *sum = page.iter().fold(*sum, |sum, x| {
                        (sum ^ u64::from(x.to_bits())).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
                    });
                }
            }
        }
        sums
    }
}

fn kv(node: &mut NodeRunner<Host>) -> &PagedKv<Host> {
    node.steps().get().expect("a cache")
}
