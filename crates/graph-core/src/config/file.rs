//! Bucket lists that replace the configured ones before capture: by builder, or from a JSON file.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;

use super::checked_sizes;
use crate::{ErrorKind, Result};

/// Sizes for one name.
///
/// ```
#[doc = include_str!("../doc/scale.md")]
/// let mut lists = BucketLists::default();
/// lists.insert("toy.scale", SizeList { batch_sizes: Some(vec![3, 9]), total_tokens: None })?;
/// let engine = Engine::builder(Host::new()).bucket_lists(lists).build(&registry)?;
/// let captured: Vec<usize> = engine.stats()[0].buckets.iter().map(|b| b.dims.bs).collect();
/// assert_eq!(captured, [9, 3]);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeList {
    /// Replaces `capture_batch_sizes`.
    pub batch_sizes: Option<Vec<usize>>,
    /// Replaces `total_tokens` or `capture_token_lengths`.
    pub total_tokens: Option<Vec<usize>>,
}

/// Sizes by name, where the name is `node.region` for a region and `node.walk` for a whole forward.
///
/// ```
/// use graph_core::BucketLists;
/// let lists = BucketLists::from_json(r#"{"llama.decode": {"batch_sizes": [1, 3, 9]}}"#).unwrap();
/// assert_eq!(lists.get("llama.decode").unwrap().batch_sizes.as_deref(), Some(&[1, 3, 9][..]));
/// assert!(BucketLists::from_json(r#"{"llama.decode": {"batch_sizes": [0]}}"#).is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketLists(BTreeMap<String, SizeList>);

impl BucketLists {
    /// Reads the lists from a file; see [`from_json`](Self::from_json).
    ///
    /// # Errors
    /// [`BucketFile`](ErrorKind::BucketFile) with the path: it cannot be read, is not of that form, or has sizes that
    /// [`insert`](Self::insert) refuses.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let named = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| ErrorKind::BucketFile { path: named.clone(), cause: e.to_string() })?;
        Self::parse(&text, &named)
    }

    /// Reads `{"node.name": {"batch_sizes": [..], "total_tokens": [..]}}`; zeros and empty lists are errors.
    pub fn from_json(text: &str) -> Result<Self> {
        Self::parse(text, "(text)")
    }

    fn parse(text: &str, path: &str) -> Result<Self> {
        let lists: BTreeMap<String, SizeList> = serde_json::from_str(text)
            .map_err(|e| ErrorKind::BucketFile { path: path.into(), cause: e.to_string() })?;
        let mut all = BucketLists::default();
        for (name, list) in lists {
            all.insert(name, list)
                .map_err(|e| ErrorKind::BucketFile { path: path.into(), cause: e.to_string() })?;
        }
        Ok(all)
    }

    /// Adds or replaces the sizes of one name.
    ///
    /// # Errors
    /// [`EmptySizes`](ErrorKind::EmptySizes), [`ZeroSize`](ErrorKind::ZeroSize) or
    /// [`SizeTooLarge`](ErrorKind::SizeTooLarge), with the name and the list.
    pub fn insert(&mut self, name: impl Into<String>, list: SizeList) -> Result<()> {
        let name = name.into();
        for (sizes, what) in [(&list.batch_sizes, "batch_sizes"), (&list.total_tokens, "total_tokens")] {
            if let Some(sizes) = sizes {
                checked_sizes(&name, what, sizes)?;
            }
        }
        self.0.insert(name, list);
        Ok(())
    }

    /// The sizes of a name.
    pub fn get(&self, name: &str) -> Option<&SizeList> {
        self.0.get(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
