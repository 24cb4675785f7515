//! The models, inside the program.

use std::path::PathBuf;

use anyhow::Result;
use tempfile::TempDir;

macro_rules! files {
    ($folder:literal: $($name:literal),*) => {
        &[$(($name, include_bytes!(concat!("../../", $folder, "/", $name)))),*]
    };
}

const LLAMA: &[(&str, &[u8])] =
    files!("llama/models/shakespeare": "config.json", "model.safetensors", "reference.json");
const DIGITS: &[(&str, &[u8])] = files!(
    "digits/models/digits": "config.json", "model.safetensors", "reference.json", "test_images.json"
);

/// The models' folders, gone with this.
pub(crate) struct Bundle {
    _folder: TempDir,
    pub(crate) llama: PathBuf,
    pub(crate) digits: PathBuf,
}

impl Bundle {
    pub(crate) fn unpack() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let unpack = |name: &str, files: &[(&str, &[u8])]| -> Result<PathBuf> {
            let to = folder.path().join(name);
            std::fs::create_dir(&to)?;
            files.iter().try_for_each(|(name, bytes)| std::fs::write(to.join(name), bytes))?;
            Ok(to)
        };
        let (llama, digits) = (unpack("llama", LLAMA)?, unpack("digits", DIGITS)?);
        Ok(Bundle { _folder: folder, llama, digits })
    }
}
