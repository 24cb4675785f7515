//! The sources of all kernels as files, and the sources with one number changed.

use graph_cuda::KernelSource;

use super::literal::{Literal, changed, literals};
use crate::CASES;

/// A `.cu` or `.cuh` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

/// One number of a file, changed.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) file: File,
    pub(crate) literal: Literal,
}

/// Every source that has a case, once.
pub(crate) fn sources() -> Vec<&'static KernelSource> {
    let mut sources: Vec<&'static KernelSource> = Vec::new();
    for case in CASES.iter().copied().flatten() {
        if !sources.iter().any(|known| std::ptr::eq(*known, case.source)) {
            sources.push(case.source);
        }
    }
    sources
}

/// Every file of them, once.
pub(crate) fn files() -> Vec<File> {
    let mut files: Vec<File> = Vec::new();
    for source in sources() {
        let headers = source.headers.iter().map(|(name, text)| File { name, text });
        let own = File { name: source.name, text: source.text };
        for file in headers.chain([own]) {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    files
}

impl File {
    /// Every number in it.
    pub(crate) fn changes(self) -> Vec<Change> {
        literals(self.text).into_iter().map(|literal| Change { file: self, literal }).collect()
    }

    /// A line of it, from 1.
    pub(crate) fn line(self, line: usize) -> &'static str {
        self.text.lines().nth(line - 1).unwrap_or_default()
    }
}

impl Change {
    /// The number as it is.
    pub(crate) fn number(&self) -> &'static str {
        &self.file.text[self.literal.at.clone()]
    }

    /// The text with another number.
    fn text(&self) -> String {
        let mut text = self.file.text.to_owned();
        text.replace_range(self.literal.at.clone(), &changed(self.number()));
        text
    }

    /// A source's text with it; `None` for one that does not contain the file.
    pub(crate) fn expanded(&self, source: &KernelSource) -> Option<String> {
        // A process tries one change, so what it leaks is one text.
        let text: &'static str = self.text().leak();
        let other = |name: &str, same: &'static str| match name == self.file.name && same == self.file.text {
            true => text,
            false => same,
        };
        let headers: Vec<_> = source.headers.iter().map(|(name, same)| (*name, other(name, same))).collect();
        let edited =
            KernelSource { text: other(source.name, source.text), headers: headers.leak(), ..*source };
        let expanded = edited.expanded();
        (expanded != source.expanded()).then_some(expanded)
    }
}
