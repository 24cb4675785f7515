//! The regions of prefill, in the order in which they run.

mod embed;
mod mlp;
mod qkv;

pub use embed::{Embed, EmbedArgs, EmbedInputs, EmbedOutputs, EmbedResults};
pub use mlp::{Mlp, MlpArgs, MlpInputs, MlpOutputs, MlpResults};
pub use qkv::{Qkv, QkvArgs, QkvInputs, QkvOutputs, QkvResults};
