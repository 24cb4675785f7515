//! Resources through the engine, on the host backend.

mod padding;
mod toy;
