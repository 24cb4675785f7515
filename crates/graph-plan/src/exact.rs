use crate::{Constraints, CostModel, Histogram, PlanError, envelope::Envelope, histogram::check_number};

/// The best list of at most `count` sizes for `histogram`, smallest first.
///
/// # Errors
/// Rules that contradict each other or need more than `count` sizes, and a cost that is not a finite,
/// non-negative number.
pub fn best_sizes(
    histogram: &Histogram,
    cost: &dyn CostModel,
    rules: &Constraints,
    count: usize,
) -> Result<Vec<u32>, PlanError> {
    Ok(SizeCurve::fit(histogram, cost, rules, count)?.sizes(count))
}

/// The best lists of one size, two sizes, and so on: one dimension, exact.
///
/// A step of `x` rows runs in the smallest bucket `b >= x` and costs `t(b)`, so a list `b1 < b2 < ..` costs the
/// sum of `W(b[i-1], b[i]) t(b[i])`, where `W(a, b)` counts the steps with `a < x <= b`. With `W(b)` for `W(0, b)`,
/// the best cost of covering everything up to `b` with `k` sizes is
///
/// ```text
/// best(k, b) = W(b) t(b) + min over a < b of [ best(k-1, a) - W(a) t(b) ]
/// ```
///
/// The bracket is a line in `t(b)`: `a` fixes its slope and its height. Going through `b` upwards, each new line
/// is added once to a lower envelope that is asked once, both in `O(log n)`, so `K` sizes among `n` candidates
/// take `O(K n log n)` instead of `O(K n^2)`. Nothing is assumed about `t`: a bucket that measures faster than a
/// smaller one is handled exactly too.
///
/// ```
/// use graph_plan::{Constraints, Histogram, PaddedRows, SizeCurve};
///
/// let seen = Histogram::from_sizes([1, 2, 2, 7, 8, 8, 8])?;
/// let curve = SizeCurve::fit(&seen, &PaddedRows::default(), &Constraints::new(), 3)?;
/// assert_eq!((curve.sizes(1), curve.waste(1)), (vec![8], 20.0));
/// assert_eq!((curve.sizes(2), curve.waste(2)), (vec![2, 8], 2.0));
/// // A third size saves one padded row; a graph that costs two rows is not worth it.
/// assert_eq!(curve.count_at_price(2.0)?, 2);
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone)]
pub struct SizeCurve {
    candidates: Vec<u32>,
    fewest: usize,
    lists: Vec<Best>,
}

#[derive(Debug, Clone)]
struct Best {
    waste: f64,
    positions: Vec<usize>,
}

impl SizeCurve {
    /// Finds the best list for each number of sizes up to `most`.
    ///
    /// # Errors
    /// As for [`best_sizes`].
    pub fn fit(
        histogram: &Histogram,
        cost: &dyn CostModel,
        rules: &Constraints,
        most: usize,
    ) -> Result<Self, PlanError> {
        let line = Candidates::new(histogram, cost, rules)?;
        let fewest = line.mandatory.iter().filter(|&&must| must).count();
        if most < fewest {
            return Err(PlanError::TooFewSizes { asked: most, needed: fewest });
        }
        let lists = line.best_lists(most, fewest);
        Ok(Self { candidates: line.sizes, fewest, lists })
    }

    /// The fewest sizes the rules allow: the forced ones and the largest.
    pub fn fewest(&self) -> usize {
        self.fewest
    }

    /// The most sizes that still save anything, within the number the curve was fitted for.
    pub fn most(&self) -> usize {
        self.fewest + self.lists.len() - 1
    }

    /// The best list of at most `count` sizes, smallest first.
    pub fn sizes(&self, count: usize) -> Vec<u32> {
        self.best(count).positions.iter().map(|&position| self.candidates[position]).collect()
    }

    /// What the best list of at most `count` sizes wastes on the histogram, in units of the cost model: with
    /// [`PaddedRows`](crate::PaddedRows), padded rows in all. It can be negative where a larger bucket costs less.
    pub fn waste(&self, count: usize) -> f64 {
        self.best(count).waste
    }

    /// How many sizes are worth having when each costs `price`, in units of the cost model over the whole
    /// histogram: the count with the least waste and price together, the smaller of two equals.
    ///
    /// # Errors
    /// A price that is negative or not finite.
    pub fn count_at_price(&self, price: f64) -> Result<usize, PlanError> {
        check_number("the price of a size", price)?;
        let mut best = (f64::INFINITY, self.fewest);
        for count in self.fewest..=self.most() {
            let total = self.waste(count) + price * count as f64;
            if total < best.0 {
                best = (total, count);
            }
        }
        Ok(best.1)
    }

