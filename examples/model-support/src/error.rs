//! What can be wrong with a model's folder: each message names the file, what it has and what it must have.

use std::path::PathBuf;

use safetensors::Dtype;

use crate::Dim;

/// A folder that holds no usable model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file that is not there, or cannot be read.
    #[error("{file}: cannot read it: {cause}", file = file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system says.
        cause: std::io::Error,
    },
    /// JSON that does not parse, or lacks a field.
    #[error("{file}: not the expected JSON: {cause}", file = file.display())]
    Json {
        /// The file.
        file: PathBuf,
        /// What is wrong, and where.
        cause: serde_json::Error,
    },
    /// A weights file that ends too early.
    #[error("{file}: truncated: it has {got} byte(s), its header announces {must}", file = file.display())]
    Truncated {
        /// The file.
        file: PathBuf,
        /// Its length.
        got: u64,
        /// The length by its header.
        must: u64,
    },
    /// A weights file that is not safetensors.
    #[error("{file}: not a safetensors file: {cause}", file = file.display())]
    NotSafetensors {
        /// The file.
        file: PathBuf,
        /// Why not.
        cause: safetensors::SafeTensorError,
    },
    /// A tensor that no file has.
    #[error("{file}: tensor `{tensor}` is missing, must be {must}", file = file.display(), must = shape(must))]
    MissingTensor {
        /// The weights file, or the index.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// The shape that the configuration asks for.
        must: Vec<Dim>,
    },
    /// A tensor of an element that is not read.
    #[error("{file}: tensor `{tensor}` is {got}, must be F32, F16 or BF16", file = file.display())]
    WrongDtype {
        /// The weights file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its element.
        got: Dtype,
    },
    /// A tensor of another shape than the configuration asks for.
    #[error(
        "{file}: tensor `{tensor}` is {got:?}, must be {must} by config.json",
        file = file.display(), must = shape(must)
    )]
    WrongShape {
        /// The weights file.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its shape.
        got: Vec<usize>,
        /// The shape that the configuration asks for.
        must: Vec<Dim>,
    },
    /// An index that names a file outside its folder.
    #[error("{file}: tensor `{tensor}` is in `{got}`, must be the name of a file beside the index", file = file.display())]
    WrongShard {
        /// The index.
        file: PathBuf,
        /// The tensor.
        tensor: String,
        /// The file that it names.
        got: String,
    },
    /// A field of the configuration whose value makes no sense.
    #[error("{file}: `{field}` is {got}, must be {must}", file = file.display())]
    Field {
        /// The configuration.
        file: PathBuf,
        /// The field.
        field: &'static str,
        /// Its value.
        got: String,
        /// What it must be.
        must: String,
    },
    /// A model that is valid and that this plugin does not compute.
    #[error("{file}: {what} `{got}` is not supported, only {must}", file = file.display())]
    Unsupported {
        /// The configuration.
        file: PathBuf,
        /// What is not supported.
        what: &'static str,
        /// What it asks for.
        got: String,
        /// What is supported.
        must: &'static str,
    },
    /// A configuration that the weights contradict in another way than by a shape.
    #[error("{file}: the weights have `{tensor}`, but config.json says that {says}", file = file.display())]
    Contradiction {
        /// The weights file.
        file: PathBuf,
        /// The tensor that should not be there.
        tensor: String,
        /// What the configuration says.
        says: String,
    },
}

/// `[hidden_size 128, vocab_size 256]`.
fn shape(dims: &[Dim]) -> String {
    format!("[{}]", dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", "))
}
