mod field;
mod grid;
mod histogram;
mod search;

pub use grid::{GridPlan, best_grid};
pub use histogram::PairHistogram;

use crate::{Constraints, CostModel, PlanError, SizeCurve};
use field::Field;

/// A list of (requests, tokens) buckets, with how far from the best it can be at most.
///
/// ```
/// use graph_plan::{PaddedRows, PairCost, PairHistogram, PairRules, best_pairs};
///
/// let mut seen = PairHistogram::new();
/// seen.add(1, 900, 5.0)?;
/// seen.add(2, 400, 5.0)?;
/// seen.add(6, 1000, 1.0)?;
/// let (tokens, rows) = (PaddedRows::default(), PaddedRows::weighing(16.0)?);
/// let cost = PairCost { requests: &rows, tokens: &tokens };
/// let plan = best_pairs(&seen, &cost, &PairRules::default(), 3)?;
/// assert_eq!(plan.pairs, [(2, 400), (1, 900), (6, 1000)]);
/// assert!(plan.lower_bound <= plan.waste);
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PairPlan {
    /// `(requests, tokens)` by rising tokens, then requests: a step takes the first that fits.
    pub pairs: Vec<(u32, u32)>,
    /// What the list wastes on the histogram, in units of the costs.
    pub waste: f64,
    /// What no list of as many buckets can go below.
    pub lower_bound: f64,
}

/// What a step costs in a bucket of (requests, tokens): the sum of what the axes cost.
///
/// ```
/// use graph_plan::{PaddedRows, PairCost, PairHistogram, PairRules, best_pairs};
///
/// // A row of requests costs as much as a hundred tokens.
/// let (requests, tokens) = (PaddedRows::weighing(100.0)?, PaddedRows::default());
/// let cost = PairCost { requests: &requests, tokens: &tokens };
/// let mut seen = PairHistogram::new();
/// seen.add(1, 64, 1.0)?;
/// seen.add(8, 32, 1.0)?;
/// let plan = best_pairs(&seen, &cost, &PairRules::default(), 1)?;
/// assert_eq!(plan.pairs, [(8, 64)]);
/// assert_eq!(plan.waste, 7.0 * 100.0 + 32.0); // the rows of one step, the tokens of the other
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Clone, Copy)]
pub struct PairCost<'a> {
    /// Cost of a bucket's request rows.
    pub requests: &'a dyn CostModel,
    /// Cost of a bucket's token rows.
    pub tokens: &'a dyn CostModel,
}

/// Which sizes the buckets may have on each axis. The two maxima make the largest bucket; a size forced on one axis
/// comes with the largest size of the other.
///
/// ```
/// use graph_plan::{Constraints, PaddedRows, PairCost, PairHistogram, PairRules, best_pairs};
///
/// # let rows = PaddedRows::default();
/// # let cost = PairCost { requests: &rows, tokens: &rows };
/// # let mut seen = PairHistogram::new();
/// # seen.add(1, 60, 1.0)?;
/// # seen.add(8, 32, 1.0)?;
/// let rules = PairRules {
///     requests: Constraints::new().covering(32), // no batch up to this is eager
///     tokens: Constraints::new().aligned_to(16), // the kernel's tile
/// };
/// let plan = best_pairs(&seen, &cost, &rules, 3)?; // seen: (1, 60) and (8, 32)
/// assert!(plan.pairs.iter().any(|(requests, _)| *requests == 32));
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PairRules {
    /// For the number of requests.
    pub requests: Constraints,
    /// For the number of tokens.
    pub tokens: Constraints,
}

/// A good list of at most `count` buckets.
///
/// The rule at run time is the smallest number of tokens that fits, then the smallest number of requests. Finding the
/// best list is a hard problem (a p-median); this is a search from two starts, the best product grid and greedy growth,
/// until no change of one bucket helps, nor, up to 48 buckets, of two. It is deterministic, and never worse than the grid.
///
/// The lower bound is what the best `count` sizes on each axis alone would waste. Take any list of `count` pairs and
/// keep, of its sizes on one axis, those that cost less than every larger one: they are at most `count`, and with them
/// alone each step pays the least that any of the list's sizes can cost it on that axis.
///
/// # Errors
/// As for [`best_sizes`](crate::best_sizes), on either axis.
pub fn best_pairs(
    seen: &PairHistogram,
    cost: &PairCost<'_>,
    rules: &PairRules,
    count: usize,
) -> Result<PairPlan, PlanError> {
    let field = Field::new(seen, cost, rules)?;
    let needed = field.mandatory.len();
    if count < needed {
        return Err(PlanError::TooFewSizes { asked: count, needed });
    }
    let (mut places, mut total) = search::improve(&field, field.mandatory.clone(), count);
    if let Ok(grid) = best_grid(seen, cost, rules, count) {
        let (other, cost) = search::improve(&field, field.product(&grid.requests, &grid.tokens), count);
        if cost < total {
            (places, total) = (other, cost);
        }
    }
    let pairs = places.iter().map(|&place| field.pair(place)).collect();
    let lower_bound = lower_bound(seen, cost, rules, count)?;
    Ok(PairPlan { pairs, waste: total - field.floor, lower_bound })
}

fn lower_bound(
    seen: &PairHistogram,
    cost: &PairCost<'_>,
    rules: &PairRules,
    count: usize,
) -> Result<f64, PlanError> {
    let fits = rules.within(seen)?;
    let rows = SizeCurve::fit(&fits.requests(), cost.requests, &rules.requests, count)?;
    let tokens = SizeCurve::fit(&fits.tokens(), cost.tokens, &rules.tokens, count)?;
    Ok(rows.waste(count) + tokens.waste(count))
}

impl PairRules {
    /// The largest bucket of every list.
    pub(crate) fn top(&self, seen: &PairHistogram) -> Result<(u32, u32), PlanError> {
        Ok((self.requests.top(&seen.requests())?, self.tokens.top(&seen.tokens())?))
    }

    /// The steps that the largest bucket covers.
    fn within(&self, seen: &PairHistogram) -> Result<PairHistogram, PlanError> {
        let top = self.top(seen)?;
        let mut fits = PairHistogram::new();
        for ((requests, tokens), weight) in seen.iter().filter(|((r, t), _)| *r <= top.0 && *t <= top.1) {
            fits.add(requests, tokens, weight)?;
        }
        Ok(fits)
    }
}
