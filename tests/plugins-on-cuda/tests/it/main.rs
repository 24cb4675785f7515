//! The plugins on CUDA over the stand-in driver, in one program.

mod digits;
mod kernels;
mod llama;
