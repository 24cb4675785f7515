use std::collections::BTreeSet;

use crate::{Histogram, MAX_SIZE, PlanError, histogram::check_size};

/// Which sizes a list may hold, and which it must.
///
/// ```
/// use graph_plan::{Constraints, Histogram, PaddedRows, best_sizes};
///
/// let seen = Histogram::from_sizes([3, 5, 9, 9, 9, 21])?;
/// let rules = Constraints::new().covering(64).forcing([1]).aligned_to(8);
/// let sizes = best_sizes(&seen, &PaddedRows::default(), &rules, 4)?;
/// assert_eq!(sizes, [1, 16, 24, 64]);
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraints {
    max: Option<u32>,
    forced: BTreeSet<u32>,
    align: u32,
    multiple_of: u32,
}

impl Constraints {
    /// No rule but one: the largest size of the histogram must fit.
    pub fn new() -> Self {
        Self { max: None, forced: BTreeSet::new(), align: 1, multiple_of: 1 }
    }

    /// Makes `max` rows the largest size of every list, so that nothing up to it is eager. Steps with more
    /// rows are eager, whatever the list, and are not fitted.
    pub fn covering(mut self, max: u32) -> Self {
        self.max = Some(max);
        self
    }

    /// Puts these sizes into every list; they count as sizes of it.
    pub fn forcing(mut self, sizes: impl IntoIterator<Item = u32>) -> Self {
        self.forced.extend(sizes);
        self
    }

    /// Lets sizes from `align` rows up be multiples of `align` only, and smaller ones powers of two only,
    /// for kernels that work in tiles. Forced sizes and the maximum are taken as they are.
    pub fn aligned_to(mut self, align: u32) -> Self {
        self.align = align;
        self
    }

    /// Lets all sizes be multiples of `query_length` rows: a decode step with speculation has that many
    /// tokens per request.
    pub fn multiples_of(mut self, query_length: u32) -> Self {
        self.multiple_of = query_length;
        self
    }

    /// The largest size of every list, if one was set.
    pub fn max(&self) -> Option<u32> {
        self.max
    }

    /// Whether a list may hold `size`.
    pub fn permits(&self, size: u32) -> bool {
        let must = self.forced.contains(&size) || self.max == Some(size);
        let aligned =
            if size < self.align { size.is_power_of_two() } else { size.is_multiple_of(self.align.max(1)) };
        let below = self.max.is_none_or(|max| size <= max);
        size > 0 && below && size.is_multiple_of(self.multiple_of.max(1)) && (aligned || must)
    }

    /// Whether every list must hold `size`, besides its maximum.
    pub fn forces(&self, size: u32) -> bool {
        self.forced.contains(&size)
    }

    /// The largest size of a list for `histogram`: the maximum, or else the smallest permitted size that
    /// covers every step and every forced size.
    ///
    /// # Errors
    /// Rules that contradict each other, and a histogram without steps where no rule names a size.
    pub fn top(&self, histogram: &Histogram) -> Result<u32, PlanError> {
        self.check()?;
        if let Some(max) = self.max {
            return Ok(max);
        }
        let largest = histogram.max().max(self.forced.last().copied()).ok_or(PlanError::NothingToPlan)?;
        (largest..=MAX_SIZE)
            .find(|&size| self.permits(size))
            .ok_or(PlanError::SizeTooLarge { size: largest, limit: MAX_SIZE })
    }

    /// The permitted sizes just above these, together with the forced ones and `top`.
    pub(crate) fn round_up(&self, sizes: impl Iterator<Item = u32>, top: u32) -> Vec<u32> {
        let rounded = sizes.filter_map(|size| (size..=top).find(|&larger| self.permits(larger)));
        let mut sizes: Vec<u32> = rounded.chain(self.forced.iter().copied()).chain([top]).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    fn check(&self) -> Result<(), PlanError> {
        for (what, value) in [("the alignment", self.align), ("the query length", self.multiple_of)] {
            if value == 0 {
                return Err(PlanError::Zero { what });
            }
        }
        for &size in self.forced.iter().chain(&self.max) {
            check_size(size)?;
            if !size.is_multiple_of(self.multiple_of) {
                return Err(PlanError::NotAMultiple { size, multiple_of: self.multiple_of });
            }
            if let Some(max) = self.max.filter(|&max| size > max) {
                return Err(PlanError::AboveMax { size, max });
            }
        }
        Ok(())
    }
}

impl Default for Constraints {
    fn default() -> Self {
        Self::new()
    }
}
