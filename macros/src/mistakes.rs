//! What is wrong with a derive, collected so that all of it is reported at once.

use proc_macro2::Span;
use quote::ToTokens;
use syn::Error;

/// The mistakes of one derive, in the order in which they were found.
#[derive(Default)]
pub(crate) struct Mistakes(Vec<Error>);

impl Mistakes {
    /// One mistake at one place.
    pub(crate) fn at(&mut self, span: Span, message: impl std::fmt::Display) {
        self.0.push(Error::new(span, message));
    }

    /// One mistake that these tokens are.
    pub(crate) fn on(&mut self, tokens: impl ToTokens, message: impl std::fmt::Display) {
        self.0.push(Error::new_spanned(tokens, message));
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

/// ``allowed are `a`, `b`, `c` ``.
pub(crate) fn allowed(words: &[&str]) -> String {
    let verb = if words.len() == 1 { "is" } else { "are" };
    format!("allowed {verb} {}", words.iter().map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", "))
}

/// ``; did you mean `x`?`` where that is likely.
pub(crate) fn hint(close: Option<&str>) -> String {
    close.map(|k| format!("; did you mean `{k}`?")).unwrap_or_default()
}

/// The known word that a misspelling most likely means.
pub(crate) fn closest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let most = (word.chars().count() / 3).max(1);
    known.iter().copied().map(|k| (distance(word, k), k)).filter(|(d, _)| *d <= most).min().map(|(_, k)| k)
}

/// Insertions, deletions, replacements and swaps of neighbours between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut d = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            d[i][j] = match (i, j) {
                (0, n) | (n, 0) => n,
                _ => {
                    let replaced = d[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                    let edited = replaced.min(d[i - 1][j] + 1).min(d[i][j - 1] + 1);
                    match i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                        true => edited.min(d[i - 2][j - 2] + 1),
                        false => edited,
                    }
                }
            };
        }
    }
    d[a.len()][b.len()]
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
        assert_eq!(closest("nmae", &known), Some("name"));
        assert_eq!(closest("dtype", &known), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
