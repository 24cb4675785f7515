//! The control side: what a test links to find, load and steer the driver, and to compile kernels for it.
mod find;
mod kernels;
mod load;
mod session;
mod steer;
mod translate;

pub use kernels::{CompileError, Compiler, KernelLibrary, compile_or_not_run, not_run};
pub use load::{Driver, LoadError, load};
pub use session::Session;
pub use steer::Fired;
