//! Tests on the bundled model, in one program.

mod bf16;
mod buckets;
mod by_hand;
mod classify;
mod files;
mod kernels;
mod reference;
