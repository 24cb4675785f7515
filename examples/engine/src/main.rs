//! An engine binary: it links plugins, lists what they registered, captures every bucket, and serves.

mod classify;
mod cli;
mod demo;
mod progress;
mod prompts;
mod record;
mod regions;
mod report;
mod scheduler;
mod serve;

use std::process::ExitCode;

use clap::Parser;
use cli::{Cli, Command};

// The plugins. Linking one is all it takes: its regions and nodes register themselves.
use digits_plugin as _;
use llama_plugin as _;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match &cli.command {
        None => demo::run(),
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