    fn best(&self, count: usize) -> &Best {
        let index = count.saturating_sub(self.fewest).min(self.lists.len() - 1);
        &self.lists[index]
    }
}

/// Sizes a list may hold, by rising size, with what the recurrence needs to know of each.
struct Candidates {
    sizes: Vec<u32>,
    mandatory: Vec<bool>,
    /// Steps of at most this size.
    steps: Vec<f64>,
    /// Cost of a step in a bucket of this size.
    cost: Vec<f64>,
    /// What the steps would cost in buckets of exactly their size.
    floor: f64,
}

impl Candidates {
    fn new(histogram: &Histogram, cost: &dyn CostModel, rules: &Constraints) -> Result<Self, PlanError> {
        let top = rules.top(histogram)?;
        let permitted: Vec<u32> = (1..=top).filter(|&size| rules.permits(size)).collect();
        let costs = permitted.iter().map(|&size| checked_cost(cost, size)).collect::<Result<Vec<_>, _>>()?;
        // Where costs never fall, a size without steps just below it can be lowered at no loss until it has some.
        let rising = costs.is_sorted();
        let mut seen = histogram.iter().take_while(|&(size, _)| size <= top).peekable();
        let mut line = Self { sizes: vec![], mandatory: vec![], steps: vec![], cost: vec![], floor: 0.0 };
        let mut steps = 0.0;
        for (&size, &step_cost) in permitted.iter().zip(&costs) {
            let before = steps;
            while let Some((seen_size, weight)) = seen.next_if(|&(seen_size, _)| seen_size <= size) {
                steps += weight;
                line.floor += weight * checked_cost(cost, seen_size)?;
            }
            let must = size == top || rules.forces(size);
            if must || !rising || steps > before {
                line.sizes.push(size);
                line.mandatory.push(must);
                line.steps.push(steps);
                line.cost.push(step_cost);
            }
        }
        Ok(line)
    }

    fn best_lists(&self, most: usize, fewest: usize) -> Vec<Best> {
        let last = self.sizes.len() - 1;
        let mut envelope = Envelope::new(&self.cost);
        let mut best: Vec<f64> = Vec::new();
        let mut parents: Vec<Vec<u32>> = Vec::new();
        let mut lists: Vec<Best> = Vec::new();
        for count in 1..=most.min(self.sizes.len()) {
            let (next, parent) = self.extend(&best, &mut envelope);
            best = next;
            parents.push(parent);
            if count < fewest {
                continue;
            }
            let waste = best[last] - self.floor;
            if lists.last().is_none_or(|shorter| waste < shorter.waste) {
                lists.push(Best { waste, positions: trace_back(&parents, last) });
            } else if let Some(shorter) = lists.last().cloned() {
                lists.push(shorter);
            }
        }
        let least = lists.last().map_or(0.0, |list| list.waste);
        let useful = lists.iter().position(|list| list.waste == least).map_or(0, |index| index + 1);
        lists.truncate(useful);
        lists
    }

    /// One more size: the best cost up to each candidate, and the size before it. `shorter` is the same for one
    /// size fewer, and empty for the first.
    fn extend(&self, shorter: &[f64], envelope: &mut Envelope) -> (Vec<f64>, Vec<u32>) {
        let mut best = Vec::with_capacity(self.sizes.len());
        let mut parent = Vec::with_capacity(self.sizes.len());
        let mut may_start = shorter.is_empty();
        envelope.clear();
        for at in 0..self.sizes.len() {
            let (value, from) = match envelope.lowest(at) {
                _ if may_start => (self.steps[at] * self.cost[at], NO_PARENT),
                Some(from) => {
                    let steps = self.steps[at] - self.steps[from as usize];
                    (shorter[from as usize] + steps * self.cost[at], from)
                }
                None => (f64::INFINITY, NO_PARENT),
            };
            best.push(value);
            parent.push(from);
            if self.mandatory[at] {
                // No list may step over this size.
                envelope.clear();
                may_start = false;
            }
            if let Some(&height) = shorter.get(at).filter(|height| height.is_finite()) {
                envelope.add(at as u32, -self.steps[at], height);
            }
        }
        (best, parent)
    }
}

const NO_PARENT: u32 = u32::MAX;

pub(crate) fn checked_cost(cost: &dyn CostModel, size: u32) -> Result<f64, PlanError> {
    let value = cost.step_cost(size);
    check_number("the cost of a step", value)?;
    Ok(value)
}

fn trace_back(parents: &[Vec<u32>], last: usize) -> Vec<usize> {
    let mut positions = Vec::with_capacity(parents.len());
    let mut at = last as u32;
    for parent in parents.iter().rev() {
        positions.push(at as usize);
        at = parent[at as usize];
    }
    positions.reverse();
    positions
}
