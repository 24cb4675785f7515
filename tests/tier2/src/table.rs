//! The table of docs/kernels.md.

use std::fmt::Write as _;

use crate::ptxas::Used;

/// Sources in order, kernels in order, a column for each architecture.
pub(crate) fn markdown(
    version: &str,
    architectures: &[i32],
    cold: &[&str],
    uses: &[(&str, i32, Used)],
) -> String {
    let mut text = format!(
        "# Kernels\n\n\
        Written by `tests/tier2/run`: every kernel, compiled by NVRTC {version} and assembled by its ptxas. Nothing here \
        ran on a GPU.\n\n\
        Registers a thread / bytes of shared memory a block / bytes of spills. A stack frame is \
        beside it where there is one. The script fails on a spill, except in `{}`, which is not hot.\n\n\
        | source | kernel |",
        cold.join("`, `")
    );
    architectures.iter().for_each(|architecture| text += &format!(" sm_{architecture} |"));
    text += "\n|---|---|";
    architectures.iter().for_each(|_| text += "---|");
    text += "\n";
    let mut done: Vec<(&str, &str)> = Vec::new();
    for (source, _, used) in uses {
        if done.contains(&(source, &used.kernel)) {
            continue;
        }
        done.push((source, &used.kernel));
        let _ = write!(text, "| `{source}` | `{}` |", used.kernel);
        for architecture in architectures {
            let same = |(name, on, of): &&(&str, i32, Used)| {
                name == source && on == architecture && of.kernel == used.kernel
            };
            text += &uses.iter().find(same).map_or(" - |".into(), |(_, _, used)| cell(used));
        }
        text += "\n";
    }
    text
}

fn cell(used: &Used) -> String {
    let stack = match used.stack {
        0 => String::new(),
        bytes => format!(" (stack {bytes})"),
    };
    format!(" {} / {} / {}{stack} |", used.registers, used.shared, used.spilled)
}
