//! Buckets, and the constant-time choice of the one that a call runs in.

use std::{borrow::Cow, fmt};

use crate::Dims;

/// More to tell two captures of one shape apart, such as a guidance mode. Compared by type and value.
///
/// ```
/// use graph_core::KeyInfo;
/// assert_ne!(KeyInfo::Bool(true), KeyInfo::Int(1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyInfo {
    /// A flag.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A word.
    Str(Cow<'static, str>),
}

/// The key of a bucket.
///
/// ```
/// use graph_core::{BatchedCudaGraphConfig, KeyInfo, NodeInputs, plan_captures};
///
/// // Two captures of one walk and size: the key info tells them apart.
/// let decode = BatchedCudaGraphConfig::new("decode", NodeInputs::new(1)).capture_batch_sizes([8]);
/// let guided = decode.clone().additional_key_info(KeyInfo::Bool(true));
/// let plan = plan_captures("llama", &[Box::new(decode), Box::new(guided)], &[])?;
/// assert_eq!(plan[0].key.to_string(), "(walk decode, bs 8, tokens 8)");
/// assert_eq!(plan[1].key.to_string(), "(walk decode, bs 8, tokens 8, key true)");
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketKey {
    /// The walk it was captured for.
    pub walk: Cow<'static, str>,
    /// Requests it holds.
    pub bs: usize,
    /// Tokens it holds.
    pub tokens: usize,
    /// Additional key info.
    pub key: Option<KeyInfo>,
}

impl fmt::Display for BucketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "(walk {}, bs {}, tokens {}", self.walk, self.bs, self.tokens)?;
        match &self.key {
            None => f.write_str(")"),
            Some(KeyInfo::Bool(b)) => write!(f, ", key {b})"),
            Some(KeyInfo::Int(i)) => write!(f, ", key {i})"),
            Some(KeyInfo::Str(s)) => write!(f, ", key {s:?})"),
        }
    }
}

/// Why a call ran eagerly, with its numbers.
///
/// ```
/// use graph_core::{BucketTable, Dims, Miss};
///
/// let table = BucketTable::new([(Dims { bs: 4, tokens: 64 }, false)]);
/// let miss = table.choose(Dims { bs: 2, tokens: 65 }).unwrap_err();
/// assert_eq!(miss, Miss::TooManyTokens { tokens: 65, largest: 64 });
/// assert_eq!(miss.to_string(), "65 tokens, the largest bucket holds 64");
/// assert_eq!(miss.name(), "too_many_tokens"); // its counter in `RunnerStats::eager`
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Miss {
    /// Nothing is captured for this walk and key.
    NoBuckets,
    /// More requests than any bucket holds.
    TooManyRequests {
        /// Requests of the call.
        bs: u32,
        /// The most that a bucket holds.
        largest: u32,
    },
    /// More tokens than any bucket holds.
    TooManyTokens {
        /// Tokens of the call.
        tokens: u32,
        /// The most that a bucket holds.
        largest: u32,
    },
    /// Some bucket holds the requests and some the tokens, but none both.
    NoFit {
        /// Requests of the call.
        bs: u32,
        /// Tokens of the call.
        tokens: u32,
    },
    /// Every capture of it failed; the reasons are in the statistics.
    CaptureFailed {
        /// How many buckets.
        buckets: u32,
    },
    /// A batched capture holds requests of one length, and a request of the call has another.
    OtherLengths {
        /// The length in the call.
        got: u32,
        /// The captured length.
        want: u32,
    },
    /// The caller asked for eager execution.
    Forced,
}

impl Miss {
    /// How many reasons there are.
    pub(crate) const KINDS: usize = 7;
    const NAMES: [&'static str; Self::KINDS] = [
        "no_buckets",
        "too_many_requests",
        "too_many_tokens",
        "no_fit",
        "capture_failed",
        "other_lengths",
        "forced",
    ];

    /// Its position among the reasons.
    pub(crate) fn index(self) -> usize {
        match self {
            Miss::NoBuckets => 0,
            Miss::TooManyRequests { .. } => 1,
            Miss::TooManyTokens { .. } => 2,
            Miss::NoFit { .. } => 3,
            Miss::CaptureFailed { .. } => 4,
            Miss::OtherLengths { .. } => 5,
            Miss::Forced => 6,
        }
    }

    pub(crate) fn name_at(index: usize) -> &'static str {
        Self::NAMES[index]
    }

    /// The reason in one word, for counters and JSON.
    pub fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Miss::NoBuckets => f.write_str("nothing is captured for it"),
            Miss::TooManyRequests { bs, largest } => {
                write!(f, "{bs} requests, the largest bucket holds {largest}")
            }
            Miss::TooManyTokens { tokens, largest } => {
                write!(f, "{tokens} tokens, the largest bucket holds {largest}")
            }
            Miss::NoFit { bs, tokens } => {
                write!(f, "no bucket holds both {bs} requests and {tokens} tokens")
            }
            Miss::CaptureFailed { buckets } => {
                write!(f, "all {buckets} captures of it failed; see `failures` in the statistics")
            }
            Miss::OtherLengths { got, want } => {
                write!(f, "a request of {got} tokens, the captures are for {want} each")
            }
            Miss::Forced => f.write_str("eager execution was asked for"),
        }
    }
}

