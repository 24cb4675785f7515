//! The bundled model and its reference.

use std::path::{Path, PathBuf};

use digits_plugin::Images;
use serde::Deserialize;

/// `reference.json`.
#[derive(Deserialize)]
pub(crate) struct Reference {
    pub(crate) predictions: Vec<usize>,
    pub(crate) logits_first8: Vec<Vec<f32>>,
    pub(crate) correct: usize,
}

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("models/digits")
}

pub(crate) fn images() -> Images {
    let images = Images::read(&folder().join("test_images.json")).expect("the images");
    assert_eq!(images.images.len(), 240);
    images
}

/// The images' tokens, one after the other.
pub(crate) fn tokens() -> Vec<f32> {
    images().images.iter().flat_map(|image| image.tokens()).collect()
}

/// Checks the logits of all 240 images.
pub(crate) fn assert_reference(logits: &[f32]) {
    assert_near_reference(logits, 1e-4);
}

/// Checks that every image is told apart as in the reference, by logits that are as near as that.
pub(crate) fn assert_near_reference(logits: &[f32], tolerance: f32) {
    let reference: Reference =
        model_support::read_json(&folder().join("reference.json")).expect("the reference");
    let predictions: Vec<usize> = logits.chunks(10).map(best).collect();
    assert_eq!(predictions, reference.predictions);
    let right = predictions.iter().zip(images().labels).filter(|(p, label)| **p == *label).count();
    assert_eq!(right, reference.correct);
    for (i, (got, want)) in logits.chunks(10).zip(&reference.logits_first8).enumerate() {
        let worst = got.iter().zip(want).map(|(g, w)| (g - w).abs()).fold(0.0, f32::max);
        assert!(worst <= tolerance, "image {i}: logits differ by {worst}");
    }
}

fn best(logits: &[f32]) -> usize {
    (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).expect("classes")
}
