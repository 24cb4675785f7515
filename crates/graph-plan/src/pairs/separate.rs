use super::field::{Field, Place};
use crate::{Histogram, PlanError, SizeCurve, constraints::Constraints, cost::CostModel};

/// The best list in which ranges of request counts each have token sizes of their own, and no step uses a bucket
/// of another range: exact by dynamic programming, and a good start for the search, which lets ranges share.
pub(super) fn separate_lists(field: &Field, count: usize) -> Result<Vec<Place>, PlanError> {
    let levels = field.levels.len();
    // best[level][k]: the least cost of all levels below `level` with k buckets, and where it comes from.
    let mut best: Vec<Vec<Option<Choice>>> = vec![vec![None; count + 1]; levels + 1];
    best[0][0] = Some(Choice { cost: 0.0, from: 0, places: vec![] });
    for to in 1..=levels {
        for from in 0..to {
            let Some(curve) = range_curve(field, from, to, count)? else { continue };
            for used in 0..count {
                let Some(before) = best[from][used].as_ref().map(|choice| choice.cost) else { continue };
                for more in curve.fewest()..=curve.most().min(count - used) {
                    let steps = range_steps(field, from, to, field.tokens.len() - 1);
                    let cost = before + curve.waste(more) + steps * field.level_cost[to - 1];
                    let slot = &mut best[to][used + more];
                    if slot.as_ref().is_none_or(|choice| cost < choice.cost) {
                        let places = curve.sizes(more).iter().map(|&size| size as usize - 1).collect();
                        *slot = Some(Choice { cost, from, places });
                    }
                }
            }
        }
    }
    let mut places = field.mandatory.clone();
    let used = (0..=count).filter(|&k| best[levels][k].is_some()).min_by(|&a, &b| {
        let cost = |k: usize| best[levels][k].as_ref().map_or(f64::INFINITY, |choice| choice.cost);
        cost(a).total_cmp(&cost(b))
    });
    let (mut level, mut left) = (levels, used.unwrap_or(0));
    while let Some(choice) = best[level][left].as_ref().filter(|_| level > 0) {
        places.extend(choice.places.iter().map(|&token| Place { token, level: level - 1 }));
        (level, left) = (choice.from, left - choice.places.len());
    }
    places.sort_unstable();
    places.dedup();
    Ok(places)
}

#[derive(Clone)]
struct Choice {
    cost: f64,
    from: usize,
    places: Vec<usize>,
}

/// Costs of tokens by their place on the field, counted from 1.
struct ByPlace<'a>(&'a Field);

impl CostModel for ByPlace<'_> {
    fn step_cost(&self, size: u32) -> f64 {
        self.0.token_cost[size as usize - 1]
    }
}

/// The best token sizes for the levels `from..to`; `None` if they have no steps.
fn range_curve(field: &Field, from: usize, to: usize, most: usize) -> Result<Option<SizeCurve>, PlanError> {
    let mut seen = Histogram::new();
    let mut before = 0.0;
    for token in 0..field.tokens.len() {
        let steps = range_steps(field, from, to, token);
        seen.add(token as u32 + 1, (steps - before).max(0.0))?;
        before = steps;
    }
    let last = to == field.levels.len();
    let rules = Constraints::new();
    let rules = if last { rules.covering(field.tokens.len() as u32) } else { rules };
    if seen.is_empty() && !last {
        return Ok(None);
    }
    SizeCurve::fit(&seen, &ByPlace(field), &rules, most).map(Some)
}

fn range_steps(field: &Field, from: usize, to: usize, token: usize) -> f64 {
    field.below(token)[from..to].iter().sum()
}
