//! `engine serve` over few pages, with sampling, and by either way of prefill.

use serde_json::{Value, json};

use crate::program;

fn texts(output: &Value) -> Vec<&Value> {
    output["requests"].as_array().unwrap().iter().map(|r| &r["text"]).collect()
}

/// Few pages, small chunks, random arrival: requests give way to each other and end with the reference's texts.
#[test]
fn the_reference_texts_whatever_the_pages() {
    let reference = program::reference("llama", "shakespeare");
    let reference = reference.as_array().unwrap();
    let prompts: Vec<&Value> = reference.iter().map(|p| &p["prompt"]).collect();
    let (_dir, path) = program::file("prompts.json", &json!(prompts).to_string());
    for prefill in ["piecewise", "block-loop"] {
        let output = program::json([
            "serve",
            "--json",
            "--prompts",
            path.to_str().unwrap(),
            "--prefill",
            prefill,
            "--page-size",
            "4",
            "--pages",
            "60",
            "--prefill-budget",
            "7",
            "--arrivals",
            "random",
            "--seed",
            "3",
        ]);
        assert_eq!(texts(&output), reference.iter().map(|p| &p["greedy"]).collect::<Vec<_>>(), "{prefill}");
        assert_eq!(output["pages"]["total"], 60);
        assert_eq!(output["pages"]["free_at_end"], 60, "nothing leaks");
        assert!(output["pages"]["peak"].as_u64().unwrap() <= 60);
        assert!(output["preemptions"].as_u64().unwrap() > 0, "sixty pages are too few for all at once");
    }
}

/// The same seed gives the same text alone and batched, captured and eager.
#[test]
fn a_sampled_text_depends_on_prompt_and_seed_only() {
    let sampling = ["--temperature", "0.8", "--top-k", "40", "--top-p", "0.95", "--max-new-tokens", "40"];
    let serve = |seed: &str, more: &[&str]| {
        let args = [&["serve", "--json", "--seed", seed], &sampling[..], more].concat();
        texts(&program::json(args)).into_iter().cloned().collect::<Vec<Value>>()
    };
    let batched = serve("5", &["ROMEO:", "JULIET:", "KING:"]);
    assert_eq!(batched[1], serve("5", &["JULIET:"])[0], "alone");
    assert_eq!(batched, serve("5", &["--eager", "ROMEO:", "JULIET:", "KING:"]), "eager");
    assert_ne!(batched, serve("6", &["ROMEO:", "JULIET:", "KING:"]), "another seed");
}
