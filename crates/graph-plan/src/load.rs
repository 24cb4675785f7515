use std::collections::BTreeMap;

use crate::{Histogram, PairHistogram, PlanError, histogram::check_number};

/// What traffic may come, given the traffic that came: the same requests at another load.
///
/// A list fitted to a histogram as it is has sizes where the past was and none where it was not, and traffic moves:
/// mostly because fewer or more users send the same kind of requests. So a `share` of every step is spread, evenly on
/// a logarithmic scale, over the sizes that step would have had at any lighter load, down to one row, and at a load up
/// to `growth` times heavier. The rest stays where it was seen. `docs/planning.md` measures this against other choices.
///
/// ```
/// use graph_plan::{Histogram, LoadPrior};
///
/// let seen = Histogram::from_sizes([40; 100])?;
/// let expected = LoadPrior::decode().expected(&seen, 256)?;
/// assert!((expected.steps() - 100.0).abs() < 1e-9);
/// assert!(expected.weight(40) > 50.0 && expected.weight(7) > 0.0);
/// assert_eq!(expected.max(), Some(60));
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadPrior {
    share: f64,
    growth: f64,
}

impl LoadPrior {
    /// For decode batches, whose size follows the load: half of the steps at another load, up to 1.5 times as heavy.
    pub fn decode() -> Self {
        Self { share: 0.5, growth: 1.5 }
    }

    /// For packed prefill batches, which fill a token budget at any load: a tenth of the steps at another load.
    pub fn prefill() -> Self {
        Self { share: 0.1, growth: 1.5 }
    }

    /// No prior: what came will come again, exactly.
    pub fn none() -> Self {
        Self { share: 0.0, growth: 1.0 }
    }

    /// A prior with a `share` from 0 to 1 of the steps at another load, and loads up to `growth` (at least 1) times
    /// as heavy as those seen.
    ///
    /// # Errors
    /// A number outside its range.
    pub fn new(share: f64, growth: f64) -> Result<Self, PlanError> {
        check_number("the share of steps at another load", share)?;
        check_number("the growth of the load", growth)?;
        if share > 1.0 {
            return Err(PlanError::BadNumber { what: "the share of steps at another load", value: share });
        }
        if growth < 1.0 {
            return Err(PlanError::BadNumber { what: "the growth of the load", value: growth });
        }
        Ok(Self { share, growth })
    }

    /// The share of steps at another load, from 0 to 1.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Sixteen loads, relative to the one seen, that stand for all this prior allows: evenly spaced on a logarithmic
    /// scale from where a batch of `largest` rows becomes one row up to the heaviest.
    pub fn loads(&self, largest: u32) -> Vec<f64> {
        let lightest = 1.0 / f64::from(largest.max(1));
        let span = self.growth / lightest;
        (0..16).map(|at| lightest * span.powf((f64::from(at) + 0.5) / 16.0)).collect()
    }

    /// The histogram to plan for, as many steps as `seen`; no step is moved beyond `largest` rows.
    ///
    /// # Errors
    /// None for histograms that this crate made.
    pub fn expected(&self, seen: &Histogram, largest: u32) -> Result<Histogram, PlanError> {
        let mut expected = Histogram::new();
        expected.add_scaled(seen, 1.0 - self.share)?;
        // A step of size x spreads over 1..=reach(x) with weights 1/y, so y receives 1/y from each x that reaches it:
        // going down through y, what has been reached so far only grows.
        let mut arriving: BTreeMap<u32, f64> = BTreeMap::new();
        for (size, weight) in seen.iter() {
            let reach = self.reach(size, largest);
            let harmonic: f64 = (1..=reach).map(|y| 1.0 / f64::from(y)).sum();
            *arriving.entry(reach).or_insert(0.0) += self.share * weight / harmonic;
        }
        let mut reaching = 0.0;
        for size in (1..=arriving.last_key_value().map_or(0, |(reach, _)| *reach)).rev() {
            reaching += arriving.get(&size).copied().unwrap_or(0.0);
            expected.add(size, reaching / f64::from(size))?;
        }
        Ok(expected)
    }

    /// The same for pairs: the tokens of a step spread, its requests stay, except that no request has less than one
    /// token. To keep the number of pairs small, the spread goes to sizes a sixteenth of an octave apart.
    ///
    /// # Errors
    /// None for histograms that this crate made.
    pub fn expected_pairs(&self, seen: &PairHistogram, most_tokens: u32) -> Result<PairHistogram, PlanError> {
        let mut expected = PairHistogram::new();
        for ((requests, tokens), weight) in seen.iter() {
            expected.add(requests, tokens, (1.0 - self.share) * weight)?;
            let rungs = ladder(requests, self.reach(tokens, most_tokens));
            for &rung in &rungs {
                expected.add(requests, rung, self.share * weight / rungs.len() as f64)?;
            }
        }
        Ok(expected)
    }

    /// The largest size a step may have at the heaviest load.
    fn reach(&self, size: u32, largest: u32) -> u32 {
        let grown = (f64::from(size) * self.growth) as u32;
        grown.min(largest).max(size)
    }
}

/// Sizes from `low` to `high`, about a sixteenth of an octave apart; both ends are among them.
fn ladder(low: u32, high: u32) -> Vec<u32> {
    let mut rungs = vec![low];
    let mut exact = f64::from(low);
    while let Some(&last) = rungs.last().filter(|&&last| last < high) {
        exact *= 2f64.powf(1.0 / 16.0);
        let rung = (exact as u32).min(high);
        if rung > last {
            rungs.push(rung);
        }
    }
    rungs
}
