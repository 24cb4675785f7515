//! The regions of prefill, in the order in which they run.

mod block_loop;
mod embed;
mod mlp;
mod qkv;

pub use block_loop::{BlockLoop, BlockLoopArgs, BlockLoopInputs, BlockLoopOutputs, BlockLoopResults};
pub use embed::{Embed, EmbedArgs, EmbedInputs, EmbedOutputs, EmbedResults};
pub use mlp::{Mlp, MlpArgs, MlpInputs, MlpOutputs, MlpResults};
pub use qkv::{Qkv, QkvArgs, QkvInputs, QkvOutputs, QkvResults};
