//! `engine serve`.

use serde_json::{Value, json};

use crate::program;

fn prompts() -> Vec<Value> {
    program::reference("llama", "shakespeare").as_array().unwrap().clone()
}

/// The reference prompts with two of them twice, in an order of their own.
fn file_of_prompts() -> (tempfile::TempDir, std::path::PathBuf, Vec<Value>) {
    let all = prompts();
    let order = [3, 0, 4, 0, 1, 2, 3];
    let chosen: Vec<Value> = order.iter().map(|i| all[*i].clone()).collect();
    let texts: Vec<&Value> = chosen.iter().map(|p| &p["prompt"]).collect();
    let (dir, path) = program::file("prompts.json", &json!(texts).to_string());
    (dir, path, chosen)
}

fn check(output: &Value, expected: &[Value]) {
    let requests = output["requests"].as_array().unwrap();
    assert_eq!(requests.len(), expected.len());
    for (request, reference) in requests.iter().zip(expected) {
        assert_eq!(request["prompt"], reference["prompt"]);
        assert_eq!(request["text"], reference["greedy"]);
        assert_eq!(request["new_tokens"], reference["new_tokens"]);
    }
}

#[test]
fn the_reference_texts_in_input_order_with_duplicates() {
    let (_dir, path, expected) = file_of_prompts();
    let output = program::json(["serve", "--json", "--max-batch", "3", "--prompts", path.to_str().unwrap()]);
    check(&output, &expected);
    let decode: Vec<&Value> =
        output["buckets"].as_array().unwrap().iter().filter(|b| b["walk"] == "decode").collect();
    let sum = |key: &str| decode.iter().map(|b| b[key].as_u64().unwrap()).sum::<u64>();
    // Every new token but a request's first comes from a decode step.
    assert_eq!(sum("real_rows"), 7 * 99);
    assert!(sum("padded_rows") > 0, "three requests run in a bucket of four");
    assert_eq!(output["eager"], json!([]), "every step was replayed");
}

#[test]
fn eager_execution_gives_the_same() {
    let (_dir, path, expected) = file_of_prompts();
    let output = program::json(["serve", "--json", "--eager", "--prompts", path.to_str().unwrap()]);
    check(&output, &expected);
    let replays = |b: &Value| b["replays"].as_u64().unwrap();
    assert_eq!(output["buckets"].as_array().unwrap().iter().map(replays).sum::<u64>(), 0);
    assert!(output["eager"].as_array().unwrap().iter().any(|e| e["reason"] == "forced"));
}

#[test]
fn strict_mode_serves_what_fits() {
    let first = &prompts()[0];
    let output = program::json(["serve", "--json", "--strict", first["prompt"].as_str().unwrap()]);
    check(&output, std::slice::from_ref(first));
}

#[test]
fn everything_but_the_object_goes_to_standard_error() {
    let out = program::engine(["serve", "--json", "--max-new-tokens", "1", "Hello"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(text.lines().count(), 1);
    assert!(String::from_utf8_lossy(&out.stderr).contains("captured llama.decode"));
}
