//! What the suite found, as text and as JSON.

use std::{fmt::Write as _, time::Duration};

use anyhow::Result;
use graph_cuda::{Cuda, cudarc::driver::CudaContext};
use serde::Serialize;

/// Everything.
#[derive(Serialize)]
pub(crate) struct Report {
    /// The driver's version, or "stand-in", where nothing is about a GPU.
    pub(crate) driver: String,
    /// The newest CUDA version that the driver supports.
    pub(crate) cuda: String,
    pub(crate) card: String,
    pub(crate) compute_capability: String,
    pub(crate) checks: Vec<Check>,
    pub(crate) timings: Vec<Timing>,
    /// Of the graph of a toy region's operations.
    pub(crate) launch: Option<Launch>,
}

/// Host time of one launch of one graph, in microseconds.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Launch {
    /// `cuGraphLaunch`, called as it is.
    pub(crate) driver: Spread,
    /// The backend's launch, which ends in that call.
    pub(crate) backend: Spread,
}

/// One check.
#[derive(Serialize)]
pub(crate) struct Check {
    pub(crate) name: String,
    /// Why it failed.
    pub(crate) error: Option<String>,
}

/// One step of a node in one bucket, in microseconds.
#[derive(Serialize)]
pub(crate) struct Timing {
    pub(crate) what: &'static str,
    pub(crate) rows: usize,
    /// Until the call returns.
    pub(crate) eager_host: Spread,
    pub(crate) replay_host: Spread,
    /// Until the device is done.
    pub(crate) eager: Spread,
    pub(crate) replay: Spread,
}

/// The median and the tenths at either end, in microseconds.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) p10: f64,
    pub(crate) p90: f64,
}

/// Of times, one at the least.
pub(crate) fn spread(times: &mut [Duration]) -> Spread {
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part).round() as usize].as_secs_f64() * 1e6;
    Spread { median: at(0.5), p10: at(0.1), p90: at(0.9) }
}

impl Check {
    pub(crate) fn new(name: String, outcome: Result<(), String>) -> Self {
        Check { name, error: outcome.err() }
    }
}

impl Report {
    pub(crate) fn new(device: &Cuda, stand_in: bool) -> Result<Self> {
        let version = device.driver_version();
        let cuda = format!("{}.{}", version / 1000, version % 1000 / 10);
        let driver = match stand_in {
            true => "stand-in".into(),
            false => std::fs::read_to_string("/proc/driver/nvidia/version")
                .map_or(format!("of CUDA {cuda}"), |text| text.lines().next().unwrap_or_default().to_owned()),
        };
        let (major, minor) = device.compute_capability()?;
        Ok(Report {
            driver,
            cuda,
            card: CudaContext::new(device.ordinal())?.name()?,
            compute_capability: format!("{major}.{minor}"),
            checks: Vec::new(),
            timings: Vec::new(),
            launch: None,
        })
    }

    pub(crate) fn failed(&self) -> usize {
        self.checks.iter().filter(|check| check.error.is_some()).count()
    }

    /// Notes a check, and prints it.
    pub(crate) fn check(&mut self, check: Check) {
        match &check.error {
            None => println!("ok      {}", check.name),
            Some(error) => println!("FAILED  {}: {error}", check.name),
        }
        self.checks.push(check);
    }

    pub(crate) fn head(&self) -> String {
        let note = match self.driver == "stand-in" {
            true => "STAND-IN DRIVER: nothing below is a result of a GPU\n",
            false => "",
        };
        format!(
            "{note}card:   {} (compute capability {})\ndriver: {}\nCUDA:   {}\n\n",
            self.card, self.compute_capability, self.driver, self.cuda
        )
    }

    pub(crate) fn tail(&self) -> String {
        let mut text = "\nmedian microseconds (p10 to p90)\n".to_owned();
        for timing in &self.timings {
            let _ = writeln!(
                text,
                "{} of {}: eager {}, replay {}; host: eager {}, replay {}",
                timing.what,
                timing.rows,
                show(timing.eager),
                show(timing.replay),
                show(timing.eager_host),
                show(timing.replay_host)
            );
        }
        if let Some(Launch { driver, backend }) = self.launch {
            let _ = writeln!(
                text,
                "one graph of toy.three's operations, host: cuGraphLaunch {}, the backend's launch {}",
                show(driver),
                show(backend)
            );
        }
        let _ = writeln!(text, "{} of {} checks failed", self.failed(), self.checks.len());
        if self.driver == "stand-in" {
            text += "STAND-IN DRIVER: nothing above is a result of a GPU\n";
        }
        text
    }
}

fn show(spread: Spread) -> String {
    format!("{:.1} ({:.1} to {:.1})", spread.median, spread.p10, spread.p90)
}
