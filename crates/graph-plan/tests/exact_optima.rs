//! The exact planner reproduces what another program found on ten workloads.

mod workloads;

use graph_plan::{Constraints, Histogram, PaddedRows, Preset, SizeCurve, Waste};
use serde_json::Value;

fn lengths(table: &Value) -> Vec<(usize, f64)> {
    let table = table.as_object().expect("a table by length");
    assert!(!table.is_empty());
    table.iter().map(|(k, value)| (k.parse().expect("a length"), value.as_f64().expect("a number"))).collect()
}

fn curve(seen: &Histogram, rules: &Constraints) -> SizeCurve {
    SizeCurve::fit(seen, &PaddedRows::default(), rules, 64).expect("a curve")
}

#[test]
fn decode_lists_pad_exactly_as_little_for_every_workload_and_length() {
    for (name, trace, found) in workloads::all() {
        let seen = trace.decode().unwrap();
        for (table, rules) in
            [("optimum", Constraints::new()), ("optimum_to_256", Constraints::new().covering(256))]
        {
            let curve = curve(&seen, &rules);
            for (count, padded) in lengths(&found[table]) {
                assert_eq!(curve.waste(count), padded, "{name} {table} {count}");
                let counted = Waste::of(&curve.sizes(count), &seen);
                assert_eq!(
                    (counted.padded_rows, counted.eager_steps),
                    (padded, 0.0),
                    "{name} {table} {count}"
                );
                assert!(curve.sizes(count).len() <= count);
            }
        }
    }
}

#[test]
fn the_padding_share_agrees_for_twelve_lengths_up_to_64() {
    for (name, trace, found) in workloads::all() {
        let seen = trace.decode().unwrap();
        let curve = curve(&seen, &Constraints::new());
        let table = lengths(&found["padding_share_by_count"]);
        assert_eq!(table.len(), 12);
        for (count, share) in table {
            let padding = Waste::of(&curve.sizes(count), &seen).padding_percent();
            assert!((padding - 100.0 * share).abs() < 1e-9, "{name} {count}: {padding}");
        }
    }
}

#[test]
fn a_plain_fit_to_the_first_half_pads_the_second_as_found() {
    // Equal cost on the half that was fitted does not fix the list, so two programs may differ on the other half by
    // how they break ties; on the fitted half they may not.
    for (name, trace, found) in workloads::all() {
        let (first, second) = trace.split(0.5).unwrap();
        let second = second.unwrap().decode().unwrap();
        let vllm = Preset::vllm(256).waste(&second);
        let expected = found["vllm_second_half_padded_rows"].as_f64().unwrap();
        assert_eq!(vllm.padded_rows, expected, "{name}: the halves are cut where the other program cut them");
        assert_eq!(first.steps().len(), trace.steps().len() / 2);
    }
}

#[test]
fn token_lists_pad_exactly_as_little() {
    for (name, trace, found) in workloads::all() {
        let mixed = trace.steps().iter().filter(|step| !step.prefill_chunks.is_empty());
        let mixed = mixed.map(|step| step.decode_bs + step.prefill_tokens() as u32);
        let batches =
            [("prefill", trace.prefill_tokens().unwrap()), ("mixed", Histogram::from_sizes(mixed).unwrap())];
        for (batch, seen) in batches {
            let curve = curve(&seen, &Constraints::new());
            for (count, padded) in lengths(&found["tokens"][batch]["optimum"]) {
                assert_eq!(curve.waste(count), padded, "{name} {batch} {count}");
            }
        }
    }
}

/// Names in the other program's tables, and our lists.
fn decode_presets() -> Vec<(&'static str, Preset)> {
    vec![
        ("vLLM default", Preset::vllm(256)),
        ("SGLang default (max 256)", Preset::sglang(256)),
        ("SGLang (max 160)", Preset::sglang(160)),
        ("TRT-LLM default, no padding", Preset::tensorrt_exact()),
        ("TRT-LLM padding, max 128", Preset::tensorrt(128)),
        ("TRT-LLM padding, max 256", Preset::tensorrt(256)),
        ("mstar [1..16]", Preset::mstar(16)),
        ("mstar newest [1..64]", Preset::mstar(64)),
        ("powers of two to 256", Preset::powers_of_two(1, 256)),
    ]
}

#[test]
fn presets_are_the_engines_lists() {
    let text = std::fs::read_to_string(workloads::data("presets.json")).unwrap();
    let lists: Value = serde_json::from_str(&text).unwrap();
    let ours = decode_presets();
    assert_eq!(lists.as_object().unwrap().len(), ours.len());
    for (theirs, preset) in &ours {
        assert_eq!(lists[theirs], serde_json::json!(preset.sizes), "{theirs}");
    }
    let offered: Vec<Preset> = ours.into_iter().map(|(_, preset)| preset).collect();
    assert_eq!(Preset::for_decode(), offered);
}

#[test]
fn presets_rise_up_to_what_they_are_asked_for() {
    for most in [16, 96, 160, 256, 512, 1024, 8192] {
        let lists = [
            Preset::sglang(most),
            Preset::sglang_piecewise(most),
            Preset::tensorrt(most),
            Preset::mstar(most),
        ];
        for list in lists.into_iter().chain([Preset::vllm(most)]) {
            assert!(list.sizes.is_sorted_by(|a, b| a < b), "{} {most}: {:?}", list.name, list.sizes);
            let bound = if list.name == "vllm" { most * 2 } else { most };
            assert!(list.sizes.iter().all(|&size| size <= bound), "{} {most}", list.name);
        }
    }
    assert_eq!(Preset::sglang(512).sizes.len(), 52);
}

#[test]
fn presets_waste_what_the_engines_lists_waste() {
    for (name, trace, found) in workloads::all() {
        let seen = trace.decode().unwrap();
        for (theirs, ours) in decode_presets() {
            agrees(&name, theirs, &ours, &seen, &found["presets"][theirs]);
        }
        let tokens = trace.prefill_tokens().unwrap();
        let budget = if name.contains("b8192") { 8192 } else { 2048 };
        for (theirs, ours) in ["vLLM default", "SGLang piecewise", "powers of two", "multiples of 256"]
            .iter()
            .zip(Preset::for_prefill(budget))
        {
            agrees(&name, theirs, &ours, &tokens, &found["tokens"]["prefill"]["presets"][theirs]);
        }
    }
}

fn agrees(workload: &str, list: &str, ours: &Preset, seen: &Histogram, theirs: &Value) {
    let waste = ours.waste(seen);
    let number = |key: &str| theirs[key].as_f64().unwrap_or_else(|| panic!("{workload}, {list}: {key}"));
    assert_eq!(ours.sizes.len() as f64, number("graphs"), "{workload}, {list}");
    assert_eq!(waste.padded_rows, number("padded_rows"), "{workload}, {list}");
    assert!((waste.padding_percent() - 100.0 * number("padding_share")).abs() < 1e-9, "{workload}, {list}");
    assert!((waste.eager_percent() - 100.0 * number("eager_share")).abs() < 1e-9, "{workload}, {list}");
}
