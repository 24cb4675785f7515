//! The test of the test: folders that must pass and folders that must not.

use std::path::{Path, PathBuf};

use conformance::{Report, Table, run};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests-data").join(name)
}

/// The report of a folder, and what was printed.
fn report(folder: &Path, table: Option<&Table>) -> (Report, Vec<String>) {
    let mut out = Vec::new();
    let report = run(folder, table, &mut out).expect("a Vec takes everything");
    let text = String::from_utf8(out).expect("reports are text");
    (report, text.lines().map(str::to_string).collect())
}

#[test]
fn unseen_setups_pass() {
    let (report, lines) = report(&folder("unseen"), None);
    assert!(report.is_good(), "{lines:#?}");
    let differ: usize = report.differ.values().sum();
    let last = format!("1137 vectors: {} pass, {differ} differ on purpose, 0 fail", 1137 - differ);
    assert_eq!(lines.last(), Some(&last));
    // These have differences that the vectors of the repository have not.
    for number in [14, 15, 17] {
        assert!(report.differ.contains_key(&number), "no vector of difference {number}: {:?}", report.differ);
    }
}

#[test]
fn every_broken_vector_fails() {
    let (report, lines) = report(&folder("broken"), None);
    assert!(!report.is_good());
    assert_eq!(lines.last().map(String::as_str), Some("11 vectors: 0 pass, 0 differ on purpose, 11 fail"));
    let says = [
        "altered.json #0: select_bucket({",
        "altered.json #1: lease_sequence({",
        "altered.json #2: stage({",
        "altered.json #3: distribute_tokens({\"bs\":0,\"total_tokens\":5}): want ValueError, got {\"error\":\"EmptyBatch\"}",
        "altered.json #4: distribute_tokens({\"bs\":0,\"total_tokens\":5}): want [], got {\"error\":\"EmptyBatch\"}",
        "cannot read the arguments: invalid type: string \"five\", expected usize",
        "there is no setup `nowhere` in this file",
        "setup `misspelt`: missing field `configs`",
        "unknown function `no_such_function`",
        "altered.json #9: a vector has no `fn`",
        "cut_off.json: EOF while parsing",
    ];
    for (line, says) in lines.iter().zip(says) {
        assert!(line.contains(says), "{line}\ndoes not say\n{says}");
    }
    assert!(lines[1].contains("passes, although difference 20 holds"), "{}", lines[1]);
    assert!(lines[2].contains("difference 5 wants"), "{}", lines[2]);
}

#[test]
fn no_vectors_are_a_failure() {
    for name in ["empty", "not there"] {
        let (report, lines) = report(&folder(name), None);
        assert!(!report.is_good(), "{name}");
        assert_eq!(report.problems.len(), 1, "{lines:?}");
        assert_eq!(lines.last().map(String::as_str), Some("0 vectors: 0 pass, 0 differ on purpose, 0 fail"));
    }
}

#[test]
fn other_counts_than_the_table_are_a_failure() {
    let (before, _) = report(&folder("unseen"), None);
    let mut table = Table { counts: before.differ.clone(), totals: before.totals() };
    assert!(report(&folder("unseen"), Some(&table)).0.is_good());
    table.counts.insert(20, 1);
    table.counts.insert(23, 1);
    table.counts.remove(&14);
    let (after, lines) = report(&folder("unseen"), Some(&table));
    assert_eq!(after.problems.len(), 3, "{lines:?}");
    table.counts = before.differ;
    table.totals = "1 vectors: 1 pass, 0 differ on purpose, 0 fail".into();
    assert_eq!(report(&folder("unseen"), Some(&table)).0.problems.len(), 1);
}
