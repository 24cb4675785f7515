//! Plugin: a small vision transformer that tells handwritten digits apart.
//!
//! One batched region, [`Classify`], is the whole model: 16 tokens an image, captured at 1 to 32 images. The node
//! [`DigitsNode`] serves the walk `classify` with it. Link it with `use digits_plugin as _;`.
//!
//! Between the images and the logits it computes in `f32` or in bf16 ([`DigitsOptions::activations`]).

graph_core::backends!(
    graph_host::Host,
    #[cfg(feature = "cuda")]
    graph_cuda::Cuda
);

mod classify;
mod config;
#[cfg(feature = "cuda")]
mod cuda_ops;
mod host_ops;
mod images;
pub mod kernels;
mod model;
mod node;
mod ops;
mod weights;

pub use classify::{Classify, ClassifyArgs, ClassifyInputs, ClassifyOutputs, ClassifyResults};
pub use config::DigitsConfig;
#[cfg(feature = "cuda")]
pub use cuda_ops::DIGITS;
pub use images::{ImageError, Images, Pixels};
pub use model::{DigitsModel, DigitsOptions};
pub use model_support::{Activation, Activations, ModelError, Stored};
pub use node::DigitsNode;
pub use ops::DigitsOps;
pub use weights::{BlockWeights, Weights};

/// Tokens of an image: patches of 2x2 of its 8x8 pixels.
pub const TOKENS: usize = 16;
/// Values of a token: the pixels of a patch.
pub const PATCH: usize = 4;
