//! The `plan` command, through the library.

mod workloads;

use graph_plan::{Dims, PlanCommand, PlanError, Sizes, Step, Trace};
use serde_json::{Value, json};

fn command(file: &str) -> PlanCommand {
    PlanCommand { trace: workloads::data(file), sizes: 8, json: true, ..PlanCommand::default() }
}

fn answer(command: &PlanCommand) -> Value {
    let mut output = vec![];
    command.run(&mut output).unwrap();
    serde_json::from_slice(&output).unwrap()
}

#[test]
fn json_for_decode_has_the_promised_shape() {
    let json = answer(&PlanCommand {
        max: Some(256),
        fit_fraction: 0.5,
        compare: true,
        ..command("azure_conv_2023_b2048_hi.csv")
    });
    let keys: Vec<_> = json.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["buckets", "fitted", "held_out", "presets", "sizes"]);
    let sizes = json["sizes"].as_array().unwrap();
    assert_eq!((sizes.len(), sizes.last()), (8, Some(&json!(256))));
    assert_eq!(json["buckets"], json!({"llama.decode": {"batch_sizes": sizes}}));
    for waste in [&json["fitted"], &json["held_out"], &json["presets"]["vllm"]] {
        let keys: Vec<_> = waste.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["eager_percent", "padding_percent"]);
        assert!(waste["padding_percent"].as_f64() > Some(0.0));
        assert_eq!(waste["eager_percent"], json!(0.0));
    }
    assert_eq!(json["presets"]["mstar-64"], json!({"padding_percent": 0.0, "eager_percent": 100.0}));
}

#[test]
fn json_for_prefill_has_pairs_and_token_buckets() {
    let json = answer(&PlanCommand {
        dims: Dims::Prefill,
        max: Some(2048),
        max_requests: Some(8),
        compare: true,
        ..command("azure_code_2023_b2048_lo.csv")
    });
    let sizes = json["sizes"].as_array().unwrap();
    assert_eq!((sizes.len(), sizes.last()), (8, Some(&json!([8, 2048]))));
    let mut tokens: Vec<u64> = sizes.iter().map(|pair| pair[1].as_u64().unwrap()).collect();
    tokens.dedup();
    let axis = json!({"total_tokens": tokens});
    assert_eq!(json["buckets"], json!({"llama.embed": axis, "llama.qkv": axis, "llama.mlp": axis}));
    assert_eq!(json["held_out"], Value::Null);
    assert_eq!(json["fitted"]["eager_percent"], json!(0.0));
    assert_eq!(json["presets"]["sglang-piecewise-2048"]["eager_percent"], json!(0.0));
}

#[test]
fn nothing_up_to_the_maximum_is_eager_and_the_maximum_is_a_size() {
    // Fitted to small steps only, then faced with everything up to the maximum.
    let small = [3, 5, 5, 7].map(|decode_bs| Step { decode_bs, prefill_chunks: vec![1; decode_bs as usize] });
    let every = (1..=64).map(|decode_bs| Step { decode_bs, prefill_chunks: vec![1; decode_bs as usize] });
    let trace = Trace::new(small.into_iter().chain(every).collect()).unwrap();
    for dims in [Dims::Decode, Dims::Prefill] {
        let plan = |max, fit_fraction| PlanCommand {
            sizes: 5,
            max: Some(max),
            fit_fraction,
            dims,
            ..PlanCommand::default()
        };
        let held = plan(64, 4.0 / 68.0).plan(&trace).unwrap();
        assert_eq!(held.fitted.steps, 4.0);
        assert_eq!(
            (held.held_out.unwrap().steps, held.held_out.unwrap().eager_steps),
            (64.0, 0.0),
            "{dims:?}"
        );
        assert_eq!(held.sizes.axis().1.last(), Some(&64), "{dims:?}");

        let capped = plan(32, 1.0).plan(&trace).unwrap();
        assert_eq!(capped.sizes.axis().1.last(), Some(&32), "{dims:?}");
        assert_eq!(capped.fitted.eager_steps, 32.0, "{dims:?}: all above the maximum, none below");
    }
}

