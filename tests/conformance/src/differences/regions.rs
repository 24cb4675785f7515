//! What follows from a region's setup: the shapes that graph-core captures, and the one that either side chooses.

use std::{cmp::Reverse, collections::BTreeSet};

use serde_json::{Value, json};

use super::{Difference, model::bad_list};
use crate::{
    args::Run,
    setups::{
        piecewise::schema,
        spec::{Kind, PiecewiseSpec},
    },
};

/// Requests and tokens.
pub(crate) type Size = (usize, usize);

impl PiecewiseSpec {
    fn sizes(&self) -> &[usize] {
        match &self.capture_batch_sizes {
            Some(sizes) if !sizes.is_empty() => sizes,
            _ => &self.default_batch_sizes,
        }
    }

    /// 14: a list without sizes, or with a zero.
    pub(super) fn refused(&self) -> Option<Difference> {
        let totals = (self.kind == Kind::Packed).then(|| bad_list("total_tokens", &self.total_tokens));
        totals.flatten().or_else(|| self.refused_sizes())
    }

    /// 14: the same of the batch sizes.
    pub(super) fn refused_sizes(&self) -> Option<Difference> {
        bad_list("batch_sizes", self.capture_batch_sizes.as_ref()?)
    }

    /// The shapes that graph-core captures, in order, or the error that it refuses the setup with.
    pub(crate) fn expected(&self) -> Result<Vec<Size>, Value> {
        self.refused().map_or_else(|| Ok(self.ours()), |refused| Err(refused.ours))
    }

    /// The shapes that graph-core captures, largest first.
    pub(super) fn ours(&self) -> Vec<Size> {
        let totals = |bs: usize| match self.kind {
            Kind::Batched => vec![bs * self.seq_len],
            Kind::Packed => self.total_tokens.clone(),
        };
        let all: BTreeSet<Size> =
            self.sizes().iter().flat_map(|bs| totals(*bs).into_iter().map(|t| (*bs, t))).collect();
        let captured = |(bs, t): &Size| !(0..self.slots()).any(|slot| self.fails(*bs, *t, slot));
        let mut all: Vec<Size> = all.into_iter().filter(captured).collect();
        all.sort_by_key(|size| Reverse(*size));
        all
    }

    /// The shape that graph-core chooses: the fewest tokens, then the fewest requests, of all that hold the call.
    pub(super) fn our_choice(&self, bs: usize, tokens: usize) -> Option<Size> {
        let holds = |(b, t): &Size| *b >= bs && *t >= tokens;
        self.ours().into_iter().filter(holds).min_by_key(|(b, t)| (*t, *b))
    }

    /// The shape that the reference implementation resolves to: at the padded batch size only.
    pub(super) fn their_choice(&self, bs: usize, tokens: usize) -> Option<Size> {
        let padded = self.sizes().iter().copied().filter(|b| *b >= bs).min()?;
        let captured = self.captured.iter().filter(|c| c.first() == Some(&padded));
        let mut captured = captured.filter_map(|c| Some((padded, *c.get(1)?)));
        match self.kind {
            Kind::Batched => captured.find(|(b, t)| *t == b * self.seq_len),
            Kind::Packed => captured.filter(|(_, t)| *t >= tokens).min(),
        }
    }

    /// The tokens that count for a call, where they are known.
    pub(super) fn counted(&self, bs: usize, tokens: Option<usize>) -> Option<usize> {
        match self.kind {
            Kind::Batched => Some(bs * self.seq_len),
            Kind::Packed => tokens,
        }
    }

    /// Why no bucket holds a call.
    pub(super) fn reason(&self, bs: usize, tokens: usize) -> Value {
        let all = self.ours();
        let most = (all.iter().map(|size| size.0).max(), all.iter().map(|size| size.1).max());
        match most {
            (Some(largest), _) if bs > largest => {
                json!({"reason": "too_many_requests", "bs": bs, "largest": largest})
            }
            (_, Some(largest)) if tokens > largest => {
                json!({"reason": "too_many_tokens", "tokens": tokens, "largest": largest})
            }
            (Some(_), _) => json!({"reason": "no_fit", "bs": bs, "tokens": tokens}),
            (None, _) => json!({"reason": "no_buckets"}),
        }
    }

    /// Everything about a call that runs in a bucket which the reference implementation does not use.
    pub(super) fn ran(&self, args: &Run, (bs, tokens): Size, lens: &[usize]) -> Value {
        let (real, all) = match self.kind {
            Kind::Batched => (lens.len(), bs),
            Kind::Packed => (lens.iter().sum(), tokens),
        };
        let mut writes = Vec::new();
        for io in schema(self.kind).inputs {
            writes.push(json!({"op": "copy", "name": io.name, "start": 0, "rows": real}));
            if all > real {
                writes.push(json!({"op": "zero", "name": io.name, "start": real, "rows": all - real}));
            }
        }
        let padding: Vec<Value> = (lens.len()..bs).map(|row| json!({"padding": row, "slot": 0})).collect();
        let declared = match (&args.request_ids, self.declares) {
            (Some(ids), true) => {
                let ids: Vec<Value> = ids.iter().map(|id| json!(id)).chain(padding.iter().cloned()).collect();
                let mut padded = lens.to_vec();
                match self.kind {
                    Kind::Batched => padded = vec![self.seq_len; bs],
                    Kind::Packed => padded.resize(bs, 0),
                }
                json!({"ids": ids, "seq_lens": padded})
            }
            _ => Value::Null,
        };
        json!({
            "bucket": [bs, tokens],
            "writes": writes,
            "declared": declared,
            "reset": padding,
            "output_rows": real,
        })
    }
}
