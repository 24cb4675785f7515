//! ptxas: cubins, and what it says about their kernels.

use std::{
    error::Error,
    path::{Path, PathBuf},
    process::Command,
};

use graph_cuda::KernelSource;

use crate::nvrtc;

/// What one kernel uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) kernel: String,
    pub(crate) registers: u32,
    /// Bytes of shared memory.
    pub(crate) shared: u32,
    /// Bytes of the stack: arrays that are not in registers.
    pub(crate) stack: u32,
    /// Bytes of spill stores and loads.
    pub(crate) spilled: u32,
}

pub(crate) fn find(compilers: &Path) -> Result<PathBuf, Box<dyn Error>> {
    Ok(std::path::absolute(
        nvrtc::find(compilers, "ptxas").ok_or("no ptxas in the folder of the compilers")?,
    )?)
}

/// Assembles PTX to a cubin.
pub(crate) fn assemble(
    ptxas: &Path,
    work: &Path,
    source: &KernelSource,
    architecture: i32,
    ptx: &[u8],
) -> Result<Vec<Used>, Box<dyn Error>> {
    std::fs::create_dir_all(work)?;
    let input = work.join(format!("{}.sm_{architecture}.ptx", source.name));
    std::fs::write(&input, ptx)?;
    let output = Command::new(ptxas)
        .args(["--verbose", &format!("--gpu-name=sm_{architecture}"), "--output-file"])
        .arg(input.with_extension("cubin"))
        .arg(&input)
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(parse(&said)),
        false => Err(format!("ptxas refuses {} for sm_{architecture}:\n{said}", source.name).into()),
    }
}

/// Three lines a kernel: its name, its stack and spills, its registers and shared memory.
fn parse(said: &str) -> Vec<Used> {
    let mut all: Vec<Used> = Vec::new();
    for line in said.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            all.push(Used { kernel, registers: 0, shared: 0, stack: 0, spilled: 0 });
        } else if let Some(used) = all.last_mut() {
            used.registers = used.registers.max(before(line, " registers"));
            used.shared = used.shared.max(before(line, " bytes smem"));
            used.stack = used.stack.max(before(line, " bytes stack frame"));
            used.spilled += before(line, " bytes spill stores") + before(line, " bytes spill loads");
        }
    }
    all
}

/// The number before some words; 0 where they are not.
fn before(line: &str, words: &str) -> u32 {
    let digits =
        line.split_once(words).map(|(before, _)| before.rsplit([' ', ',']).next().unwrap_or_default());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_lines_are_a_kernel() {
        let said = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function 'one' for 'sm_80'\n\
            ptxas info    : Function properties for one\n\
            \x20   28 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n\
            ptxas info    : Used 40 registers, used 1 barriers, 28 bytes cumulative stack size, 6272 bytes smem\n\
            ptxas info    : Compiling entry function 'two' for 'sm_80'\n\
            ptxas info    : Function properties for two\n\
            \x20   0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
            ptxas info    : Used 8 registers, 400 bytes cmem[0]\n";
        let used = |kernel: &str, registers, shared, stack, spilled| Used {
            kernel: kernel.into(),
            registers,
            shared,
            stack,
            spilled,
        };
        assert_eq!(parse(said), [used("one", 40, 6272, 28, 12), used("two", 8, 0, 0, 0)]);
    }
}
