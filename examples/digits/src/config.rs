//! `config.json`: sizes, checked before any weight is read.

use std::path::Path;

use model_support::{ModelError, read_json};
use serde::Deserialize;

/// The sizes of a model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct DigitsConfig {
    /// Width of the hidden state.
    #[serde(rename = "hidden_size")]
    pub hidden: usize,
    /// Blocks.
    #[serde(rename = "num_layers")]
    pub layers: usize,
    /// Heads of attention; their widths make up the hidden state.
    #[serde(rename = "num_heads")]
    pub heads: usize,
    /// Width of the MLP.
    #[serde(rename = "intermediate_size")]
    pub intermediate: usize,
    /// Classes.
    #[serde(rename = "num_classes")]
    pub classes: usize,
    /// Of every norm.
    pub rms_norm_eps: f32,
    patch_size: usize,
    image_size: usize,
}

impl DigitsConfig {
    /// Reads and checks the `config.json` of a folder.
    pub fn from_dir(dir: &Path) -> Result<Self, ModelError> {
        let file = dir.join("config.json");
        let config: DigitsConfig = read_json(&file)?;
        let wrong = |field, got: String, must: String| {
            let file = file.clone();
            Err(ModelError::Field { file, field, got, must })
        };
        for (field, got) in [
            ("hidden_size", config.hidden),
            ("num_layers", config.layers),
            ("num_heads", config.heads),
            ("intermediate_size", config.intermediate),
            ("num_classes", config.classes),
        ] {
            if got == 0 {
                return wrong(field, "0".into(), "1 or more".into());
            }
        }
        if !config.hidden.is_multiple_of(config.heads) {
            let must = format!("a multiple of num_heads ({})", config.heads);
            return wrong("hidden_size", config.hidden.to_string(), must);
        }
        if !(config.rms_norm_eps.is_finite() && config.rms_norm_eps > 0.0) {
            return wrong("rms_norm_eps", config.rms_norm_eps.to_string(), "a positive number".into());
        }
        for (what, got, must) in
            [("image_size", config.image_size, "8"), ("patch_size", config.patch_size, "2")]
        {
            if got.to_string() != must {
                return Err(ModelError::Unsupported { file, what, got: got.to_string(), must });
            }
        }
        Ok(config)
    }
}
