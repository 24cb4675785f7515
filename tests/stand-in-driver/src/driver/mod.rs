//! The driver side: what the cdylib exports. Nothing in here is called from Rust; cudarc comes in through
//! `api`, the tests through `control_symbols`.
mod abi;
mod api;
mod capture;
mod codes;
mod context;
mod control_symbols;
mod event;
mod graph;
mod image;
mod kernels;
mod memory;
mod module;
mod op;
mod probe;
mod raw;
mod state;
mod stream;

pub(crate) use image::HEADER as IMAGE_HEADER;
