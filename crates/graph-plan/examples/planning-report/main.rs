//! Writes `docs/planning.md`: what planned lists waste on the ten workloads of `tests/data`, and what else was tried.
//!
//! ```sh
//! cargo run --release -p graph-plan --example planning-report > docs/planning.md
//! ```

mod choice;
mod prefill;
mod split;
mod tried;

use std::path::PathBuf;

use graph_plan::{PlanError, Trace};

/// The largest decode batch: what the simulated servers allow.
const LARGEST: u32 = 256;

struct Workload {
    name: String,
    trace: Trace,
}

fn main() -> Result<(), PlanError> {
    let workloads = read()?;
    println!("{}", INTRODUCTION.trim());
    split::print(&workloads)?;
    choice::print(&workloads)?;
    tried::print(&workloads)?;
    prefill::print(&workloads)?;
    println!("{}", LIMITS.trim_end());
    Ok(())
}

fn read() -> Result<Vec<Workload>, PlanError> {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "data"].iter().collect();
    let names = [
        "azure_code_2023_b2048_hi",
        "azure_code_2023_b2048_lo",
        "azure_code_2023_b8192_hi",
        "azure_conv_2023_b2048_hi",
        "azure_conv_2023_b2048_lo",
        "azure_conv_2023_b2048_over",
        "azure_conv_2023_b8192_hi",
        "mooncake_synthetic_b2048_hi",
        "mooncake_synthetic_b2048_lo",
        "mooncake_synthetic_b8192_hi",
    ];
    let read = |name: &str| {
        Ok(Workload { name: name.to_owned(), trace: Trace::read(folder.join(format!("{name}.csv")))? })
    };
    names.into_iter().map(read).collect()
}

const INTRODUCTION: &str = "
# Planning bucket lists

<!-- Written by: cargo run --release -p graph-plan --example planning-report > docs/planning.md -->

Every figure here is printed by `cargo run --release -p graph-plan --example planning-report > docs/planning.md`, from the
ten workloads in `crates/graph-plan/tests/data` (see the README there: real arrivals and lengths, simulated batches).
Padding is padded rows per executed row, in percent. Nothing is eager unless a table says so.

## Method

- **One dimension is exact.** The best K sizes for a histogram come from dynamic programming over a lower envelope of lines,
  `O(K n log n)` for any cost per size; tests compare it with brute force and with another program's optima.
- **The past is not the future.** What changes most between two stretches of traffic is how many users there are, less what
  they send. So before fitting, half of every step (the *share*) is spread over the sizes it would have had at other loads,
  evenly on a logarithmic scale from one row to 1.5 times its size (the *growth*). In other words: a log-uniform prior that
  ends where traffic ends. The exact planner then fits the result.
- **Nothing is eager**: the largest batch a server forms (`--max`, 256 here) is always a size.
";

const LIMITS: &str = "
## What these figures do not say

- The ten workloads come from three sources, so they are not ten independent samples; the table that leaves out a whole
  source is the one to trust most.
- Batches are simulated with a constant step time. A real server slows down under load, which moves batch sizes.
- Rows are counted, not time: neither what a padded row costs on a GPU, nor what a graph costs in memory and at capture.
  `MeasuredTime` takes measured times; none were measured here.
- A share and a growth had to be picked while these files were in view. That the result hardly depends on them, in any
  table above, is the evidence that they were not fitted to them.
";
