use std::collections::BTreeMap;

use crate::PlanError;

/// The largest size, in rows, that the planner looks at.
///
/// It bounds memory: a list of `K` sizes below it needs `4 x K` bytes of working memory per size.
pub const MAX_SIZE: u32 = 1 << 18;

/// How many steps had each size, where a size is the number of rows of a batch: requests in decode,
/// tokens in prefill.
///
/// Weights are steps, and need not be whole: a prior adds fractions of steps to sizes nobody has seen.
///
/// ```
/// use graph_plan::Histogram;
///
/// let seen = Histogram::from_sizes([3, 3, 8])?;
/// assert_eq!(seen.steps(), 3.0);
/// assert_eq!(seen.rows(), 14.0);
/// assert_eq!(seen.weight(3), 2.0);
/// assert_eq!(seen.max(), Some(8));
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Histogram {
    weights: BTreeMap<u32, f64>,
}

impl Histogram {
    /// A histogram without steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one step per size.
    ///
    /// # Errors
    /// A size that is zero or above [`MAX_SIZE`].
    pub fn from_sizes(sizes: impl IntoIterator<Item = u32>) -> Result<Self, PlanError> {
        let mut histogram = Self::new();
        for size in sizes {
            histogram.add(size, 1.0)?;
        }
        Ok(histogram)
    }

    /// Adds `weight` steps of `size` rows.
    ///
    /// # Errors
    /// A size that is zero or above [`MAX_SIZE`]; a weight that is negative or not finite.
    pub fn add(&mut self, size: u32, weight: f64) -> Result<(), PlanError> {
        check_size(size)?;
        check_number("a weight", weight)?;
        if weight > 0.0 {
            *self.weights.entry(size).or_insert(0.0) += weight;
        }
        Ok(())
    }

    /// Adds every step of `other`, `factor` times.
    ///
    /// # Errors
    /// A factor that is negative or not finite.
    pub fn add_scaled(&mut self, other: &Histogram, factor: f64) -> Result<(), PlanError> {
        check_number("a factor", factor)?;
        for (size, weight) in other.iter() {
            self.add(size, weight * factor)?;
        }
        Ok(())
    }

    /// The same steps at another load: every size times `load`, rounded up, and at most `largest`.
    ///
    /// # Errors
    /// A load that is negative or not finite, a largest size that is zero or above [`MAX_SIZE`].
    pub fn at_load(&self, load: f64, largest: u32) -> Result<Self, PlanError> {
        check_number("a load", load)?;
        check_size(largest)?;
        let scaled = |size: u32| ((f64::from(size) * load).ceil() as u32).clamp(1, largest);
        Ok(Self::collect(self.iter().map(|(size, weight)| (scaled(size), weight))))
    }

    /// Steps in all.
    pub fn steps(&self) -> f64 {
        self.weights.values().sum()
    }

    /// Rows of work in all: the sum of size times steps.
    pub fn rows(&self) -> f64 {
        self.iter().map(|(size, weight)| f64::from(size) * weight).sum()
    }

    /// Steps of exactly `size` rows.
    pub fn weight(&self, size: u32) -> f64 {
        self.weights.get(&size).copied().unwrap_or(0.0)
    }

    /// The largest size seen.
    pub fn max(&self) -> Option<u32> {
        self.weights.last_key_value().map(|(size, _)| *size)
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// Sizes with their steps, by rising size.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, f64)> + '_ {
        self.weights.iter().map(|(size, weight)| (*size, *weight))
    }
}

impl Histogram {
    /// Sums weights that are known to be good.
    pub(crate) fn collect(weights: impl Iterator<Item = (u32, f64)>) -> Self {
        let mut histogram = Self::new();
        for (size, weight) in weights {
            *histogram.weights.entry(size).or_insert(0.0) += weight;
        }
        histogram
    }
}

pub(crate) fn check_size(size: u32) -> Result<(), PlanError> {
    match size {
        0 => Err(PlanError::Zero { what: "a size" }),
        size if size > MAX_SIZE => Err(PlanError::SizeTooLarge { size, limit: MAX_SIZE }),
        _ => Ok(()),
    }
}

pub(crate) fn check_number(what: &'static str, value: f64) -> Result<(), PlanError> {
    if value.is_finite() && value >= 0.0 { Ok(()) } else { Err(PlanError::BadNumber { what, value }) }
}
