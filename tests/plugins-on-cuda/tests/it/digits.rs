//! The digits model's reference through the engine, captured and eager.

use std::path::{Path, PathBuf};

use digits_plugin::{DigitsOptions, Images};
use graph_core::{Engine, HostTensor, NodeCall, Source};
use graph_cuda::Cuda;
use plugins_on_cuda::{close, open, registry, same, session};
use serde::Deserialize;

/// Values of one image.
const IMAGE: usize = 64;

#[derive(Deserialize)]
struct Reference {
    predictions: Vec<usize>,
    logits_first8: Vec<Vec<f32>>,
}

fn folder() -> PathBuf {
    DigitsOptions::default().dir
}

fn tokens() -> Vec<f32> {
    let images = Images::read(&folder().join("test_images.json")).expect("the images");
    images.images.iter().flat_map(|image| image.tokens()).collect()
}

fn assert_reference(logits: &[f32]) {
    let reference: Reference =
        model_support::read_json(Path::new(&folder().join("reference.json"))).expect("the reference");
    let best = |row: &[f32]| (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b])).expect("classes");
    assert_eq!(logits.chunks(10).map(best).collect::<Vec<_>>(), reference.predictions);
    let first = reference.logits_first8.concat();
    assert_eq!(close("the first logits", &logits[..first.len()], &first, 1e-4), Ok(()));
}

/// The logits of images, in batches.
fn classify(engine: &mut Engine<Cuda>, tokens: &[f32], batch: usize) -> Vec<f32> {
    let stream = engine.stream().clone();
    let mut run = |images: &[f32]| {
        let seq_lens = vec![16; images.len() / IMAGE];
        let patches = HostTensor::new(images, [images.len() / 4, 4])?;
        let inputs = [("patches", Source::host::<f32, 2>(&patches))];
        let call = NodeCall { requests: &[], seq_lens: &seq_lens, inputs: &inputs, slot: 0 };
        let mut output = engine.node("digits")?.run("classify", &call)?.into_out();
        output.take::<f32, 2>("logits")?.to_vec(&stream)
    };
    tokens.chunks(batch * IMAGE).flat_map(|images| run(images).expect("a batch")).collect()
}

#[test]
fn digits_captured_and_eager_give_the_reference_to_the_same_bit() {
    let Some(session) = session("digits_captured_and_eager_give_the_reference_to_the_same_bit") else {
        return;
    };
    let registry = registry("digits");
    let mut engine = Engine::builder(open(None)).build(&registry).expect("an engine");
    let tokens = tokens();
    let alone = classify(&mut engine, &tokens, 1);
    assert_reference(&alone);
    for (images, batch) in [(12, 5), (40, 32)] {
        let got = classify(&mut engine, &tokens[..images * IMAGE], batch);
        assert_eq!(same("captured", &got, &alone[..10 * images]), Ok(()), "batches of {batch}");
    }
    let stats = engine.stats();
    let region = stats.iter().find(|s| s.name == "classify").expect("registered");
    assert!(region.failures.is_empty() && region.eager.is_empty(), "{:?}", region.eager);
    assert!(region.buckets.iter().any(|b| b.padded_rows > 0));

    engine.node("digits").expect("there").set_eager(true);
    for (images, batch) in [(9, 7), (40, 40)] {
        let got = classify(&mut engine, &tokens[..images * IMAGE], batch);
        assert_eq!(same("eager", &got, &alone[..10 * images]), Ok(()), "batches of {batch}");
    }
    drop(engine);
    assert!(session.live().is_zero(), "{:?}", session.live());
    assert!(session.faults().is_empty(), "{:?}", session.faults());
    assert!(graph_cuda::lost().is_empty());
}
