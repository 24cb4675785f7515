use std::collections::BTreeMap;

use crate::{Histogram, PlanError, histogram::check_number, histogram::check_size};

/// How many steps had each pair of requests and tokens.
///
/// ```
/// use graph_plan::PairHistogram;
///
/// let mut seen = PairHistogram::new();
/// seen.add(1, 512, 2.0)?;
/// seen.add(3, 700, 1.0)?;
/// assert_eq!(seen.tokens().weight(512), 2.0);
/// assert_eq!(seen.requests().max(), Some(3));
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PairHistogram {
    weights: BTreeMap<(u32, u32), f64>,
}

impl PairHistogram {
    /// A histogram without steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `weight` steps of `requests` requests with `tokens` tokens in all.
    ///
    /// # Errors
    /// A size that is zero or above [`MAX_SIZE`](crate::MAX_SIZE); a weight that is negative or not finite.
    pub fn add(&mut self, requests: u32, tokens: u32, weight: f64) -> Result<(), PlanError> {
        check_size(requests)?;
        check_size(tokens)?;
        check_number("a weight", weight)?;
        if weight > 0.0 {
            *self.weights.entry((requests, tokens)).or_insert(0.0) += weight;
        }
        Ok(())
    }

    /// The same steps at another load: their tokens times `load`, rounded up, at most `most_tokens` and at least one for
    /// each request.
    ///
    /// # Errors
    /// A load that is negative or not finite, a largest size that is zero or above [`MAX_SIZE`](crate::MAX_SIZE).
    pub fn at_load(&self, load: f64, most_tokens: u32) -> Result<Self, PlanError> {
        check_number("a load", load)?;
        check_size(most_tokens)?;
        let mut scaled = Self::new();
        for ((requests, tokens), weight) in self.iter() {
            let tokens = ((f64::from(tokens) * load).ceil() as u32).min(most_tokens).max(requests);
            scaled.add(requests, tokens, weight)?;
        }
        Ok(scaled)
    }

    /// Steps by their requests alone.
    pub fn requests(&self) -> Histogram {
        Histogram::collect(self.iter().map(|((requests, _), weight)| (requests, weight)))
    }

    /// Steps by their tokens alone.
    pub fn tokens(&self) -> Histogram {
        Histogram::collect(self.iter().map(|((_, tokens), weight)| (tokens, weight)))
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// Steps in all.
    pub fn steps(&self) -> f64 {
        self.weights.values().sum()
    }

    /// `((requests, tokens), steps)`, by rising requests, then tokens.
    pub fn iter(&self) -> impl Iterator<Item = ((u32, u32), f64)> + '_ {
        self.weights.iter().map(|(&pair, &weight)| (pair, weight))
    }
}
