//! Checks and times everything on a GPU, in one program with its models inside: every kernel, every case of the backends'
//! suite, which has both models' references, and steps in every bucket.
//!
//! `gpu-suite --out FILE` runs on the first CUDA device, and needs its driver and NVRTC. `gpu-suite --stand-in` runs the
//! same over the stand-in driver, for trying this program out: then nothing that it prints is about a GPU, and its output
//! says so.

mod bundle;
mod checks;
mod raw;
mod report;
mod timings;

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use graph_cuda::Cuda;

use crate::{bundle::Bundle, report::Report};

/// Checks every kernel and the backends' suite on a GPU, and times eager execution against replay.
#[derive(Parser)]
struct Cli {
    /// Run over the stand-in driver: no figure is of a GPU then.
    #[arg(long)]
    stand_in: bool,
    /// Write the report to this file, as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Runs of each timing; 200, or 5 over the stand-in driver, if not given.
    #[arg(long)]
    rounds: Option<usize>,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let session = match cli.stand_in {
        true => Some(stand_in_driver::load().context("the stand-in driver")?.session()),
        false => None,
    };
    let rounds = cli.rounds.unwrap_or(if cli.stand_in { 5 } else { 200 }).max(1);
    let report = suite(cli.stand_in, rounds)?;
    if let Some(path) = &cli.out {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    drop(session);
    match report.failed() {
        0 => Ok(()),
        failed => bail!("{failed} of {} checks failed", report.checks.len()),
    }
}

fn suite(stand_in: bool, rounds: usize) -> Result<Report> {
    let open = match stand_in {
        true => backend_suite::stand_in::open,
        false => || Cuda::new(0),
    };
    let device = open()?;
    let mut report = Report::new(&device, stand_in)?;
    print!("{}", report.head());
    let bundle = Bundle::unpack()?;
    checks::kernels(&device, &mut report);
    // A case that ends its device's context must not end the next one's.
    drop(device);
    checks::suite(open, &bundle, &mut report);
    let device = open()?;
    report.launch = Some(raw::launch(&device, rounds)?);
    timings::three_inputs(&device, rounds, &mut report)?;
    timings::digits(&device, &bundle, rounds, &mut report)?;
    timings::llama(&device, &bundle, rounds, &mut report)?;
    print!("{}", report.tail());
    Ok(report)
}
