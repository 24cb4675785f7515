//! The engine's commands on CUDA: what they print is what they print on the host.

use ::engine::{self, demo::Inputs};
use digits_plugin::DigitsOptions;
use graph_core::Backend;
use graph_host::Host;
use llama_plugin::LlamaOptions;
use plugins_on_cuda::{models::llama::references, open, session};
use serde_json::{Value, json};

fn output<B: Backend>(device: &B, name: &str, arguments: &[&str]) -> Result<String, String> {
    let mut out = Vec::new();
    let arguments = ["engine"].iter().chain(arguments);
    engine::run(arguments, device, name, &mut out).map_err(|error| format!("{error:#}"))?;
    Ok(String::from_utf8(out).expect("text"))
}

fn object<B: Backend>(device: &B, name: &str, arguments: &[&str]) -> Value {
    serde_json::from_str(&output(device, name, arguments).expect("served")).expect("an object")
}

fn on_cuda(arguments: &[&str]) -> Value {
    object(&open(None), "cuda:0", arguments)
}

fn on_host(arguments: &[&str]) -> Value {
    object(&Host::new(), "host", arguments)
}

#[test]
fn serve_gives_the_texts_of_the_host() {
    let Some(session) = session("serve_gives_the_texts_of_the_host") else { return };
    let references = references(&LlamaOptions::default().dir);
    let prompts: Vec<&str> = references.iter().map(|r| r.prompt.as_str()).collect();
    for more in [
        &["--max-new-tokens", "12"][..],
        &["--max-new-tokens", "4", "--eager"],
        &[
            "--max-new-tokens",
            "6",
            "--prefill",
            "block-loop",
            "--prefill-budget",
            "7",
            "--arrivals",
            "random",
        ],
        &["--max-new-tokens", "6", "--page-size", "2", "--pages", "16"],
        &[
            "--max-new-tokens",
            "10",
            "--temperature",
            "0.8",
            "--top-k",
            "40",
            "--top-p",
            "0.95",
            "--seed",
            "5",
        ],
    ] {
        let arguments = [&["serve", "--json"][..], more, &prompts].concat();
        let (cuda, host) = (on_cuda(&arguments), on_host(&arguments));
        assert_eq!((&cuda["device"], &host["device"]), (&"cuda:0".into(), &"host".into()));
        for field in ["requests", "buckets", "eager", "pages", "preemptions"] {
            assert_eq!(cuda[field], host[field], "{field} of {more:?}");
        }
        let preempted = cuda["preemptions"].as_u64().is_some_and(|count| count > 0);
        assert_eq!(preempted, more.contains(&"--pages"), "{more:?}");
        assert!(session.live().is_zero(), "{more:?}: {:?}", session.live());
    }
    assert!(session.faults().is_empty(), "{:?}", session.faults());
}

#[test]
fn classify_gives_the_predictions_of_the_host() {
    let Some(session) = session("classify_gives_the_predictions_of_the_host") else { return };
    let bundled = DigitsOptions::default().dir.join("test_images.json");
    let mut bundled: Value = model_support::read_json(&bundled).expect("the images");
    bundled["images"].as_array_mut().expect("images").truncate(70);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&file, json!({ "images": bundled["images"] }).to_string()).expect("written");
    let images = file.path().to_str().expect("a path");
    for (batch_size, more) in [("32", None), ("70", None), ("31", Some("--eager"))] {
        let mut arguments = vec!["classify", "--json", "--images", images, "--batch-size", batch_size];
        arguments.extend(more);
        let (cuda, host) = (on_cuda(&arguments), on_host(&arguments));
        assert_eq!((&cuda["device"], &host["device"]), (&"cuda:0".into(), &"host".into()));
        assert_eq!(cuda["predictions"], host["predictions"], "batches of {batch_size}");
    }
    assert!(session.live().is_zero(), "{:?}", session.live());
    assert!(session.faults().is_empty(), "{:?}", session.faults());
}

#[test]
fn the_run_without_a_command_compares_replay_with_eager_execution() {
    let test = "the_run_without_a_command_compares_replay_with_eager_execution";
    let Some(session) = session(test) else { return };
    let mut inputs = Inputs::bundled().expect("the images");
    inputs.prompts.truncate(4);
    inputs.images.truncate(12);
    let inputs = Inputs { new_tokens: 12, most_images: 5, ..inputs };
    let (mut cuda, mut host) = (Vec::new(), Vec::new());
    engine::demo::run(&open(None), "cuda:0", &inputs, &mut cuda).expect("replay is eager execution");
    engine::demo::run(&Host::new(), "host", &inputs, &mut host).expect("replay is eager execution");
    let [cuda, host] = [cuda, host].map(|out| String::from_utf8(out).expect("text"));
    assert!(cuda.contains("# Captured on cuda:0 in "), "{cuda}");
    assert!(cuda.contains("the same: 4 texts, the bits of their logits, and 12 images' logits"), "{cuda}");
    let served = |out: &str| -> String {
        out.split("# Served").nth(1).and_then(|out| out.split("# Classified").next()).expect("texts").into()
    };
    assert_eq!(served(&cuda), served(&host));
    assert!(session.live().is_zero(), "{:?}", session.live());
    assert!(session.faults().is_empty(), "{:?}", session.faults());
}

#[test]
fn a_device_that_fails_is_an_error_of_the_command_and_leaves_nothing() {
    let test = "a_device_that_fails_is_an_error_of_the_command_and_leaves_nothing";
    let Some(session) = session(test) else { return };
    let serve = ["serve", "--json", "--max-new-tokens", "4", "hi"];
    let expected = on_host(&serve);

    let device = open(None);
    session.set_memory(1 << 20);
    let error = output(&device, "cuda:0", &serve).expect_err("a device of 1 MiB");
    assert!(error.contains("cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY (2): "), "{error}");
    drop(device);
    assert!(session.live().is_zero(), "{:?}", session.live());

    session.reset();
    session.fail_once("cuGraphLaunch", 3, 719);
    let error = output(&open(None), "cuda:0", &serve).expect_err("a device that ends");
    assert!(error.contains("cuGraphLaunch failed: CUDA_ERROR_LAUNCH_FAILED (719)"), "{error}");
    assert!(session.live().is_zero(), "{:?}", session.live());

    assert_eq!(on_cuda(&serve)["requests"], expected["requests"]);
}
