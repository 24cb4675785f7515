//! The plugins on CUDA over the stand-in driver, in one program.

mod bf16;
mod engine;
mod kernels;
