//! Prompts from the command line and from files.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// Those of the command line, then those of the file.
pub(crate) fn collect(prompts: &[String], file: Option<&Path>) -> Result<Vec<String>> {
    let mut all = prompts.to_vec();
    if let Some(path) = file {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("prompt file {}", path.display()))?;
        let more: Vec<String> = serde_json::from_str(&text)
            .with_context(|| format!("prompt file {} must be a JSON array of strings", path.display()))?;
        all.extend(more);
    }
    if all.is_empty() {
        bail!("no prompt: give PROMPT arguments or --prompts FILE");
    }
    Ok(all)
}

/// Prompts of many lengths, for the run without a command.
pub(crate) const DEMO: [&str; 10] = [
    "ROMEO:\n",
    "To be, or not to be",
    "KING RICHARD III:\nNow is the winter of our discontent\n",
    "O",
    "First Citizen:\nBefore we proceed any further, hear me speak.\n\nAll:\n",
    "The ",
    "JULIET:\nO Romeo, Romeo! wherefore art thou ",
    "What say you",
    "My lord, ",
    "HENRY BOLINGBROKE:\nThe noble duke hath sworn his coming is but for his own; and for the right of that\n",
];
