//! The models' references through an engine on CUDA.

pub mod digits;
pub mod llama;
