//! What happened: replays and rows per bucket, eager calls per reason. Written by one thread, read by any.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

use crate::{Dims, Error, Miss};

/// The counters of one executor.
pub(crate) struct Stats {
    pub(crate) node: &'static str,
    /// The region's name, or the walk of a whole forward.
    pub(crate) name: String,
    /// The walk of a whole forward.
    pub(crate) walk: Option<String>,
    eager: [AtomicU64; Miss::KINDS],
    buckets: OnceLock<Vec<Arc<BucketStats>>>,
    failures: OnceLock<Vec<Arc<Error>>>,
}

/// The counters of one bucket.
pub(crate) struct BucketStats {
    pub(crate) dims: Dims,
    pub(crate) operations: Vec<String>,
    pub(crate) bytes: usize,
    replays: AtomicU64,
    real_rows: AtomicU64,
    padded_rows: AtomicU64,
}

impl Stats {
    pub(crate) fn new(node: &'static str, name: String, walk: Option<String>) -> Self {
        Stats {
            node,
            name,
            walk,
            eager: Default::default(),
            buckets: OnceLock::new(),
            failures: OnceLock::new(),
        }
    }

    pub(crate) fn finish(&self, buckets: Vec<Arc<BucketStats>>, failures: Vec<Arc<Error>>) {
        self.buckets.get_or_init(|| buckets);
        self.failures.get_or_init(|| failures);
    }

    pub(crate) fn count_eager(&self, miss: Miss) {
        bump(&self.eager[miss.index()], 1);
    }

    /// How many buckets could not be captured.
    pub(crate) fn failed(&self) -> usize {
        self.failures.get().map_or(0, Vec::len)
    }

    /// A copy of all counters.
    pub(crate) fn snapshot(&self) -> RunnerStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RunnerStats {
            node: self.node,
            name: self.name.clone(),
            walk: self.walk.clone(),
            buckets: self.buckets.get().map_or(Vec::new(), |all| {
                let copy = |b: &Arc<BucketStats>| BucketCount {
                    dims: b.dims,
                    operations: b.operations.len(),
                    bytes: b.bytes,
                    replays: read(&b.replays),
                    real_rows: read(&b.real_rows),
                    padded_rows: read(&b.padded_rows),
                };
                all.iter().map(copy).collect()
            }),
            eager: (0..Miss::KINDS)
                .map(|i| (Miss::name_at(i), read(&self.eager[i])))
                .filter(|(_, n)| *n > 0)
                .collect(),
            failures: self.failures.get().cloned().unwrap_or_default(),
        }
    }
}

impl BucketStats {
    pub(crate) fn new(dims: Dims, operations: Vec<String>, bytes: usize) -> Self {
        let zero = AtomicU64::default;
        BucketStats { dims, operations, bytes, replays: zero(), real_rows: zero(), padded_rows: zero() }
    }

    #[inline]
    pub(crate) fn count(&self, real: usize, all: usize) {
        bump(&self.replays, 1);
        bump(&self.real_rows, real as u64);
        bump(&self.padded_rows, (all - real) as u64);
    }
}

/// Only the executor's owner writes, so a load and a store do: no locked instruction on the hot path.
#[inline]
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

/// The counters of one runner, or of all instances of a region together.
///
/// ```
#[doc = include_str!("doc/scale.md")]
#[doc = include_str!("doc/scaler.md")]
/// drop(scale.run(ScaleArgs { x: &[1.0; 3] }, &[1; 3])?);
/// drop(scale.run(ScaleArgs { x: &[1.0; 5] }, &[1; 5])?); // no bucket holds five
/// let stats = scale.stats();
/// assert_eq!(stats.buckets.iter().map(|b| b.replays).sum::<u64>(), 1);
/// assert_eq!(stats.eager, [("too_many_requests", 1)]);
/// assert!(stats.failures.is_empty());
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RunnerStats {
    /// The node.
    pub node: &'static str,
    /// The region's name, or the walk of a whole forward: with the node, the name in a bucket file.
    pub name: String,
    /// The walk of a whole forward; `None` for a region.
    pub walk: Option<String>,
    /// Captured buckets, largest first.
    pub buckets: Vec<BucketCount>,
    /// Eager calls by reason, those that happened.
    pub eager: Vec<(&'static str, u64)>,
    /// Buckets that could not be captured, with reasons.
    pub failures: Vec<Arc<Error>>,
}

/// The counters of one bucket. Rows are requests where the configuration is batched, tokens where it is packed.
///
/// ```
#[doc = include_str!("doc/scale.md")]
#[doc = include_str!("doc/scaler.md")]
/// drop(scale.run(ScaleArgs { x: &[1.0; 3] }, &[1; 3])?);
/// drop(scale.run(ScaleArgs { x: &[1.0; 4] }, &[1; 4])?);
/// let four: BucketCount = scale.stats().buckets[0]; // the largest comes first
/// assert_eq!((four.dims.bs, four.replays), (4, 2));
/// assert_eq!((four.real_rows, four.padded_rows), (7, 1)); // an eighth of the work was padding
/// assert_eq!(four.operations, 3); // the block's upload, the kernel, the completion word
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketCount {
    /// Its size.
    pub dims: Dims,
    /// Operations in its graph, head and tail included.
    pub operations: usize,
    /// Bytes of the static buffers that its graph addresses, in one slot.
    pub bytes: usize,
    /// Replays.
    pub replays: u64,
    /// Rows that requests filled.
    pub real_rows: u64,
    /// Rows that padding filled.
    pub padded_rows: u64,
}

impl RunnerStats {
    /// Adds the counters of another instance of the same region.
    pub(crate) fn add(&mut self, other: RunnerStats) {
        for b in other.buckets {
            match self.buckets.iter_mut().find(|mine| mine.dims == b.dims) {
                None => self.buckets.push(b),
                Some(mine) => {
                    mine.replays += b.replays;
                    mine.real_rows += b.real_rows;
                    mine.padded_rows += b.padded_rows;
                    mine.operations += b.operations;
                    mine.bytes += b.bytes;
                }
            }
        }
        for (reason, n) in other.eager {
            match self.eager.iter_mut().find(|mine| mine.0 == reason) {
                None => self.eager.push((reason, n)),
                Some(mine) => mine.1 += n,
            }
        }
        self.failures.extend(other.failures);
    }
}