#[test]
fn plain_is_the_exact_optimum_and_the_default_is_not() {
    let (_, trace, found) = workloads::all().remove(0);
    let plan = |plain| PlanCommand { sizes: 16, plain, ..PlanCommand::default() }.plan(&trace).unwrap();
    let optimum = found["optimum"]["16"].as_f64().unwrap();
    assert_eq!(plan(true).fitted.padded_rows, optimum);
    assert!(plan(false).fitted.padded_rows > optimum);
}

#[test]
fn targets_name_the_buckets() {
    let targets = vec!["vit.attn".to_owned(), "vit.mlp".to_owned()];
    let json = answer(&PlanCommand { targets, ..command("mooncake_synthetic_b2048_lo.csv") });
    let axis = json!({"batch_sizes": json["sizes"]});
    assert_eq!(json["buckets"], json!({"vit.attn": axis, "vit.mlp": axis}));
    for bad in [vec![String::new()], vec!["a".to_owned(), "a".to_owned()]] {
        let error =
            PlanCommand { targets: bad, ..command("mooncake_synthetic_b2048_lo.csv") }.run(&mut vec![]);
        assert!(matches!(error, Err(PlanError::BadTarget { .. })));
    }
}

#[test]
fn text_says_the_sizes_the_percentages_the_spread_and_the_bound() {
    let mut output = vec![];
    let command = PlanCommand {
        json: false,
        compare: true,
        fit_fraction: 0.5,
        ..command("azure_code_2023_b2048_lo.csv")
    };
    command.run(&mut output).unwrap();
    let text = String::from_utf8(output).unwrap();
    let trace = Trace::read(&command.trace).unwrap();
    let outcome = command.plan(&trace).unwrap();
    for part in [
        "8 sizes: ".to_owned(),
        format!("{:.2}", outcome.fitted.padding_percent()),
        format!("{:.2}", outcome.held_out.unwrap().padding_percent()),
        "tensorrt-exact".to_owned(),
        format!("expected on later steps: {:.2} %", outcome.forecast.as_ref().unwrap().mean()),
    ] {
        assert!(text.contains(&part), "no `{part}` in\n{text}");
    }
    let prefill = PlanCommand { dims: Dims::Prefill, ..command }.plan(&trace).unwrap();
    let text = prefill.to_string();
    assert!(
        matches!(&prefill.sizes, Sizes::Prefill(pairs) if text.contains(&format!("{}x{}", pairs[0].0, pairs[0].1)))
    );
    assert!(text.contains("no list as long is below"), "{text}");
}

#[test]
fn wrong_arguments_and_wrong_traces_are_told_apart() {
    let trace = Trace::parse("decode_bs,prefill_chunks\n4,\n").unwrap();
    let base = || PlanCommand { sizes: 2, ..PlanCommand::default() };
    for (command, code) in [
        (PlanCommand { sizes: 0, ..base() }, 2),
        (PlanCommand { max: Some(0), ..base() }, 2),
        (PlanCommand { max: Some(u32::MAX), ..base() }, 2),
        (PlanCommand { fit_fraction: 0.0, ..base() }, 2),
        (PlanCommand { fit_fraction: 1.1, ..base() }, 2),
        (PlanCommand { targets: vec![String::new()], ..base() }, 2),
        (PlanCommand { dims: Dims::Prefill, ..base() }, 1),
    ] {
        let error = command.plan(&trace).unwrap_err();
        assert_eq!(error.exit_code(), code, "{command:?}: {error}");
    }
    let nothing = PlanCommand { dims: Dims::Prefill, ..base() }.plan(&trace).unwrap_err();
    assert_eq!(nothing.to_string(), "no prefill batches in the 1 steps to be fitted");
}
