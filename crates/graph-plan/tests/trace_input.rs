//! What a trace may look like, and what is said about one that does not.

mod workloads;

use graph_plan::{MAX_SIZE, PlanError, Step, Trace};

fn bad_line(text: &str) -> (usize, String) {
    match Trace::parse(text) {
        Err(PlanError::BadLine { line, problem }) => (line, problem),
        other => panic!("{text:?} gave {other:?}"),
    }
}

#[test]
fn a_bad_line_is_named_by_its_number() {
    for (text, line, says) in [
        ("decode_bs,prefill_chunks\n4,\nx,\n", 3, "decode_bs is not a whole number: `x`"),
        ("decode_bs,prefill_chunks\n4,\n-1,\n", 3, "decode_bs is not a whole number"),
        ("decode_bs,prefill_chunks\n4\n", 2, "no comma"),
        ("decode_bs,prefill_chunks\n4,5 y\n", 2, "prefill_chunks is not a whole number: `y`"),
        ("decode_bs,prefill_chunks\n4,5,6\n", 2, "prefill_chunks is not a whole number: `5,6`"),
        ("decode_bs,prefill_chunks\n4,0\n", 2, "no tokens"),
        ("decode_bs,prefill_chunks\n4,\n\n5,\n", 3, "no comma"),
        ("decode_bs,prefill_chunks\n,\n", 2, "decode_bs is not a whole number"),
        ("decode_bs,prefill_chunks\n99999999999,\n", 2, "decode_bs is not a whole number"),
        ("decode_bs,prefill_chunks\n300000,\n", 2, "300000 rows are more than the largest"),
        ("decode_bs,prefill_chunks\n1,262144 1\n", 2, "262145 rows are more than the largest"),
        ("4,\n5,\n", 1, "neither a JSON object nor the CSV header"),
        ("{\"decode_bs\":1}\n{\"decode_bs\":\n", 2, "EOF"),
        ("{\"decode_bs\":1}\n{\"decode_bs\":-1}\n", 2, "invalid value"),
        ("{\"decode_bs\":1}\n\n", 2, "EOF"),
        ("{\"decode_bs\":1}\n{\"prefill_chunks\":[3,0]}\n", 2, "no tokens"),
        ("{\"decode_bs\":1}\n{\"decode_bs\":1} 2\n", 2, "trailing"),
    ] {
        let (number, problem) = bad_line(text);
        assert_eq!(number, line, "{text:?}: {problem}");
        assert!(problem.contains(says), "{text:?}: {problem}");
    }
}

#[test]
fn an_empty_trace_is_an_error() {
    for text in ["", "decode_bs,prefill_chunks", "decode_bs,prefill_chunks\n"] {
        assert!(matches!(Trace::parse(text), Err(PlanError::EmptyTrace)), "{text:?}");
    }
    assert!(matches!(Trace::new(vec![]), Err(PlanError::EmptyTrace)));
}

#[test]
fn a_missing_file_is_named() {
    let error = Trace::read("no-such-trace.csv").unwrap_err();
    assert!(error.to_string().starts_with("cannot read no-such-trace.csv: "), "{error}");
    assert_eq!(error.exit_code(), 1);
}

#[test]
fn what_serde_writes_as_json_lines_reads_back() {
    for (name, trace, _) in workloads::all() {
        let line = |step: &Step| serde_json::to_string(step).unwrap() + "\n";
        let text: String = trace.steps().iter().map(line).collect();
        assert_eq!(Trace::parse(&text).unwrap(), trace, "{name}");
    }
}

#[test]
fn windows_line_ends_and_the_largest_size_are_fine() {
    let trace = Trace::parse(&format!("decode_bs,prefill_chunks\r\n{MAX_SIZE},1 2\r\n0,\r\n")).unwrap();
    let large = Step { decode_bs: MAX_SIZE, prefill_chunks: vec![1, 2] };
    assert_eq!(trace.steps(), [large, Step::default()]);
    assert_eq!(trace.decode().unwrap().steps(), 1.0);
}

#[test]
fn a_cut_is_in_time_and_loses_no_step() {
    let (_, trace, _) = workloads::all().remove(0);
    for fraction in [0.001, 0.3, 0.5, 0.999, 1.0] {
        let (first, rest) = trace.split(fraction).unwrap();
        let rest = rest.map_or(vec![], |rest| rest.steps().to_vec());
        assert_eq!([first.steps(), &rest].concat(), trace.steps(), "{fraction}");
        assert_eq!(first.steps().len(), (trace.steps().len() as f64 * fraction) as usize, "{fraction}");
    }
    for fraction in [0.0, -0.5, 1.5, f64::NAN, f64::INFINITY] {
        assert!(matches!(trace.split(fraction), Err(PlanError::BadFraction { .. })), "{fraction}");
    }
}
