//! Bucket lists from traffic, as a program of its own: the arguments of an engine's `plan` subcommand.

use std::process::ExitCode;

use clap::Parser;
use graph_plan::PlanCommand;

/// Computes a list of bucket sizes from the steps that a server recorded.
#[derive(Parser)]
#[command(version)]
struct Program {
    #[command(flatten)]
    plan: PlanCommand,
}

fn main() -> ExitCode {
    Program::parse().plan.execute()
}
