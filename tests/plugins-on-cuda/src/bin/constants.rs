//! Changes every number in the kernels' sources, one at a time, and says which changes the kernels' cases notice.
//!
//! ```text
//! cargo run -p plugins-on-cuda --bin constants [FILE..]
//! ```
//!
//! Each change is compiled and run over the stand-in driver, in a process of its own: a difference, an error of the
//! driver, a crash, a source that does not compile and a loop that does not end are noticed. The cases are those of
//! `cargo test`, so a change that is noticed here fails a test there. Numbers that cannot change a result are listed in
//! `src/constants/listed.rs`, each with the reason. Exit code 1: a change that nothing notices and that is not listed, or
//! a line of the list that names no number.
//!
//! It is no part of `cargo test`: it takes some seconds for each of a few hundred numbers. It needs a C++ compiler.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    plugins_on_cuda::constants::sweep(&arguments).unwrap_or_else(|error| {
        eprintln!("constants: {error}");
        ExitCode::from(2)
    })
}
