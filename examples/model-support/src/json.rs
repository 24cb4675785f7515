//! JSON files with errors that name them.

use std::{fs, path::Path};

use serde::de::DeserializeOwned;

use crate::ModelError;

/// Reads a JSON file.
pub fn read_json<T: DeserializeOwned>(file: &Path) -> Result<T, ModelError> {
    let text = fs::read(file).map_err(|cause| ModelError::Read { file: file.into(), cause })?;
    serde_json::from_slice(&text).map_err(|cause| ModelError::Json { file: file.into(), cause })
}
