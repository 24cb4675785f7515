use super::{PairCost, PairHistogram, PairRules};
use crate::{PlanError, SizeCurve};

/// The best product of a list of request counts and a list of token counts: what engines capture that know only
/// one list per axis.
///
/// The cost of a step is a sum over the axes, and in a product each axis finds its own smallest size, so the best
/// two lists for given lengths are the best lists of each axis. Trying all lengths makes it exact.
///
/// ```
/// use graph_plan::{PaddedRows, PairCost, PairHistogram, PairRules, best_grid};
///
/// let mut seen = PairHistogram::new();
/// seen.add(1, 100, 5.0)?;
/// seen.add(2, 200, 5.0)?;
/// let (tokens, rows) = (PaddedRows::default(), PaddedRows::weighing(16.0)?);
/// let grid = best_grid(&seen, &PairCost { requests: &rows, tokens: &tokens }, &PairRules::default(), 4)?;
/// assert_eq!((grid.requests, grid.tokens, grid.waste), (vec![1, 2], vec![100, 200], 0.0));
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct GridPlan {
    /// Request counts, rising.
    pub requests: Vec<u32>,
    /// Token counts, rising.
    pub tokens: Vec<u32>,
    /// What the grid wastes on the histogram, in units of the costs.
    pub waste: f64,
}

/// The best grid of at most `count` buckets in all.
///
/// # Errors
/// As for [`best_sizes`](crate::best_sizes), on either axis.
pub fn best_grid(
    seen: &PairHistogram,
    cost: &PairCost<'_>,
    rules: &PairRules,
    count: usize,
) -> Result<GridPlan, PlanError> {
    let fits = rules.within(seen)?;
    let rows = SizeCurve::fit(&fits.requests(), cost.requests, &rules.requests, count)?;
    let tokens = SizeCurve::fit(&fits.tokens(), cost.tokens, &rules.tokens, count)?;
    let needed = rows.fewest() * tokens.fewest();
    let mut best: Option<(f64, usize, usize)> = None;
    for tall in rows.fewest()..=rows.most() {
        let wide = (count / tall).min(tokens.most());
        if wide < tokens.fewest() {
            break;
        }
        let waste = rows.waste(tall) + tokens.waste(wide);
        if best.is_none_or(|(least, ..)| waste < least) {
            best = Some((waste, tall, wide));
        }
    }
    let (waste, tall, wide) = best.ok_or(PlanError::TooFewSizes { asked: count, needed })?;
    Ok(GridPlan { requests: rows.sizes(tall), tokens: tokens.sizes(wide), waste })
}
