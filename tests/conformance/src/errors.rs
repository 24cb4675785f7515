//! Errors of graph-core as JSON: their kind and their numbers, so that an answer that is an error can be pinned.

use graph_core::{Error, ErrorKind, Miss};
use serde_json::{Value, json};

use crate::vectors::Problem;

/// Why there is no value.
#[derive(Debug)]
pub(crate) enum Stop {
    /// graph-core's answer is this error.
    Refused(Value),
    /// The vector cannot be asked, or graph-core contradicts itself.
    Problem(Problem),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Refused(error_json(&error))
    }
}

impl From<&Error> for Stop {
    fn from(error: &Error) -> Self {
        Stop::Refused(error_json(error))
    }
}

impl From<Problem> for Stop {
    fn from(problem: Problem) -> Self {
        Stop::Problem(problem)
    }
}

/// An error with its data; kinds that no vector meets are shown as text.
pub(crate) fn error_json(error: &Error) -> Value {
    match error.kind() {
        ErrorKind::EmptyBatch { .. } => json!({"error": "EmptyBatch"}),
        ErrorKind::LengthsMissing { .. } => json!({"error": "LengthsMissing"}),
        ErrorKind::LengthsDisagree { lens, bs, .. } => {
            json!({"error": "LengthsDisagree", "lens": lens, "bs": bs})
        }
        ErrorKind::BeyondBucket { what, got, most, .. } => {
            json!({"error": "BeyondBucket", "what": what, "got": got, "most": most})
        }
        ErrorKind::EmptySizes { list, .. } => json!({"error": "EmptySizes", "list": list}),
        ErrorKind::ZeroSize { list, .. } => json!({"error": "ZeroSize", "list": list}),
        ErrorKind::SameKey { first, second, .. } => {
            json!({"error": "SameKey", "first": first, "second": second})
        }
        ErrorKind::UnknownName { what, got, .. } => {
            json!({"error": "UnknownName", "what": what, "got": got})
        }
        ErrorKind::MissingInput { input, .. } => json!({"error": "MissingInput", "input": input}),
        ErrorKind::WrongSize { input, got, want, .. } => {
            json!({"error": "WrongSize", "input": input, "got": got, "want": want})
        }
        _ => json!({"error": error.to_string()}),
    }
}

/// A reason to run eagerly, with its numbers.
pub(crate) fn miss_json(miss: Miss) -> Value {
    match miss {
        Miss::TooManyRequests { bs, largest } => {
            json!({"reason": miss.name(), "bs": bs, "largest": largest})
        }
        Miss::TooManyTokens { tokens, largest } => {
            json!({"reason": miss.name(), "tokens": tokens, "largest": largest})
        }
        Miss::NoFit { bs, tokens } => json!({"reason": miss.name(), "bs": bs, "tokens": tokens}),
        _ => json!({"reason": miss.name()}),
    }
}

/// Whether an error of graph-core is the one that an exception of the reference implementation stands for.
pub(crate) fn same_error(function: &str, class: &str, answer: &Value) -> bool {
    let kinds: &[&str] = match (function, class) {
        // A division by no request.
        (_, "ZeroDivisionError") => &["EmptyBatch"],
        ("replay_seq_lens", "ValueError") => &["LengthsMissing"],
        // Nothing says how many requests there are.
        ("run", "ValueError") => &["EmptyBatch"],
        _ => &[],
    };
    answer.get("error").and_then(Value::as_str).is_some_and(|kind| kinds.contains(&kind))
}
