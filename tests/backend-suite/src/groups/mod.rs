//! The cases, by the part of graph-core that they are about. Each is named in [`each_case`](crate::each_case): one that is
//! not is dead code, which does not compile without a warning.

pub(crate) mod capture;
pub(crate) mod fallbacks;
pub(crate) mod forbidden;
pub(crate) mod leases;
pub(crate) mod operations;
pub(crate) mod padding;
pub(crate) mod plugins;
pub(crate) mod replay;
pub(crate) mod resources;
pub(crate) mod slots;
pub(crate) mod staging;

use graph_core::{ErrorKind, Result};

/// The error of something that must be refused.
#[track_caller]
fn refused<T>(outcome: Result<T>, is: impl FnOnce(&ErrorKind) -> bool) -> String {
    let error = outcome.err().expect("an error");
    assert!(is(error.kind()), "another error: {error}");
    error.to_string()
}
