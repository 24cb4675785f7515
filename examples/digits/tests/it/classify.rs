//! The reference through the engine, at every batch size, captured and eager; and replay is replay.

use digits_plugin::{Classify, ClassifyArgs, DigitsOptions};
use graph_core::{Backend, Engine, HostTensor, NodeCall, Options, Registry, Result, Source};
use graph_host::Host;

use crate::reference::{assert_reference, tokens};

/// Values of one image.
const IMAGE: usize = 64;

fn engine() -> Engine<Host> {
    engine_with(DigitsOptions::default())
}

pub(crate) fn engine_with(options: DigitsOptions) -> Engine<Host> {
    let builder = Engine::builder(Host::new()).options(Options::default().with(options));
    builder.build(&Registry::collect().expect("no duplicates")).expect("an engine")
}

fn run(engine: &mut Engine<Host>, images: &[f32]) -> Result<Vec<f32>> {
    let seq_lens = vec![16; images.len() / IMAGE];
    let patches = HostTensor::new(images, [images.len() / 4, 4])?;
    let inputs = [("patches", Source::host::<f32, 2>(&patches))];
    let stream = engine.stream().clone();
    let call = NodeCall { requests: &[], seq_lens: &seq_lens, inputs: &inputs, slot: 0 };
    engine.node("digits")?.run("classify", &call)?.into_out().take::<f32, 2>("logits")?.to_vec(&stream)
}

/// All images, in batches.
pub(crate) fn classify(engine: &mut Engine<Host>, batch: usize) -> Vec<f32> {
    tokens().chunks(batch * IMAGE).flat_map(|images| run(engine, images).expect("a batch")).collect()
}

#[test]
fn every_batch_size_captured_and_eager_gives_the_reference_to_the_same_bit() {
    let mut engine = engine();
    let bits = |logits: &[f32]| logits.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let alone = classify(&mut engine, 1);
    assert_reference(&alone);
    for batch in 2..=32 {
        assert_eq!(bits(&classify(&mut engine, batch)), bits(&alone), "batch size {batch}");
    }
    let stats = engine.stats();
    let classify_stats = stats.iter().find(|s| s.name == "classify").expect("registered");
    assert!(
        classify_stats.failures.is_empty() && classify_stats.eager.is_empty(),
        "{:?}",
        classify_stats.eager
    );
    assert!(classify_stats.buckets.iter().all(|b| b.replays > 0));
    assert!(classify_stats.buckets.iter().any(|b| b.padded_rows > 0));
    let replays: u64 = classify_stats.buckets.iter().map(|b| b.replays).sum();
    assert_eq!(replays, (1..=32).map(|batch| 240_u64.div_ceil(batch)).sum::<u64>());

    engine.node("digits").expect("there").set_eager(true);
    for batch in [1, 7, 32, 240] {
        assert_eq!(bits(&classify(&mut engine, batch)), bits(&alone), "eager, batch size {batch}");
    }
}

#[test]
fn a_batch_beyond_every_bucket_runs_eagerly_with_a_reason() {
    let mut engine = engine();
    assert_reference(&classify(&mut engine, 240));
    let stats = engine.stats();
    let classify = stats.iter().find(|s| s.name == "classify").expect("registered");
    assert_eq!(classify.eager.iter().map(|(_, n)| n).sum::<u64>(), 1, "{:?}", classify.eager);
}

#[test]
fn a_region_runs_no_code_of_its_own_in_1000_replays() {
    // The region without its node, whose runner the test takes.
    let linked = Registry::collect().expect("no duplicates");
    let registry = Registry::from_entries(linked.regions().to_vec(), Vec::new(), Vec::new());
    let mut engine =
        Engine::builder(Host::new()).build(&registry.expect("no duplicates")).expect("an engine");
    let mut runner = engine.runners().take_one::<Classify<Host>>().expect("built");
    let (device, stream) = (engine.device().clone(), engine.stream().clone());
    let (tokens, seq_lens) = (tokens(), [16; 3]);
    let patches = HostTensor::new(&tokens[..3 * IMAGE], [48, 4]).expect("three images");
    let mut first = Vec::new();
    let before = device.issued();
    for i in 0..1000 {
        let outcome = runner.run(ClassifyArgs { patches }, &seq_lens).expect("a replay");
        assert!(outcome.reason().is_none());
        match i {
            0 => first = outcome.into_out().logits.to_vec(&stream).expect("read back"),
            _ => drop(outcome),
        }
    }
    assert_eq!(device.issued() - before, 1001, "each is one launch; one was read back");

    runner.set_eager(true);
    let before = device.issued();
    let eager = runner.run(ClassifyArgs { patches }, &seq_lens).expect("eager").into_out().logits;
    assert!(device.issued() - before > 30);
    assert_eq!(eager.to_vec(&stream).expect("read back"), first);
}

#[test]
fn images_of_a_wrong_size_are_an_error_before_anything_runs() {
    let mut engine = engine();
    let short = vec![0.5; 2 * IMAGE];
    let patches = HostTensor::new(&short, [32, 4]).expect("two images");
    let inputs = [("patches", Source::host::<f32, 2>(&patches))];
    let call = NodeCall { requests: &[], seq_lens: &[16; 3], inputs: &inputs, slot: 0 };
    let text =
        engine.node("digits").expect("there").run("classify", &call).expect_err("an error").to_string();
    assert!(text.contains("`patches`") && text.contains("[32, 4]") && text.contains("[48, 4]"), "{text}");
}
