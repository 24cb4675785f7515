use std::{io, path::PathBuf};

/// Why a list could not be planned.
///
/// Every variant carries the numbers a message needs, so that a caller can react to a case without
/// parsing text.
///
/// ```
/// use graph_plan::{PlanError, Trace};
///
/// let error = Trace::parse("decode_bs,prefill_chunks\n4,\nfour,\n").unwrap_err();
/// assert!(matches!(error, PlanError::BadLine { line: 3, .. }));
/// assert_eq!(error.to_string(), "line 3: decode_bs is not a whole number: `four`");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The trace file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file that was asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line of a trace is not a step.
    #[error("line {line}: {problem}")]
    BadLine {
        /// Line number, counted from 1 and including the header.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// The trace has no steps at all.
    #[error("the trace is empty: not one step")]
    EmptyTrace,
    /// The steps to be fitted hold nothing of the kind asked for.
    #[error("no {what} in the {steps} steps to be fitted")]
    NothingToCount {
        /// What was looked for: `decode batches` or `prefill batches`.
        what: &'static str,
        /// How many steps were searched.
        steps: usize,
    },
    /// There is no step to fit a list to, and no maximum to cover.
    #[error("nothing to plan for: the histogram is empty and no maximum is set")]
    NothingToPlan,
    /// The fraction of the steps to fit on is not in (0, 1].
    #[error("the fit fraction must be above 0 and at most 1, not {fraction}")]
    BadFraction {
        /// The fraction that was given.
        fraction: f64,
    },
    /// A size of zero rows cannot be captured.
    #[error("{what} must be at least 1")]
    Zero {
        /// Which number was zero.
        what: &'static str,
    },
    /// A size lies beyond what the planner will look at.
    #[error("size {size} is larger than the largest that can be planned, {limit}")]
    SizeTooLarge {
        /// The size.
        size: u32,
        /// The largest size that can be planned.
        limit: u32,
    },
    /// A weight, cost, time, price, load or share is not a number that it can be.
    #[error("{what} cannot be {value}")]
    BadNumber {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// The sizes that must be in the list are more than the list may hold.
    #[error("{asked} sizes cannot hold the {needed} that must be in the list")]
    TooFewSizes {
        /// How many sizes the list may hold.
        asked: usize,
        /// How many sizes must be in it: the forced ones and the maximum.
        needed: usize,
    },
    /// A size that must be in the list breaks a rule of the same constraints.
    #[error("size {size} must be in the list but is not a multiple of {multiple_of}")]
    NotAMultiple {
        /// The forced size or the maximum.
        size: u32,
        /// The query length that every size must be a multiple of.
        multiple_of: u32,
    },
    /// A forced size is larger than the maximum.
    #[error("size {size} must be in the list but is larger than the maximum {max}")]
    AboveMax {
        /// The forced size.
        size: u32,
        /// The maximum.
        max: u32,
    },
    /// A target of the bucket file is named twice, or its name is empty.
    #[error("target name `{name}` is empty or given twice")]
    BadTarget {
        /// The name.
        name: String,
    },
    /// The answer could not be written as JSON.
    #[error("cannot write JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The answer could not be written.
    #[error("cannot write the answer: {0}")]
    Write(#[source] io::Error),
}

impl PlanError {
    /// What a program that fails with this error returns: 2 when the arguments cannot be right whatever the trace, 1
    /// when the trace, or what it holds, is at fault.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::BadFraction { .. }
            | Self::Zero { .. }
            | Self::SizeTooLarge { .. }
            | Self::BadNumber { .. }
            | Self::TooFewSizes { .. }
            | Self::NotAMultiple { .. }
            | Self::AboveMax { .. }
            | Self::BadTarget { .. } => 2,
            Self::Read { .. }
            | Self::BadLine { .. }
            | Self::EmptyTrace
            | Self::NothingToCount { .. }
            | Self::NothingToPlan
            | Self::Json(_)
            | Self::Write(_) => 1,
        }
    }
}
