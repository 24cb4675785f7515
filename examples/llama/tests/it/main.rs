//! Tests on the bundled model, in one program.

mod engine;
mod folders;
mod kernels;
mod padding;
mod reference;
mod replay;
mod serving;
