//! Tests on the bundled model, in one program.

mod bf16;
mod engine;
mod folders;
mod kernels;
mod padding;
mod reference;
mod replay;
mod serving;
