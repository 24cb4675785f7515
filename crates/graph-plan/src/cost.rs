use std::collections::BTreeMap;

use crate::{PlanError, histogram::check_number, histogram::check_size};

/// What a step costs in a bucket.
///
/// A step runs all rows of its bucket, so the cost depends on the bucket alone. What a list wastes is
/// the cost of its steps in their buckets less what they would cost in buckets of exactly their size.
/// Any unit will do, rows or microseconds, as long as all sizes use the same one.
///
/// ```
/// use graph_plan::{Constraints, CostModel, Histogram, best_sizes};
///
/// /// A kernel that works in tiles of 64 rows: a bucket of 65 costs as much as one of 128.
/// struct Tiles;
///
/// impl CostModel for Tiles {
///     fn step_cost(&self, size: u32) -> f64 {
///         f64::from(size.div_ceil(64))
///     }
/// }
///
/// let seen = Histogram::from_sizes([40, 50, 60, 100])?;
/// assert_eq!(best_sizes(&seen, &Tiles, &Constraints::new(), 2)?, [60, 100]);
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
pub trait CostModel {
    /// Cost of one step in a bucket of `size` rows: finite and not negative.
    ///
    /// It need not rise with `size`; a step still runs in the smallest bucket that fits.
    fn step_cost(&self, size: u32) -> f64;
}

/// Every row costs the same, so what is wasted is the padded rows.
///
/// ```
/// use graph_plan::{CostModel, PaddedRows};
///
/// assert_eq!(PaddedRows::default().step_cost(48), 48.0);
/// // In a plan for (requests, tokens), one padded request may weigh as much as 16 padded tokens.
/// assert_eq!(PaddedRows::weighing(16.0)?.step_cost(3), 48.0);
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PaddedRows {
    weight: f64,
}

impl PaddedRows {
    /// Rows that count `weight` each, instead of one.
    ///
    /// # Errors
    /// A weight that is negative or not finite.
    pub fn weighing(weight: f64) -> Result<Self, PlanError> {
        check_number("the weight of a row", weight)?;
        Ok(Self { weight })
    }
}

impl Default for PaddedRows {
    fn default() -> Self {
        Self { weight: 1.0 }
    }
}

impl CostModel for PaddedRows {
    fn step_cost(&self, size: u32) -> f64 {
        self.weight * f64::from(size)
    }
}

/// Time per step as measured at some sizes, for example the replay times that a capture printed.
///
/// Between two measured sizes the time is interpolated. Below them it stays at the first, where launches dominate;
/// above them the last two go on in a straight line that does not fall. The unit is the caller's: microseconds in,
/// microseconds out.
///
/// ```
/// use graph_plan::{CostModel, MeasuredTime};
///
/// let time = MeasuredTime::new([(8, 100.0), (16, 140.0)])?;
/// assert_eq!(time.step_cost(12), 120.0);
/// assert_eq!(time.step_cost(1), 100.0);
/// assert_eq!(time.step_cost(32), 220.0);
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredTime {
    /// By rising size; never empty.
    points: Vec<(u32, f64)>,
}

impl MeasuredTime {
    /// Takes `(size in rows, time)` pairs; of two times for one size the later one counts.
    ///
    /// # Errors
    /// No pair at all, a size of zero or above [`MAX_SIZE`](crate::MAX_SIZE), a time that is negative or
    /// not finite.
    pub fn new(measured: impl IntoIterator<Item = (u32, f64)>) -> Result<Self, PlanError> {
        let points: BTreeMap<u32, f64> = measured.into_iter().collect();
        for (&size, &time) in &points {
            check_size(size)?;
            check_number("a measured time", time)?;
        }
        if points.is_empty() {
            return Err(PlanError::Zero { what: "the number of measured times" });
        }
        Ok(Self { points: points.into_iter().collect() })
    }
}

impl CostModel for MeasuredTime {
    fn step_cost(&self, size: u32) -> f64 {
        let between = |(low, fast): (u32, f64), (high, slow): (u32, f64)| {
            fast + (slow - fast) * (f64::from(size) - f64::from(low)) / (f64::from(high) - f64::from(low))
        };
        let at = self.points.partition_point(|&(measured, _)| measured < size);
        match (self.points[..at].last(), self.points.get(at)) {
            (None, Some(&(_, time))) => time,
            (Some(&below), Some(&above)) => between(below, above),
            (Some(&last), None) => match self.points[..at - 1].last() {
                Some(&before) if before.1 < last.1 => between(before, last),
                _ => last.1,
            },
            (None, None) => 0.0,
        }
    }
}
