//! The plugins' kernels on CUDA over the stand-in driver, in one program.

mod kernels;
