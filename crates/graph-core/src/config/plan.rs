//! From configurations to buckets: which, in which order, filed under which walks.

use std::{borrow::Cow, cmp::Reverse, collections::BTreeMap};

use super::CudaGraphConfig;
use crate::{BucketKey, ErrorKind, Result};

/// One bucket to capture.
///
/// ```
/// use graph_core::{BatchedCudaGraphConfig, NodeInputs, plan_captures};
///
/// let decode = BatchedCudaGraphConfig::new("decode", NodeInputs::new(1)).capture_batch_sizes([8, 1]);
/// let plan = plan_captures("llama", &[Box::new(decode.replay_graph_walks(["verify"]))], &[])?;
/// assert_eq!((plan[0].key.bs, plan[1].key.bs), (8, 1)); // the order of the captures
/// assert_eq!(plan[0].walks, ["decode", "verify"]); // one graph serves both walks
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedBucket {
    /// The position of its configuration.
    pub config: usize,
    /// Its key; the walk is the capture walk.
    pub key: BucketKey,
    /// Every walk that may replay it, the capture walk first.
    pub walks: Vec<Cow<'static, str>>,
}

/// The buckets of a node's whole forwards in capture order: by (bs, tokens), largest first; equal sizes in the
/// order of their configurations.
///
/// Two configurations that produce one key are an error that names both (difference 11).
///
/// ```
/// use graph_core::{BatchedCudaGraphConfig, CudaGraphConfig, NodeInputs, plan_captures};
/// let decode: Box<dyn CudaGraphConfig> =
///     Box::new(BatchedCudaGraphConfig::new("decode", NodeInputs::new(1)).capture_batch_sizes([1, 4]));
/// let plan = plan_captures("llama", &[decode], &[1]).unwrap();
/// assert_eq!(plan.iter().map(|p| p.key.bs).collect::<Vec<_>>(), [4, 1]);
/// ```
pub fn plan_captures(
    node: &str,
    configs: &[Box<dyn CudaGraphConfig>],
    default_batch_sizes: &[usize],
) -> Result<Vec<PlannedBucket>> {
    let mut plan = Vec::new();
    let mut seen: BTreeMap<BucketKey, usize> = BTreeMap::new();
    for (i, config) in configs.iter().enumerate() {
        let capture_walk = config.capture_graph_walk();
        let mut walks = vec![capture_walk.clone()];
        for walk in config.replay_graph_walks() {
            if !walks.contains(walk) {
                walks.push(walk.clone());
            }
        }
        for d in config.shapes(default_batch_sizes)? {
            let key = config.additional_key_info().cloned();
            let key = BucketKey { walk: capture_walk.clone(), bs: d.bs, tokens: d.tokens, key };
            for walk in &walks {
                let filed = BucketKey { walk: walk.clone(), ..key.clone() };
                if let Some(first) = seen.insert(filed.clone(), i) {
                    let name = |i: usize| format!("#{i} ({})", configs[i].capture_graph_walk());
                    return Err(ErrorKind::SameKey {
                        node: node.into(),
                        first: name(first),
                        second: name(i),
                        key: filed.to_string(),
                    }
                    .into());
                }
            }
            plan.push(PlannedBucket { config: i, key, walks: walks.clone() });
        }
    }
    plan.sort_by_key(|p| Reverse((p.key.bs, p.key.tokens)));
    Ok(plan)
}
