//! The suite on the CUDA backend over the stand-in driver. Nothing here says anything about a GPU.

use backend_suite::{Bench, cases, stand_in};
use graph_cuda::Cuda;

/// Runs a case with the driver for itself; afterwards nothing may be alive, or have been done wrong on the way.
fn run(group: &str, name: &str) {
    let Some(session) = stand_in::session(name) else { return };
    let case = cases::<Cuda>().into_iter().find(|case| (case.group, case.name) == (group, name));
    let outcome = (case.expect("listed").run)(&Bench::new(stand_in::open));
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(session.total_calls() > 0, "it has run on the driver");
    assert!(session.live().is_zero(), "{:?}", session.live());
    assert!(session.faults().is_empty(), "{:?}", session.faults());
    assert!(graph_cuda::lost().is_empty(), "{:?}", graph_cuda::lost());
}

macro_rules! tests {
    ($($group:ident { $($name:ident,)* })*) => { $(
        mod $group {
            $(
                #[test]
                fn $name() {
                    crate::run(stringify!($group), stringify!($name));
                }
            )*
        }
    )* };
}
backend_suite::each_case!(tests);
