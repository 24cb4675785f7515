//! Shapes: how many requests, how many tokens each.

use crate::{ErrorKind, Result};

/// The two sizes that a dimension expression may name besides `self`.
///
/// ```
#[doc = include_str!("doc/scale.md")]
/// // What the declaration `x: f32 [bs]` comes to, for a call and for the bucket that it runs in.
/// let scale = Scale { by: 3.0 };
/// assert_eq!(scale.in_rows(Dims { bs: 3, tokens: 3 }).as_ref(), [3]);
/// assert_eq!(scale.in_rows(Shape::batched(4, 1).dims()).as_ref(), [4]);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dims {
    /// Requests.
    pub bs: usize,
    /// Tokens of all requests together.
    pub tokens: usize,
}

/// Requests with their lengths: what is captured, and what a call really has.
///
/// ```
/// use graph_core::Shape;
/// let s = Shape::packed(10, 3).unwrap();
/// assert_eq!((s.bs, s.seq_lens.as_slice(), s.total_tokens), (3, &[4, 3, 3][..], 10));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Requests.
    pub bs: usize,
    /// Tokens of each request.
    pub seq_lens: Vec<usize>,
    /// Tokens of all requests together.
    pub total_tokens: usize,
}

/// mstar's name for a [`Shape`] that a region is captured at.
pub type PiecewiseCaptureShape = Shape;

impl Shape {
    /// `bs` requests of `seq_len` tokens each.
    pub fn batched(bs: usize, seq_len: usize) -> Self {
        Shape { bs, seq_lens: vec![seq_len; bs], total_tokens: bs.saturating_mul(seq_len) }
    }

    /// `total` tokens shared out over `bs` requests by [`distribute_tokens`].
    ///
    /// # Errors
    /// [`EmptyBatch`](ErrorKind::EmptyBatch) for no request.
    pub fn packed(total: usize, bs: usize) -> Result<Self> {
        Ok(Shape { bs, seq_lens: distribute_tokens(total, bs)?, total_tokens: total })
    }

    /// The two totals.
    pub fn dims(&self) -> Dims {
        Dims { bs: self.bs, tokens: self.total_tokens }
    }
}

/// Tokens of all requests together: at most `usize::MAX`, which fits no bucket, where a sum that wraps would.
#[inline]
pub(crate) fn tokens_of(seq_lens: &[usize]) -> usize {
    seq_lens.iter().fold(0, |n, len| n.saturating_add(*len))
}

/// Shares `total` tokens out over `bs` requests: each gets the floor, the whole remainder goes to the first.
///
/// The rule is mstar's. No request at all is an error; token counts are unsigned (differences 16 and 22).
///
/// ```
/// assert_eq!(graph_core::distribute_tokens(11, 4).unwrap(), [5, 2, 2, 2]);
/// assert!(graph_core::distribute_tokens(11, 0).is_err());
/// ```
pub fn distribute_tokens(total: usize, bs: usize) -> Result<Vec<usize>> {
    if bs == 0 {
        return Err(ErrorKind::EmptyBatch { owner: "distribute_tokens".into() }.into());
    }
    let mut lens = vec![total / bs; bs];
    lens[0] += total % bs;
    Ok(lens)
}
