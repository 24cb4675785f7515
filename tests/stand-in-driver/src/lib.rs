//! A stand-in for the CUDA driver.
mod control;
mod driver;
mod shared;

pub use control::{
    CompileError, Compiler, Driver, Fired, KernelLibrary, LoadError, Session, compile_or_not_run, load,
    not_run,
};
pub use shared::Live;
