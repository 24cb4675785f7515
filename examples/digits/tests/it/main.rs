//! Tests on the bundled model, in one program.

mod classify;
mod files;
mod kernels;
mod reference;
