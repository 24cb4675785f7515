//! `--record`: the sizes of every step, for `engine plan`.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use graph_plan::Step;

/// A file of JSON lines, one per step.
pub(crate) struct Record {
    path: PathBuf,
    out: BufWriter<File>,
}

impl Record {
    pub(crate) fn create(path: &Path) -> Result<Self> {
        let out = File::create(path).with_context(|| format!("record file {}", path.display()))?;
        Ok(Record { path: path.into(), out: BufWriter::new(out) })
    }

    pub(crate) fn write(&mut self, step: &Step) -> Result<()> {
        let line = serde_json::to_string(step)?;
        writeln!(self.out, "{line}").with_context(|| format!("record file {}", self.path.display()))
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        self.out.flush().with_context(|| format!("record file {}", self.path.display()))
    }
}
