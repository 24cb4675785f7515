//! What the example plugins share: folders of safetensors, and kernels on slices for the CPU.
//!
//! A plugin author needs none of this to use the framework; it is here so that the two plugins show their regions and
//! not twice the same loader.

mod activation;
#[cfg(feature = "cuda")]
pub mod cuda;
mod error;
mod files;
mod json;
pub mod kernels;
mod safetensors_file;
mod stored;

pub use activation::{Activation, Activations};
pub use error::ModelError;
pub use files::TensorFiles;
pub use json::read_json;
pub use safetensors_file::Dim;
pub use stored::Stored;
