//! Compiles every kernel to PTX and to cubins, and writes down what each uses.
//!
//! `tests/tier2/run` installs the compilers and starts this with their folder and the file to write, or with `--check`,
//! the folder and the file to compare.

mod nvrtc;
mod ptxas;
mod table;

use std::{error::Error, path::Path, process::ExitCode};

use graph_cuda::KernelSource;
use nvrtc::Nvrtc;

/// Every source of the workspace.
const SOURCES: [&KernelSource; 7] = [
    &graph_cuda::PAD_SOURCE,
    &model_support::cuda::LINEAR,
    &model_support::cuda::ROWWISE,
    &llama_plugin::cuda::DECODER,
    &llama_plugin::cuda::PAGED,
    &llama_plugin::cuda::SAMPLE,
    &digits_plugin::DIGITS,
];

/// Kernels that may spill: `sample` runs once a step, and its spills are around divisions of `double`.
const COLD: [&str; 1] = ["sample"];

/// Compiled for, beside the newest that the compilers know.
const ARCHITECTURES: [i32; 2] = [80, 90];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (check, compilers, table) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--check", compilers, table] => (true, compilers, table),
        [compilers, table] => (false, compilers, table),
        _ => {
            eprintln!("usage: tier2 [--check] COMPILERS TABLE");
            return ExitCode::FAILURE;
        }
    };
    match run(Path::new(compilers), Path::new(table), check) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tier2: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether no kernel spills that must not, and the table, if it is not to be written, is there as it must be.
fn run(compilers: &Path, table: &Path, check: bool) -> Result<bool, Box<dyn Error>> {
    let nvrtc = Nvrtc::open(compilers)?;
    let ptxas = ptxas::find(compilers)?;
    let newest = nvrtc.architectures()?.into_iter().max().ok_or("NVRTC knows no architecture")?;
    let mut architectures = ARCHITECTURES.to_vec();
    architectures.extend((!ARCHITECTURES.contains(&newest)).then_some(newest));
    let mut uses = Vec::new();
    for source in SOURCES {
        for architecture in &architectures {
            let ptx = nvrtc.compile(source, *architecture)?;
            let of = ptxas::assemble(&ptxas, &compilers.join("work"), source, *architecture, &ptx)?;
            uses.extend(of.into_iter().map(|used| (source.name, *architecture, used)));
        }
    }
    for source in SOURCES {
        for kernel in source.kernels {
            let of =
                uses.iter().filter(|(name, _, used)| *name == source.name && used.kernel == kernel.name());
            if of.count() != architectures.len() {
                return Err(format!("ptxas said nothing about {} of {}", kernel.name(), source.name).into());
            }
        }
    }
    let text = table::markdown(&nvrtc.version()?, &architectures, &COLD, &uses);
    let current = match check {
        true => is_current(table, &text)?,
        false => {
            std::fs::write(table, &text)?;
            print!("{text}");
            true
        }
    };
    let spills: Vec<_> = uses
        .iter()
        .filter(|(_, _, used)| used.spilled > 0 && !COLD.contains(&used.kernel.as_str()))
        .collect();
    for (source, architecture, used) in &spills {
        eprintln!("{} of {source} spills {} bytes on sm_{architecture}", used.kernel, used.spilled);
    }
    Ok(current && spills.is_empty())
}

/// Whether the file has that text; says which lines it has not.
fn is_current(table: &Path, text: &str) -> std::io::Result<bool> {
    let written = std::fs::read_to_string(table)?;
    if written == text {
        return Ok(true);
    }
    eprintln!("{} is out of date, run tests/tier2/run:", table.display());
    let lines = |of: &str, other: &str, sign: &str| {
        let missing = of.lines().filter(|line| !other.lines().any(|known| known == *line));
        missing.for_each(|line| eprintln!("{sign}{line}"));
    };
    lines(&written, text, "-");
    lines(text, &written, "+");
    Ok(false)
}
