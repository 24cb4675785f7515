use crate::{PlanError, Trace, Waste};

/// What a list may waste on traffic nobody has seen: how much to expect, and how far that may vary.
///
/// It has two parts, as what may come has: the same traffic going on, which the past can rehearse, and the same traffic at
/// another load, which it cannot. They weigh as in the [`LoadPrior`](crate::LoadPrior) the list was planned with.
///
/// ```
/// use graph_plan::{Constraints, Forecast, LoadPrior, PaddedRows, Step, Trace, Waste, best_sizes};
///
/// let steps = (0..600).map(|at| Step { decode_bs: 20 + at % 7 + at / 100, ..Step::default() });
/// let trace = Trace::new(steps.collect())?;
/// let prior = LoadPrior::decode();
/// let plan = |past: &Trace| {
///     let expected = prior.expected(&past.decode()?, 64)?;
///     best_sizes(&expected, &PaddedRows::default(), &Constraints::new().covering(64), 8)
/// };
/// let (sizes, seen) = (plan(&trace)?, trace.decode()?);
/// let loads = prior.loads(26).into_iter().map(|load| Ok(Waste::of(&sizes, &seen.at_load(load, 64)?)));
/// let forecast = Forecast::rehearse(&trace, 5, |past, next| Ok(Waste::of(&plan(past)?, &next.decode()?)))?
///     .with_loads(prior.share(), loads.collect::<Result<_, graph_plan::PlanError>>()?);
/// assert!(forecast.quantile(0.0) <= forecast.mean() && forecast.mean() <= forecast.quantile(1.0));
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    rehearsed: Vec<Waste>,
    other_loads: Vec<Waste>,
    share: f64,
}

impl Forecast {
    /// Rehearses planning in time order: the trace is cut into `parts + 1` equal stretches, and for each but the first,
    /// `rehearse` is given all steps before it to plan on, and the stretch itself to count on.
    ///
    /// # Errors
    /// Fewer steps than stretches, and what `rehearse` returns.
    pub fn rehearse(
        trace: &Trace,
        parts: usize,
        rehearse: impl Fn(&Trace, &Trace) -> Result<Waste, PlanError>,
    ) -> Result<Self, PlanError> {
        let steps = trace.steps();
        let cuts: Vec<usize> = (1..=parts + 1).map(|part| steps.len() * part / (parts + 1)).collect();
        let counted = cuts.windows(2).map(|cut| {
            let past = Trace::new(steps[..cut[0]].to_vec())?;
            let next = Trace::new(steps[cut[0]..cut[1]].to_vec())?;
            rehearse(&past, &next)
        });
        let rehearsed = counted.collect::<Result<_, _>>()?;
        Ok(Self { rehearsed, other_loads: vec![], share: 0.0 })
    }

    /// Adds what the list wastes on the traffic at other loads, which weighs `share` of the whole.
    pub fn with_loads(self, share: f64, other_loads: Vec<Waste>) -> Self {
        let share = if other_loads.is_empty() { 0.0 } else { share.clamp(0.0, 1.0) };
        Self { other_loads, share, ..self }
    }

    /// What planning wasted on each stretch, first to last.
    pub fn rehearsed(&self) -> &[Waste] {
        &self.rehearsed
    }

    /// What the list wastes at each other load.
    pub fn other_loads(&self) -> &[Waste] {
        &self.other_loads
    }

    /// Padding to expect, in percent: padded rows per executed row over all stretches and loads.
    pub fn mean(&self) -> f64 {
        let (mut padded, mut executed) = (0.0, 0.0);
        for (waste, weight) in self.weighed() {
            padded += weight * waste.padded_rows;
            executed += weight * waste.executed_rows;
        }
        if executed > 0.0 { 100.0 * padded / executed } else { 0.0 }
    }

    /// The padding, in percent, that a part of the executed rows stays below: 0.1 and 0.9 give the spread that holds for
    /// four rows in five.
    pub fn quantile(&self, part: f64) -> f64 {
        let mut rows: Vec<(f64, f64)> = self
            .weighed()
            .map(|(waste, weight)| (waste.padding_percent(), weight * waste.executed_rows))
            .collect();
        rows.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut left = part * rows.iter().map(|(_, executed)| executed).sum::<f64>();
        let at = rows.iter().position(|(_, executed)| {
            left -= executed;
            left <= 0.0
        });
        at.or(rows.len().checked_sub(1)).map_or(0.0, |at| rows[at].0)
    }

    /// Every waste with its weight, such that a step of a stretch weighs what the stretches do together, and so for loads.
    fn weighed(&self) -> impl Iterator<Item = (&Waste, f64)> {
        let weight = |wastes: &[Waste], share: f64| {
            share / wastes.iter().map(|waste| waste.steps).sum::<f64>().max(1.0)
        };
        let rehearsed = weight(&self.rehearsed, 1.0 - self.share);
        let others = weight(&self.other_loads, self.share);
        let rehearsed = self.rehearsed.iter().map(move |waste| (waste, rehearsed));
        rehearsed.chain(self.other_loads.iter().map(move |waste| (waste, others)))
    }
}
