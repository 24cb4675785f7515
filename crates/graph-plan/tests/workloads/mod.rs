//! The ten workloads and what another program found on them.

use std::path::PathBuf;

use graph_plan::Trace;
use serde_json::Value;

pub(crate) fn data(file: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "data", file].iter().collect()
}

/// Each workload's name, trace and entry in `optima.json`.
pub(crate) fn all() -> Vec<(String, Trace, Value)> {
    let text = std::fs::read_to_string(data("optima.json")).expect("optima.json is there");
    let Value::Object(optima) = serde_json::from_str(&text).expect("optima.json is JSON") else {
        panic!("optima.json is an object")
    };
    assert_eq!(optima.len(), 10);
    let read = |name: &str| Trace::read(data(&format!("{name}.csv"))).expect("the trace is there");
    optima.into_iter().map(|(name, found)| (name.clone(), read(&name), found)).collect()
}
