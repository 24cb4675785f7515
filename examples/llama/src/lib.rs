//! Plugin: a Llama-style decoder.
//!
//! Prefill is piecewise: the regions [`Embed`], [`Qkv`] and [`Mlp`] (the latter two once per layer) are captured at token
//! totals, and [`LlamaNode`] runs attention eagerly between them. Decode is one captured forward over a batch of
//! requests. Both call the same parts of [`LlamaModel`]. Link it with `use llama_plugin as _;`.

graph_core::backends!(graph_host::Host);

mod config;
mod forward;
mod host_ops;
pub mod kernels;
mod model;
mod node;
mod ops;
mod regions;
mod tokenizer;
mod weights;

pub use config::LlamaConfig;
pub use model::{LlamaModel, LlamaOptions, OptionsError};
pub use model_support::ModelError;
pub use node::LlamaNode;
pub use ops::{KvAt, LlamaOps};
pub use regions::{
    Embed, EmbedArgs, EmbedInputs, EmbedOutputs, EmbedResults, Mlp, MlpArgs, MlpInputs, MlpOutputs,
    MlpResults, Qkv, QkvArgs, QkvInputs, QkvOutputs, QkvResults,
};
pub use tokenizer::{Tokenizer, TokenizerError};
pub use weights::{LayerWeights, Weights};
