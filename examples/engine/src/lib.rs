//! The commands of the engine binary.

mod classify;
mod cli;
pub mod demo;
mod progress;
mod prompts;
mod record;
mod regions;
mod report;
pub mod scheduler;
mod serve;

use std::process::ExitCode;

use clap::Parser;
use cli::{Cli, Command};
use graph_host::Host;

/// Reads the command line and runs its command. Exit code 1 is an error, 2 a wrong command line.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        None => demo::run(&Host::new()),
        Some(Command::Regions(args)) => regions::run(args),
        Some(Command::Serve(args)) => serve::run(args),
        Some(Command::Classify(args)) => classify::run(args),
        Some(Command::Plan(plan)) => return plan.execute(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