/// The position of a bucket in its executor.
///
/// ```
/// use graph_core::{BucketTable, Dims};
///
/// let captured = [(4, 64), (1, 16)].map(|(bs, tokens)| Dims { bs, tokens });
/// let table = BucketTable::new(captured.map(|dims| (dims, false)));
/// let bucket = table.choose(Dims { bs: 1, tokens: 20 }).unwrap();
/// assert_eq!(captured[bucket.index()].tokens, 64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketIx(pub(crate) u32);

impl BucketIx {
    /// As a plain number, in capture order.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The buckets of one walk and key, with constant-time choice.
///
/// [`choose`](BucketTable::choose) gives the smallest (tokens, bs) that holds both numbers, which is mstar's
/// `select_bucket`; [`choose_batched`](BucketTable::choose_batched) gives the smallest (bs, tokens) among the
/// buckets of batched configurations, which is its `select_batched_bucket`, for when tokens are not known yet.
///
/// ```
/// use graph_core::{BucketTable, Dims, Miss};
/// let grid = [(1, 16), (4, 16), (4, 64)].map(|(bs, tokens)| Dims { bs, tokens });
/// let table = BucketTable::new(grid.iter().map(|d| (*d, false)));
/// assert_eq!(table.choose(Dims { bs: 2, tokens: 9 }).unwrap().index(), 1);
/// assert_eq!(
///     table.choose(Dims { bs: 5, tokens: 9 }),
///     Err(Miss::TooManyRequests { bs: 5, largest: 4 })
/// );
/// ```
pub struct BucketTable {
    by_tokens: Ranks,
    by_bs: Ranks,
    pick: Pick,
    batched: Batched,
}

/// How the two ranks name a bucket.
enum Pick {
    /// In (tokens, bs) order, bs never falls: the later of the two first fits is the answer. Batched
    /// configurations and one-bucket-per-total regions are of this kind.
    Rising(Box<[u32]>),
    /// One cell per pair of distinct sizes.
    Grid(Box<[u32]>),
    /// Size in requests and bucket, in (tokens, bs) order: the first that holds the requests, from the first that holds
    /// the tokens on. For lists whose grid would take too much memory.
    Scan(Box<[(usize, u32)]>),
}

/// Cells of the largest grid: 16 MB.
const MOST_CELLS: usize = 1 << 22;

const NONE: u32 = u32::MAX;

impl BucketTable {
    /// A table over `buckets` in their own order; the flag says whether a bucket's configuration is batched.
    ///
    /// Sizes in no order at all cost one cell per pair of distinct sizes: 4 MB for a thousand of each. Beyond two
    /// thousand of each the choice is a search, and no longer takes the same time whatever the number of buckets.
    pub fn new(buckets: impl IntoIterator<Item = (Dims, bool)>) -> Self {
        Self::of(buckets.into_iter().zip(0..).map(|((d, batched), i)| (BucketIx(i), d, batched)).collect())
    }

    pub(crate) fn of(mut all: Vec<(BucketIx, Dims, bool)>) -> Self {
        all.sort_by_key(|(_, d, _)| (d.tokens, d.bs));
        let batched = Batched::new(&all);
        let rising = all.windows(2).all(|w| w[0].1.bs <= w[1].1.bs);
        if rising {
            return BucketTable {
                by_tokens: Ranks::new(all.iter().map(|b| b.1.tokens).collect()),
                by_bs: Ranks::new(all.iter().map(|b| b.1.bs).collect()),
                pick: Pick::Rising(all.iter().map(|b| b.0.0).collect()),
                batched,
            };
        }
        let distinct = |size: fn(&Dims) -> usize| {
            let mut v: Vec<usize> = all.iter().map(|b| size(&b.1)).collect();
            v.sort_unstable();
            v.dedup();
            v
        };
        let (tokens, bs) = (distinct(|d| d.tokens), distinct(|d| d.bs));
        if tokens.len().saturating_mul(bs.len()) > MOST_CELLS {
            return BucketTable {
                by_tokens: Ranks::new(all.iter().map(|b| b.1.tokens).collect()),
                by_bs: Ranks::new(bs),
                pick: Pick::Scan(all.iter().map(|b| (b.1.bs, b.0.0)).collect()),
                batched,
            };
        }
        // From the largest total down: a cell is its own bucket, or that of the next total with the same bs rank,
        // or that of the same total with the next bs rank; `all` is ordered, so the first fit wins.
        let mut cells = vec![NONE; tokens.len() * bs.len()];
        for (t, total) in tokens.iter().enumerate().rev() {
            let (row, below) = cells[t * bs.len()..].split_at_mut(bs.len());
            row.copy_from_slice(below.get(..bs.len()).unwrap_or(&vec![NONE; bs.len()]));
            let first = all.partition_point(|b| b.1.tokens < *total);
            let end = all.partition_point(|b| b.1.tokens <= *total);
            for (ix, dims, _) in all[first..end].iter().rev() {
                let fits = bs.partition_point(|n| *n <= dims.bs);
                row[..fits].fill(ix.0);
            }
        }
        BucketTable {
            by_tokens: Ranks::new(tokens),
            by_bs: Ranks::new(bs),
            pick: Pick::Grid(cells.into()),
            batched,
        }
    }

