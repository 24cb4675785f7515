//! The commands of the engine binary.

mod classify;
mod cli;
pub mod demo;
mod device;
mod progress;
mod prompts;
mod record;
mod regions;
mod report;
pub mod scheduler;
mod serve;

use std::{ffi::OsString, io::Write, process::ExitCode};

use anyhow::Result;
use clap::Parser;
use cli::{Cli, Command};
use device::Device;
use graph_core::Backend;

/// Reads the command line and runs its command. Exit code 1 is an error, 2 a wrong command line.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let out = &mut std::io::stdout().lock();
    let done = match &cli.command {
        Some(Command::Plan(plan)) => return plan.execute(),
        Some(Command::Regions(args)) => regions::run(args, out),
        _ => cli.device.open().and_then(|device| match device {
            Device::Host(host) => on(&cli, &host, "host", out),
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => on(&cli, &cuda, &format!("cuda:{}", cuda.ordinal()), out),
        }),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command line, which begins with the program's name, on a device that is open: the run without a command,
/// `serve` or `classify`. What `--device` says does not matter. The command's output goes to `out`, where the device is
/// called `name`.
///
/// # Errors
/// A wrong command line; what the command reports.
pub fn run<B: Backend>(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    device: &B,
    name: &str,
    out: &mut impl Write,
) -> Result<()> {
    on(&Cli::try_parse_from(arguments)?, device, name, out)
}

fn on<B: Backend>(cli: &Cli, device: &B, name: &str, out: &mut impl Write) -> Result<()> {
    match &cli.command {
        None => demo::run(device, name, &demo::Inputs::bundled()?, out),
        Some(Command::Serve(args)) => serve::run(args, device, name, out),
        Some(Command::Classify(args)) => classify::run(args, device, name, out),
        Some(Command::Regions(args)) => regions::run(args, out),
        Some(Command::Plan(_)) => anyhow::bail!("`plan` runs on no device"),
    }
}
