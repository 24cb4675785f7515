use super::{PairCost, PairHistogram, PairRules};
use crate::{Constraints, CostModel, Histogram, PlanError, SizeCurve, exact::checked_cost};

/// What no list of `count` pairs can go below: the sum over the axes of what the best `count` sizes waste there.
///
/// `count` pairs have at most `count` different sizes on an axis, and a step's pair is no smaller on that axis than the
/// smallest of those sizes that fits. So the axis costs it at least what the cheapest size from there up costs.
pub(super) fn lower_bound(
    seen: &PairHistogram,
    cost: &PairCost<'_>,
    rules: &PairRules,
    count: usize,
) -> Result<f64, PlanError> {
    let fits = rules.within(seen)?;
    let rows = axis_bound(&fits.requests(), cost.requests, &rules.requests, count)?;
    let tokens = axis_bound(&fits.tokens(), cost.tokens, &rules.tokens, count)?;
    Ok(rows + tokens)
}

fn axis_bound(
    seen: &Histogram,
    cost: &dyn CostModel,
    rules: &Constraints,
    count: usize,
) -> Result<f64, PlanError> {
    let cheapest = CheapestFrom::new(cost, rules, rules.top(seen)?)?;
    let mut bound = SizeCurve::fit(seen, &cheapest, rules, count)?.waste(count);
    // The curve counts from the cheapest size up; a list's waste counts from the step's own size.
    for (size, weight) in seen.iter() {
        bound += weight * (cheapest.step_cost(size) - checked_cost(cost, size)?);
    }
    Ok(bound)
}

/// The least cost of any permitted size from a size up: it never falls.
struct CheapestFrom {
    /// By size; sizes beyond the largest cost what the largest does.
    costs: Vec<f64>,
}

impl CheapestFrom {
    fn new(cost: &dyn CostModel, rules: &Constraints, top: u32) -> Result<Self, PlanError> {
        let mut least = checked_cost(cost, top)?;
        let mut costs = vec![least; top as usize + 1];
        for size in (1..top).rev() {
            if rules.permits(size) {
                least = least.min(checked_cost(cost, size)?);
            }
            costs[size as usize] = least;
        }
        Ok(Self { costs })
    }
}

impl CostModel for CheapestFrom {
    fn step_cost(&self, size: u32) -> f64 {
        self.costs[(size as usize).min(self.costs.len() - 1)]
    }
}
