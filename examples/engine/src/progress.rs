//! Capture progress: a bar on a terminal, plain lines elsewhere. Always on standard error.

use std::io::IsTerminal;

use graph_core::CaptureProgress;
use indicatif::{ProgressBar, ProgressStyle};

/// What a builder's `progress` takes.
pub(crate) fn report() -> impl FnMut(CaptureProgress<'_>) {
    let bar = std::io::stderr().is_terminal().then(|| {
        let style = ProgressStyle::with_template("capturing {bar:30} {pos}/{len} {msg}");
        ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    });
    move |p| {
        let bucket = format!("{} (bs {}, tokens {})", p.owner, p.dims.bs, p.dims.tokens);
        match &bar {
            None => match p.failure {
                None => eprintln!("captured {bucket} [{}/{}]", p.done, p.total),
                Some(why) => eprintln!("FAILED   {bucket} [{}/{}]: {why}", p.done, p.total),
            },
            Some(bar) => {
                bar.set_length(p.total as u64);
                bar.set_position(p.done as u64);
                bar.set_message(bucket.clone());
                if let Some(why) = p.failure {
                    bar.println(format!("FAILED {bucket}: {why}"));
                }
                if p.done == p.total {
                    bar.finish_and_clear();
                }
            }
        }
    }
}
