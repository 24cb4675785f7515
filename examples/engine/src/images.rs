//! Image files, and images as the digits model takes them.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// Side of an image, in pixels.
const SIDE: usize = 8;
/// Side of a patch, in pixels.
const PATCH: usize = 2;
/// Tokens of an image.
pub(crate) const PATCHES: usize = (SIDE / PATCH) * (SIDE / PATCH);
/// Pixels of a patch.
pub(crate) const PIXELS: usize = PATCH * PATCH;

#[derive(Deserialize)]
struct File {
    images: Vec<Vec<i64>>,
}

/// Reads `{"images": [[64 integers from 0 to 16], ..]}`.
pub(crate) fn read(path: &Path) -> Result<Vec<Vec<i64>>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("image file {}", path.display()))?;
    let file: File = serde_json::from_str(&text).with_context(|| format!("image file {}", path.display()))?;
    for (i, image) in file.images.iter().enumerate() {
        if image.len() != SIDE * SIDE {
            bail!("image {i} of {} has {} pixels, must have {}", path.display(), image.len(), SIDE * SIDE);
        }
        if let Some(pixel) = image.iter().find(|p| !(0..=16).contains(*p)) {
            bail!("image {i} of {} has a pixel of {pixel}, must be 0 to 16", path.display());
        }
    }
    Ok(file.images)
}

/// Patches in row-major order, each in row-major order, scaled to 0..1.
pub(crate) fn patches(image: &[i64]) -> impl Iterator<Item = f32> + '_ {
    let per_side = SIDE / PATCH;
    (0..PATCHES).flat_map(move |patch| {
        let (top, left) = (patch / per_side * PATCH, patch % per_side * PATCH);
        (0..PIXELS).map(move |p| image[(top + p / PATCH) * SIDE + left + p % PATCH] as f32 / 16.0)
    })
}
