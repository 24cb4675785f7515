//! Plugin: a Llama-style decoder.

mod config;
pub mod kernels;
mod tokenizer;
mod weights;

pub use config::LlamaConfig;
pub use model_support::ModelError;
pub use tokenizer::{Tokenizer, TokenizerError};
pub use weights::{LayerWeights, Weights};
