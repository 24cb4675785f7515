//! Numbers that a graph bakes in at its capture, and that every plan for it must have again.

use std::fmt;

use graph_core::{Dims, ErrorKind, Result};

/// What an attention kernel is launched with: a graph keeps these numbers as they were at its capture.
///
/// See [`LaunchShapes`] for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Rows: streams of the step, padding rows included.
    pub rows: usize,
    /// Parts that every row's context is split into.
    pub splits: usize,
}

impl fmt::Display for LaunchShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} row(s) in {} split(s)", self.rows, self.splits)
    }
}

/// The launch shapes of a resource's captured buckets: recorded while claims are open, compared at every plan.
///
/// ```
/// use graph_core::{Dims, ErrorKind};
/// use graph_resources::{LaunchShape, LaunchShapes};
/// let bucket = Dims { bs: 4, tokens: 4 };
/// let mut captured = LaunchShapes::new("attention");
/// captured.record(bucket, LaunchShape { rows: 4, splits: 8 })?;
/// captured.check(bucket, LaunchShape { rows: 4, splits: 8 })?;
/// let error = captured.check(bucket, LaunchShape { rows: 4, splits: 2 }).unwrap_err();
/// assert!(matches!(error.kind(), ErrorKind::LaunchShape { .. }));
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Debug)]
pub struct LaunchShapes<S = LaunchShape> {
    owner: &'static str,
    captured: Vec<(Dims, S)>,
}

impl<S: Copy + PartialEq + fmt::Display> LaunchShapes<S> {
    /// None yet; `owner` is for messages.
    pub fn new(owner: &'static str) -> Self {
        LaunchShapes { owner, captured: Vec::new() }
    }

    /// A bucket will be captured with this shape. Two captures of one size must agree.
    ///
    /// # Errors
    /// [`ErrorKind::LaunchShape`] when that size has another shape already.
    pub fn record(&mut self, bucket: Dims, shape: S) -> Result<()> {
        match self.captured.binary_search_by_key(&bucket, |(dims, _)| *dims) {
            Ok(at) => self.same(self.captured[at].1, shape),
            Err(at) => {
                self.captured.insert(at, (bucket, shape));
                Ok(())
            }
        }
    }

    /// What a bucket was captured with.
    pub fn captured(&self, bucket: Dims) -> Option<S> {
        let at = self.captured.binary_search_by_key(&bucket, |(dims, _)| *dims).ok()?;
        Some(self.captured[at].1)
    }

    /// A plan for a bucket.
    ///
    /// # Errors
    /// [`ErrorKind::LaunchShape`] when the bucket was captured with another shape. The step has not happened then; it
    /// can be run eagerly.
    pub fn check(&self, bucket: Dims, planned: S) -> Result<()> {
        self.captured(bucket).map_or(Ok(()), |captured| self.same(captured, planned))
    }

    fn same(&self, captured: S, planned: S) -> Result<()> {
        match captured == planned {
            true => Ok(()),
            false => {
                let (planned, captured) = (planned.to_string(), captured.to_string());
                Err(ErrorKind::LaunchShape { owner: self.owner, planned, captured }.into())
            }
        }
    }
}
