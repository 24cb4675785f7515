//! What is wrong with a derive, collected so that all of it is reported at once.

use proc_macro2::Span;
use syn::Error;

/// The mistakes of one derive, in the order in which they were found.
#[derive(Default)]
pub(crate) struct Mistakes(Vec<Error>);

impl Mistakes {
    /// One mistake at one place.
    pub(crate) fn at(&mut self, span: Span, message: impl std::fmt::Display) {
        self.0.push(Error::new(span, message));
    }

    /// What `syn` found.
    pub(crate) fn syntax(&mut self, error: Error) {
        self.0.extend(error);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// All of them, or none.
    pub(crate) fn into_errors(self) -> Option<Vec<Error>> {
        (!self.0.is_empty()).then_some(self.0)
    }
}

/// `` `a`, `b`, `c` ``.
pub(crate) fn listed(words: &[&str]) -> String {
    words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}

/// The known word that a misspelling most likely means.
pub(crate) fn closest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let most = (word.chars().count() / 3).max(1);
    known.iter().copied().map(|k| (distance(word, k), k)).filter(|(d, _)| *d <= most).min().map(|(_, k)| k)
}

/// Insertions, deletions and replacements between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_misspellings_are_recognised_and_far_ones_not() {
        let known = ["node", "name", "batch_sizes", "batched"];
        assert_eq!(closest("nod", &known), Some("node"));
        assert_eq!(closest("bach_size", &known), Some("batch_sizes"));
        assert_eq!(closest("batchd", &known), Some("batched"));
        assert_eq!(closest("dtype", &known), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
