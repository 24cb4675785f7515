//! The bundled model and its reference.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// One prompt of `reference.json`.
#[derive(Deserialize)]
pub(crate) struct Reference {
    pub(crate) prompt: String,
    pub(crate) new_tokens: usize,
    pub(crate) greedy: String,
    pub(crate) first_logits: Vec<f32>,
}

pub(crate) fn shakespeare() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("models/shakespeare")
}

pub(crate) fn references() -> Vec<Reference> {
    let references: Vec<Reference> =
        model_support::read_json(&shakespeare().join("reference.json")).expect("the reference");
    assert_eq!(references.len(), 5);
    references
}

pub(crate) fn argmax(logits: &[f32]) -> u32 {
    let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
    best.expect("a vocabulary") as u32
}

pub(crate) fn assert_close(got: &[f32], want: &[f32], tolerance: f32) {
    assert_eq!(got.len(), want.len());
    let worst = got.iter().zip(want).map(|(g, w)| (g - w).abs()).fold(0.0, f32::max);
    assert!(worst <= tolerance, "logits differ by {worst}");
}

/// The largest difference, and the root of the mean square of all.
pub(crate) fn differences(got: &[f32], want: &[f32]) -> (f32, f32) {
    assert_eq!(got.len(), want.len());
    let all = || got.iter().zip(want).map(|(got, want)| got - want);
    let squares: f32 = all().map(|d| d * d).sum();
    (
        all().fold(0.0, |worst, d| if d.abs() <= worst { worst } else { d.abs() }),
        (squares / got.len() as f32).sqrt(),
    )
}
