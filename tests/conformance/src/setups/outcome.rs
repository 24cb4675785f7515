//! What the reference implementation registered, as bucket tables: selection without any capture.

use std::collections::{BTreeMap, BTreeSet};

use graph_core::{BucketKey, BucketTable, Dims};

use super::spec::{Registered, WholeSpec};
use crate::{
    args::Query,
    vectors::{Bucket, Key},
};

/// The registered buckets of a setup.
pub(crate) struct Outcome {
    groups: BTreeMap<(String, Option<Key>), Group>,
    capture_keys: BTreeSet<BucketKey>,
    configs: Vec<(Bucket, usize)>,
}

/// The buckets of one walk and key.
struct Group {
    buckets: Vec<Bucket>,
    table: BucketTable,
}

impl Outcome {
    /// One table per walk and key.
    pub(crate) fn new(spec: &WholeSpec) -> Outcome {
        let mut grouped: BTreeMap<(String, Option<Key>), Vec<&Registered>> = BTreeMap::new();
        for registered in &spec.buckets {
            let Bucket { walk, key, .. } = &registered.bucket;
            grouped.entry((walk.clone(), key.clone())).or_default().push(registered);
        }
        let group = |all: Vec<&Registered>| {
            let dims =
                |r: &&Registered| (Dims { bs: r.bucket.bs, tokens: r.bucket.tokens }, spec.is_batched(r));
            Group {
                table: BucketTable::new(all.iter().map(dims)),
                buckets: all.iter().map(|r| r.bucket.clone()).collect(),
            }
        };
        let captured_as = |r: &Registered| {
            let walk = spec.configs.get(r.config).map(|c| &c.capture_walk);
            (walk == Some(&r.bucket.walk)).then(|| r.bucket.key())
        };
        Outcome {
            groups: grouped.into_iter().map(|(of, all)| (of, group(all))).collect(),
            capture_keys: spec.buckets.iter().filter_map(captured_as).collect(),
            configs: spec.buckets.iter().map(|r| (r.bucket.clone(), r.config)).collect(),
        }
    }

    /// The bucket that graph-core's table chooses.
    pub(crate) fn choose(&self, query: &Query) -> Option<Bucket> {
        let group = self.groups.get(&(query.walk.clone(), query.key.clone()))?;
        let found = match query.num_tokens {
            Some(tokens) => group.table.choose(Dims { bs: query.bs, tokens }),
            None => group.table.choose_batched(query.bs),
        };
        group.buckets.get(found.ok()?.index()).cloned()
    }

    /// The keys that are filed under their capture walk.
    pub(crate) fn capture_keys(&self) -> &BTreeSet<BucketKey> {
        &self.capture_keys
    }

    /// The configuration that a bucket is filed under.
    pub(crate) fn config_of(&self, bucket: &Bucket) -> Option<usize> {
        self.configs.iter().find(|(b, _)| b == bucket).map(|(_, config)| *config)
    }
}
