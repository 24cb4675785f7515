use crate::{PlanError, Trace, Waste};

/// What a way of planning wastes on traffic it has not seen: how much, and how far that varies.
///
/// ```
/// use graph_plan::{Constraints, Forecast, LoadPrior, PaddedRows, Step, Trace, Waste, best_sizes};
///
/// let steps = (0..600).map(|at| Step { decode_bs: 20 + at % 7 + at / 100, ..Step::default() });
/// let trace = Trace::new(steps.collect())?;
/// let forecast = Forecast::rolling(&trace, 5, |past, next| {
///     let seen = LoadPrior::decode().expected(&past.decode()?, 64)?;
///     let sizes = best_sizes(&seen, &PaddedRows::default(), &Constraints::new().covering(64), 8)?;
///     Ok(Waste::of(&sizes, &next.decode()?))
/// })?;
/// assert_eq!(forecast.parts().len(), 5);
/// assert!(forecast.lowest() <= forecast.mean() && forecast.mean() <= forecast.highest());
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    parts: Vec<Waste>,
}

impl Forecast {
    /// Rehearses planning in time order: the trace is cut into `parts + 1` equal stretches, and for each but the first,
    /// `rehearse` is given all steps before it to plan on, and the stretch itself to count on.
    ///
    /// # Errors
    /// Fewer steps than stretches, and what `rehearse` returns.
    pub fn rolling(
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
        Ok(Self { parts: counted.collect::<Result<_, _>>()? })
    }

    /// The stretches, first to last.
    pub fn parts(&self) -> &[Waste] {
        &self.parts
    }

    /// Mean padding of the stretches, in percent.
    pub fn mean(&self) -> f64 {
        self.padding().sum::<f64>() / self.parts.len().max(1) as f64
    }

    /// Padding of the best stretch, in percent.
    pub fn lowest(&self) -> f64 {
        self.padding().reduce(f64::min).unwrap_or(0.0)
    }

    /// Padding of the worst stretch, in percent.
    pub fn highest(&self) -> f64 {
        self.padding().reduce(f64::max).unwrap_or(0.0)
    }

    /// Steps that no bucket fitted, in percent, over all stretches.
    pub fn eager(&self) -> f64 {
        let steps: f64 = self.parts.iter().map(|part| part.steps).sum();
        let eager: f64 = self.parts.iter().map(|part| part.eager_steps).sum();
        if steps > 0.0 { 100.0 * eager / steps } else { 0.0 }
    }

    fn padding(&self) -> impl Iterator<Item = f64> + '_ {
        self.parts.iter().map(Waste::padding_percent)
    }
}
