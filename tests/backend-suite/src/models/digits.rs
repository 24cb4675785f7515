//! The digits model.

use std::path::Path;

use digits_plugin::Images;
use graph_core::{Backend, Engine, HostTensor, NodeCall, Result, Source};
use serde::Deserialize;

use crate::close;

/// Values of one image.
pub const IMAGE: usize = 64;

#[derive(Deserialize)]
struct Reference {
    predictions: Vec<usize>,
    logits_first8: Vec<Vec<f32>>,
}

/// The tokens of the test images in a model's folder.
///
/// # Panics
/// They are not there.
pub fn tokens(dir: &Path) -> Vec<f32> {
    let images = Images::read(&dir.join("test_images.json")).expect("the images");
    images.images.iter().flat_map(|image| image.tokens()).collect()
}

/// Whether the logits of all test images are those of the reference.
///
/// # Errors
/// The first difference.
///
/// # Panics
/// The reference is not there.
pub fn check(dir: &Path, logits: &[f32]) -> std::result::Result<(), String> {
    check_within(dir, logits, 1e-4)
}

/// The same with another tolerance for the logits; the predictions are the same.
///
/// # Errors
/// The first difference.
///
/// # Panics
/// The reference is not there.
pub fn check_within(dir: &Path, logits: &[f32], tolerance: f32) -> std::result::Result<(), String> {
    let reference: Reference = model_support::read_json(&dir.join("reference.json")).expect("the reference");
    let best = |row: &[f32]| (0..row.len()).max_by(|a, b| row[*a].total_cmp(&row[*b]));
    let predictions: Vec<_> = logits.chunks(10).filter_map(best).collect();
    if predictions != reference.predictions {
        return Err("the predictions are not the reference's".into());
    }
    let first = reference.logits_first8.concat();
    close("the first logits", &logits[..first.len()], &first, tolerance)
}

/// The logits of one batch of images.
///
/// # Errors
/// As the step's.
pub fn run<B: Backend>(engine: &mut Engine<B>, images: &[f32]) -> Result<Vec<f32>> {
    let stream = engine.stream().clone();
    let seq_lens = vec![16; images.len() / IMAGE];
    let patches = HostTensor::new(images, [images.len() / 4, 4])?;
    let inputs = [("patches", Source::host::<f32, 2>(&patches))];
    let call = NodeCall { requests: &[], seq_lens: &seq_lens, inputs: &inputs, slot: 0 };
    let mut output = engine.node("digits")?.run("classify", &call)?.into_out();
    output.take::<f32, 2>("logits")?.to_vec(&stream)
}

/// The logits of images, in batches.
///
/// # Errors
/// As the steps'.
pub fn classify<B: Backend>(engine: &mut Engine<B>, tokens: &[f32], batch: usize) -> Result<Vec<f32>> {
    let batches = tokens.chunks(batch * IMAGE).map(|images| run(engine, images));
    Ok(batches.collect::<Result<Vec<_>>>()?.concat())
}
