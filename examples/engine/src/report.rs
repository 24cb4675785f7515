//! Tables and JSON of what happened.

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use graph_core::RunnerStats;
use serde_json::{Value, json};

/// A table in the style of this binary.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    table
}

/// A row per bucket, then eager calls and failed captures.
pub(crate) fn buckets(stats: &[RunnerStats]) -> String {
    let header =
        ["region or walk", "bs", "tokens", "nodes", "replays", "real rows", "padded rows", "bytes held"];
    let mut rows = table(&header);
    let mut notes = String::new();
    for s in stats {
        let name = format!("{}.{}", s.node, s.name);
        for b in &s.buckets {
            let numbers = [b.dims.bs, b.dims.tokens, b.operations].map(|n| n.to_string());
            let counts = [b.replays, b.real_rows, b.padded_rows, b.bytes as u64].map(|n| n.to_string());
            rows.add_row([name.clone()].into_iter().chain(numbers).chain(counts));
        }
        for (reason, count) in &s.eager {
            notes += &format!("\neager: {name}: {count} call(s), {reason}");
        }
        for failure in &s.failures {
            notes += &format!("\nnot captured: {failure}");
        }
    }
    format!("{rows}{notes}")
}

/// The `buckets` of `--json`.
pub(crate) fn buckets_json(stats: &[RunnerStats]) -> Value {
    let row = |s: &RunnerStats, b: &graph_core::BucketCount| {
        json!({
            "node": s.node, "name": s.name, "walk": s.walk, "bs": b.dims.bs, "tokens": b.dims.tokens,
            "replays": b.replays, "real_rows": b.real_rows, "padded_rows": b.padded_rows,
        })
    };
    stats.iter().flat_map(|s| s.buckets.iter().map(move |b| row(s, b))).collect()
}

/// The `eager` of `--json`.
pub(crate) fn eager_json(stats: &[RunnerStats]) -> Value {
    let row = |s: &RunnerStats, (reason, count): &(&str, u64)| json!({ "node": s.node, "name": s.name, "reason": reason, "count": count });
    stats.iter().flat_map(|s| s.eager.iter().map(move |e| row(s, e))).collect()
}
