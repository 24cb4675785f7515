//! Plugin: a Llama-style decoder.
//!
//! Keys and values are in pages, which requests get as they grow. Decode is one captured forward over a batch of
//! requests, from their tokens to their next ones. Prefill has two ways ([`Prefill`]): piecewise, where the regions
//! [`Embed`], [`Qkv`] and [`Mlp`] (the latter two once per layer) are captured at token totals and [`LlamaNode`] runs
//! attention eagerly between them; or the region [`BlockLoop`], which has all layers with attention inside. All call
//! the same parts of [`LlamaModel`]. Link it with `use llama_plugin as _;`.
//!
//! Between the tokens and the logits it computes in `f32` or in bf16 ([`LlamaOptions::activations`]), keys and values
//! included. In bf16 the regions are named `embed_bf16`, `qkv_bf16`, `mlp_bf16` and `block_loop_bf16`; an engine has
//! those of one element. Matrices of weights whose file has bf16 stay so on CUDA with either.

graph_core::backends!(
    graph_host::Host,
    #[cfg(feature = "cuda")]
    graph_cuda::Cuda
);

mod config;
#[cfg(feature = "cuda")]
pub mod cuda;
mod forward;
mod host_ops;
pub mod kernels;
mod model;
mod node;
mod ops;
mod options;
mod prefill;
mod regions;
mod runners;
mod tokenizer;
mod weights;

pub use config::LlamaConfig;
pub use model::LlamaModel;
pub use model_support::{Activation, Activations, ModelError, Stored};
pub use node::{LlamaNode, WrongPrefill};
pub use ops::{LlamaOps, PagedRows};
pub use options::{LlamaOptions, OptionsError, Prefill};
pub use regions::{
    BlockLoop, BlockLoopArgs, BlockLoopInputs, BlockLoopOutputs, BlockLoopResults, Embed, EmbedArgs,
    EmbedInputs, EmbedOutputs, EmbedResults, Mlp, MlpArgs, MlpInputs, MlpOutputs, MlpResults, Qkv, QkvArgs,
    QkvInputs, QkvOutputs, QkvResults,
};
pub use tokenizer::{Tokenizer, TokenizerError};
pub use weights::{LayerWeights, Weights};
