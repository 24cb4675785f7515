use serde::Serialize;

use crate::{Histogram, PairHistogram};

/// What a list did to some traffic.
///
/// Serialized, it is the two percentages: `{"padding_percent": 12.5, "eager_percent": 0.0}`.
///
/// ```
/// use graph_plan::{Histogram, Waste};
///
/// let seen = Histogram::from_sizes([3, 4, 9])?;
/// let waste = Waste::of(&[4, 8], &seen);
/// assert_eq!((waste.padded_rows, waste.executed_rows, waste.eager_steps), (1.0, 8.0, 1.0));
/// assert_eq!(waste.padding_percent(), 12.5);
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(into = "Percentages")]
pub struct Waste {
    /// Steps in all.
    pub steps: f64,
    /// Steps that no bucket fits.
    pub eager_steps: f64,
    /// Rows that graphs ran, padding included. Rows are requests in decode, tokens in prefill.
    pub executed_rows: f64,
    /// Rows that graphs ran as padding.
    pub padded_rows: f64,
}

impl Waste {
    /// Counts what a list of sizes, in any order, does to the steps of a histogram: each takes the smallest size that
    /// fits.
    pub fn of(sizes: &[u32], seen: &Histogram) -> Self {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        let bucket = |size: u32| sizes.get(sizes.partition_point(|&bucket| bucket < size)).copied();
        Self::sum(seen.iter().map(|(size, weight)| (size, weight, bucket(size))))
    }

    /// The same for a list that may not pad: a step runs as a graph only if its size is in the list.
    pub fn without_padding(sizes: &[u32], seen: &Histogram) -> Self {
        Self::sum(seen.iter().map(|(size, weight)| (size, weight, sizes.contains(&size).then_some(size))))
    }

    /// Counts what a list of (requests, tokens) buckets does: each step takes the fewest tokens, then the fewest
    /// requests, that fit. The rows counted are tokens.
    pub fn of_pairs(pairs: &[(u32, u32)], seen: &PairHistogram) -> Self {
        let mut pairs = pairs.to_vec();
        pairs.sort_unstable_by_key(|&(requests, tokens)| (tokens, requests));
        Self::sum(seen.iter().map(|((requests, tokens), weight)| {
            let bucket = pairs.iter().find(|pair| pair.0 >= requests && pair.1 >= tokens);
            (tokens, weight, bucket.map(|pair| pair.1))
        }))
    }

    /// Padded rows per row that graphs executed, in percent; 0 if none did.
    pub fn padding_percent(&self) -> f64 {
        percent(self.padded_rows, self.executed_rows)
    }

    /// Steps that no bucket fits per step, in percent; 0 without steps.
    pub fn eager_percent(&self) -> f64 {
        percent(self.eager_steps, self.steps)
    }

    fn sum(steps: impl Iterator<Item = (u32, f64, Option<u32>)>) -> Self {
        let mut waste = Self::default();
        for (size, weight, bucket) in steps {
            waste.steps += weight;
            match bucket {
                Some(bucket) => {
                    waste.executed_rows += weight * f64::from(bucket);
                    waste.padded_rows += weight * f64::from(bucket - size);
                }
                None => waste.eager_steps += weight,
            }
        }
        waste
    }
}

#[derive(Serialize)]
struct Percentages {
    padding_percent: f64,
    eager_percent: f64,
}

impl From<Waste> for Percentages {
    fn from(waste: Waste) -> Self {
        Self { padding_percent: waste.padding_percent(), eager_percent: waste.eager_percent() }
    }
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}
