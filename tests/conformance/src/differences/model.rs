//! What follows from a whole-forward setup: the buckets that graph-core plans and captures, and the one that either
//! side chooses. Scans in place of tables.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::json;

use super::Difference;
use crate::{
    args::Query,
    setups::spec::{ConfigSpec, Kind, WholeSpec},
    vectors::{Bucket, Key},
};

/// A bucket that graph-core plans.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) config: usize,
    /// Its key, with the capture walk.
    pub(super) bucket: Bucket,
    /// The walks that it serves, the capture walk first.
    pub(super) walks: Vec<String>,
}

impl ConfigSpec {
    /// The walks of the reference implementation: the capture walk where the list is missing or empty.
    pub(super) fn replayed(&self) -> Vec<String> {
        match &self.replay_walks {
            Some(walks) if !walks.is_empty() => walks.clone(),
            _ => vec![self.capture_walk.clone()],
        }
    }

    /// The sizes of the reference implementation: the default ones where the list is missing or empty.
    pub(super) fn sizes<'s>(&'s self, spec: &'s WholeSpec) -> &'s [usize] {
        match &self.batch_sizes {
            Some(sizes) if !sizes.is_empty() => sizes,
            _ => &spec.default_batch_sizes,
        }
    }

    fn totals(&self, bs: usize) -> Vec<usize> {
        match self.kind {
            Kind::Batched => vec![bs * self.input_seq_len * self.multiplier.unwrap_or(1)],
            Kind::Packed => self.token_lengths.clone(),
        }
    }

    /// 14: a list without sizes, or with a zero.
    fn refused(&self) -> Option<Difference> {
        let totals = (self.kind == Kind::Packed).then_some(&self.token_lengths);
        let lists = [("capture_batch_sizes", self.batch_sizes.as_ref()), ("total_tokens", totals)];
        lists.iter().find_map(|(name, list)| bad_list(name, list.as_ref()?))
    }

    /// 14: a size twice in one list.
    pub(super) fn repeats(&self) -> bool {
        let distinct = |list: &[usize]| list.iter().collect::<BTreeSet<_>>().len();
        let lists = [self.batch_sizes.as_deref().unwrap_or(&[]), &self.token_lengths];
        lists.iter().any(|list| distinct(list) < list.len())
    }
}

/// 14: what is wrong with a list of sizes.
pub(super) fn bad_list(name: &str, list: &[usize]) -> Option<Difference> {
    let kind = match list {
        [] => "EmptySizes",
        sizes if sizes.contains(&0) => "ZeroSize",
        _ => return None,
    };
    Some(Difference::new(14, json!({"error": kind, "list": name})))
}

/// 14: the first configuration whose sizes are refused.
pub(super) fn refused_sizes(spec: &WholeSpec) -> Option<Difference> {
    spec.configs.iter().find_map(ConfigSpec::refused)
}

/// The buckets to capture, in capture order; or why graph-core refuses the configurations: 14, or 11 where two of them
/// have one key.
pub(super) fn planned(spec: &WholeSpec) -> Result<Vec<Planned>, Difference> {
    let mut plan: Vec<Planned> = Vec::new();
    let mut filed: BTreeMap<(String, usize, usize, Option<Key>), usize> = BTreeMap::new();
    for (i, config) in spec.configs.iter().enumerate() {
        if let Some(refused) = config.refused() {
            return Err(refused);
        }
        let mut walks = vec![config.capture_walk.clone()];
        for walk in config.replayed() {
            if !walks.contains(&walk) {
                walks.push(walk);
            }
        }
        for bs in config.sizes(spec).iter().copied().collect::<BTreeSet<_>>() {
            for tokens in config.totals(bs).into_iter().collect::<BTreeSet<_>>() {
                for walk in &walks {
                    let key = (walk.clone(), bs, tokens, config.key.clone());
                    if let Some(first) = filed.insert(key, i) {
                        let name = |i: usize| format!("#{i} ({})", spec.configs[i].capture_walk);
                        let ours = json!({"error": "SameKey", "first": name(first), "second": name(i)});
                        return Err(Difference::new(11, ours));
                    }
                }
                let (walk, key) = (config.capture_walk.clone(), config.key.clone());
                plan.push(Planned {
                    config: i,
                    bucket: Bucket { walk, bs, tokens, key },
                    walks: walks.clone(),
                });
            }
        }
    }
    plan.sort_by_key(|p| Reverse((p.bucket.bs, p.bucket.tokens)));
    Ok(plan)
}

impl Planned {
    /// Whether its capture fails on a slot, which drops it.
    pub(super) fn fails(&self, spec: &WholeSpec) -> bool {
        let Bucket { bs, tokens, .. } = self.bucket;
        (0..spec.num_slots).any(|slot| spec.fails(self.config, bs, tokens, slot))
    }
}

/// The buckets that graph-core captures.
pub(super) fn captured(spec: &WholeSpec) -> Result<Vec<Planned>, Difference> {
    Ok(planned(spec)?.into_iter().filter(|p| !p.fails(spec)).collect())
}

/// Whether two keys are equal in Python, where `True == 1`.
pub(super) fn equal_in_python(a: &Option<Key>, b: &Option<Key>) -> bool {
    match (a, b) {
        (Some(Key::Bool(flag)), Some(Key::Int(n))) | (Some(Key::Int(n)), Some(Key::Bool(flag))) => {
            i64::from(*flag) == *n
        }
        _ => a == b,
    }
}

/// Of the buckets that hold a query, the smallest (tokens, bs); where the tokens are not known, the smallest
/// (bs, tokens) of a batched configuration. `size` gives requests, tokens, and whether it is batched.
pub(super) fn smallest<T>(
    query: &Query,
    all: impl Iterator<Item = T>,
    size: impl Fn(&T) -> (usize, usize, bool),
) -> Option<T> {
    let fits = |t: &T| {
        let (bs, tokens, batched) = size(t);
        bs >= query.bs && query.num_tokens.map_or(batched, |n| tokens >= n)
    };
    all.filter(fits).min_by_key(|t| {
        let (bs, tokens, _) = size(t);
        if query.num_tokens.is_some() { (tokens, bs) } else { (bs, tokens) }
    })
}
