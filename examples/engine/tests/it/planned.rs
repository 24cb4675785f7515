//! A planned bucket list in a running engine.

use serde_json::Value;

use crate::program;

/// Padding of decode steps: padded rows per executed row, in percent.
fn padding(served: &Value) -> f64 {
    let decode = served["buckets"].as_array().unwrap().iter().filter(|b| b["walk"] == "decode");
    let (mut real, mut padded) = (0.0, 0.0);
    for bucket in decode {
        real += bucket["real_rows"].as_f64().unwrap();
        padded += bucket["padded_rows"].as_f64().unwrap();
    }
    100.0 * padded / (real + padded)
}

/// What `plan` says about a recorded run is what `serve` counts with the planned list.
#[test]
fn a_planned_list_changes_padding_as_predicted() {
    let prompts: Vec<String> = (0..13).map(|i| format!("{}:\n", "ROMEO".repeat(1 + i % 4))).collect();
    let (dir, path) = program::file("prompts.json", &serde_json::to_string(&prompts).unwrap());
    let (trace, buckets) = (dir.path().join("trace.jsonl"), dir.path().join("buckets.json"));
    let path = path.to_str().unwrap();
    let serve = ["serve", "--json", "--max-batch", "13", "--max-new-tokens", "20", "--prompts", path];

    let before = program::json(serve.iter().copied().chain(["--record", trace.to_str().unwrap()]));
    let plan =
        program::json(["plan", "--json", "--trace", trace.to_str().unwrap(), "--sizes", "4", "--max", "13"]);
    std::fs::write(&buckets, plan["buckets"].to_string()).unwrap();
    let after = program::json(serve.iter().copied().chain(["--buckets", buckets.to_str().unwrap()]));

    assert_eq!(before["requests"], after["requests"]);
    let predicted = plan["fitted"]["padding_percent"].as_f64().unwrap();
    assert_eq!(plan["fitted"]["eager_percent"].as_f64(), Some(0.0));
    assert!((padding(&after) - predicted).abs() < 1e-6, "counted {}, predicted {predicted}", padding(&after));
    assert!(padding(&after) < padding(&before), "{} before, {} after", padding(&before), padding(&after));
}
