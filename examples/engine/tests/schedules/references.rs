//! The references of the bundled model, under every budget, page size and way of prefill.

use engine::scheduler::{Arrival, Limits, random_steps, run};
use graph_core::{Engine, Options, Registry};
use graph_host::Host;
use graph_resources::SampleParams;
use llama_plugin::{LlamaOptions, Prefill, Tokenizer};
use serde_json::Value;

fn built(options: LlamaOptions) -> Engine<Host> {
    Engine::builder(Host::new())
        .nodes(["llama"])
        .options(Options::default().with(options))
        .build(&Registry::collect().expect("no duplicates"))
        .expect("an engine")
}

fn all(prefill: Prefill) {
    let base = LlamaOptions { prefill, max_requests: 8, ..LlamaOptions::default() };
    let references: Vec<Value> =
        model_support::read_json(&base.dir.join("reference.json")).expect("the reference");
    let text = |reference: &Value, field: &str| reference[field].as_str().expect("text").to_string();
    let bytes = Tokenizer::bytes();
    let new_tokens = references[0]["new_tokens"].as_u64().expect("a number") as usize;
    assert!(references.iter().all(|r| r["new_tokens"].as_u64() == Some(new_tokens as u64)));
    let mut preemptions = 0;
    for (page_size, tokens) in [(1, 400), (4, 400), (16, 400)] {
        // Pages for about half of what all five together would take.
        let pages = Some(tokens / page_size);
        let mut engine = built(LlamaOptions { page_size, pages, ..base.clone() });
        let stream = engine.stream().clone();
        for (seed, prefill_budget) in [1, 7, 16, 64].into_iter().enumerate() {
            let steps = random_steps(seed as u64, references.len());
            let arrivals: Vec<Arrival> = references
                .iter()
                .zip(steps)
                .map(|(r, at_step)| Arrival {
                    tokens: bytes.encode(&text(r, "prompt")).expect("bytes"),
                    at_step,
                })
                .collect();
            let limits = Limits {
                max_new_tokens: new_tokens,
                max_batch: 8,
                prefill_budget,
                context: 512,
                vocab: 256,
                prefill: prefill.walk(),
                decode: "decode",
            };
            let node = engine.node("llama").expect("there");
            let (finished, counts) =
                run(node, &stream, &arrivals, limits, SampleParams::greedy(), |_| Ok(())).expect("served");
            preemptions += counts.preemptions;
            for (reference, f) in references.iter().zip(finished) {
                let got = bytes.decode(&f.tokens).expect("bytes");
                assert_eq!(got, text(reference, "greedy"), "pages of {page_size}, budget {prefill_budget}");
            }
        }
        let stats = engine.stats();
        assert!(stats.iter().all(|s| s.eager.is_empty() && s.failures.is_empty()), "{stats:?}");
    }
    assert!(preemptions > 0, "pages never ran out");
}

#[test]
fn piecewise() {
    all(Prefill::Piecewise);
}

#[test]
fn block_loop() {
    all(Prefill::BlockLoop);
}