    /// The smallest (tokens, bs) that holds both, or why there is none.
    ///
    /// # Errors
    /// A [`Miss`] with its numbers: nothing there, too many requests, too many tokens, or no bucket for both.
    #[inline]
    pub fn choose(&self, d: Dims) -> Result<BucketIx, Miss> {
        let (Some(t), Some(b)) = (self.by_tokens.rank(d.tokens), self.by_bs.rank(d.bs)) else {
            return Err(self.miss(d));
        };
        match &self.pick {
            Pick::Rising(order) => Ok(BucketIx(order[t.max(b)])),
            Pick::Grid(cells) => match cells[t * self.by_bs.len() + b] {
                NONE => Err(self.miss(d)),
                ix => Ok(BucketIx(ix)),
            },
            Pick::Scan(all) => match all[t..].iter().find(|(bs, _)| *bs >= d.bs) {
                Some((_, ix)) => Ok(BucketIx(*ix)),
                None => Err(self.miss(d)),
            },
        }
    }

    /// The smallest (bs, tokens) of a batched configuration that holds `bs` requests.
    ///
    /// # Errors
    /// A [`Miss`]: no batched bucket, or none that is large enough.
    #[inline]
    pub fn choose_batched(&self, bs: usize) -> Result<BucketIx, Miss> {
        match self.batched.by_bs.rank(bs) {
            Some(rank) => Ok(BucketIx(self.batched.order[rank])),
            None => Err(self.batched.by_bs.miss(bs)),
        }
    }

    #[cold]
    fn miss(&self, d: Dims) -> Miss {
        let too_many_tokens =
            |largest| Miss::TooManyTokens { tokens: clamp(d.tokens), largest: clamp(largest) };
        match (self.by_bs.largest(), self.by_tokens.largest()) {
            (Some(bs), _) if d.bs > bs => self.by_bs.miss(d.bs),
            (_, Some(tokens)) if d.tokens > tokens => too_many_tokens(tokens),
            (Some(_), Some(_)) => Miss::NoFit { bs: clamp(d.bs), tokens: clamp(d.tokens) },
            _ => Miss::NoBuckets,
        }
    }
}

struct Batched {
    by_bs: Ranks,
    order: Box<[u32]>,
}

impl Batched {
    fn new(all: &[(BucketIx, Dims, bool)]) -> Self {
        let mut mine: Vec<_> = all.iter().filter(|b| b.2).collect();
        mine.sort_by_key(|b| (b.1.bs, b.1.tokens));
        Batched {
            by_bs: Ranks::new(mine.iter().map(|b| b.1.bs).collect()),
            order: mine.iter().map(|b| b.0.0).collect(),
        }
    }
}

/// For a number, the position of the first size that is at least as large.
struct Ranks {
    sizes: Box<[usize]>,
    /// `direct[n]` is the answer for `n`, where the sizes are small enough to list them all.
    direct: Box<[u32]>,
}

impl Ranks {
    /// Sizes up to this are looked up directly, larger ones by binary search.
    const DIRECT: usize = 1 << 16;

    fn new(sizes: Vec<usize>) -> Self {
        let direct = match sizes.last() {
            Some(top) if *top < Self::DIRECT => {
                (0..=*top).map(|n| sizes.partition_point(|s| *s < n) as u32).collect()
            }
            _ => Box::default(),
        };
        Ranks { sizes: sizes.into(), direct }
    }

    #[inline]
    fn rank(&self, n: usize) -> Option<usize> {
        if let Some(rank) = self.direct.get(n) {
            return Some(*rank as usize);
        }
        if !self.direct.is_empty() {
            return None;
        }
        let rank = self.sizes.partition_point(|s| *s < n);
        (rank < self.sizes.len()).then_some(rank)
    }

    fn len(&self) -> usize {
        self.sizes.len()
    }

    fn largest(&self) -> Option<usize> {
        self.sizes.last().copied()
    }

    /// The miss of `n` requests.
    #[cold]
    fn miss(&self, n: usize) -> Miss {
        match self.largest() {
            None => Miss::NoBuckets,
            Some(largest) => Miss::TooManyRequests { bs: clamp(n), largest: clamp(largest) },
        }
    }
}

pub(crate) fn clamp(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
