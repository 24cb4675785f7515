//! Tests on the bundled model, in one program.

mod folders;
mod kernels;
mod reference;
