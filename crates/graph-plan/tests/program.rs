//! The `graph-plan` program: arguments, output, exit codes.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_graph-plan")).args(arguments).output().expect("the program starts")
}

fn trace(file: &str) -> String {
    format!("{}/tests/data/{file}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn it_prints_what_the_library_returns() {
    for (dims, max, size) in [("decode", "64", "64"), ("prefill", "2048", "[2048,2048]")] {
        let trace = trace("mooncake_synthetic_b2048_lo.csv");
        let arguments =
            ["--trace", &trace, "--sizes", "4", "--max", max, "--fit-fraction", "0.5", "--dims", dims];
        let output =
            run(&[&arguments[..], &["--compare", "--json", "--target", "a", "--target", "b"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.contains(&format!(",{size}]")) && text.contains("\"held_out\":{\"padding_percent\""),
            "{text}"
        );
        assert!(text.contains("\"b\":{\"") && text.contains("\"vllm\":{\""), "{text}");
    }
}

#[test]
fn a_bad_trace_is_exit_code_1_and_bad_usage_2() {
    let folder = std::env::temp_dir().join(format!("graph-plan-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let bad = folder.join("bad.csv");
    std::fs::write(&bad, "decode_bs,prefill_chunks\n1,\n2,x\n").unwrap();
    let empty = folder.join("empty.csv");
    std::fs::write(&empty, "").unwrap();
    let (bad, empty, good) =
        (bad.display().to_string(), empty.display().to_string(), trace("azure_code_2023_b2048_hi.csv"));
    for (arguments, code, says) in [
        (vec!["--trace", &bad, "--sizes", "4"], 1, "line 3: prefill_chunks is not a whole number: `x`"),
        (vec!["--trace", &empty, "--sizes", "4"], 1, "the trace is empty"),
        (vec!["--trace", "no-such-file", "--sizes", "4"], 1, "cannot read no-such-file"),
        (vec!["--trace", &good], 2, "--sizes"),
        (vec!["--trace", &good, "--sizes", "x"], 2, "--sizes"),
        (vec!["--trace", &good, "--sizes", "0"], 2, "0 sizes cannot hold the 1"),
        (vec!["--trace", &good, "--sizes", "4", "--fit-fraction", "2"], 2, "at most 1"),
        (vec!["--trace", &good, "--sizes", "4", "--dims", "both"], 2, "--dims"),
        (vec!["--trace", &good, "--sizes", "4", "--wrong"], 2, "--wrong"),
    ] {
        let output = run(&arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(says), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
