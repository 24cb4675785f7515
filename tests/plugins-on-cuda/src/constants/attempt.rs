//! One change, tried: in a process of its own, which may crash or never end.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    process::{Child, Command, ExitCode, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use graph_cuda::{Cuda, CudaOptions, KernelSource};
use stand_in_driver::Compiler;

use super::source::Change;
use crate::{CASES, Case, Rig};

/// A change that takes longer has made a loop endless, or nearly.
const LIMIT: Duration = Duration::from_secs(180);
/// Between two looks at a process.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);
/// The exit codes of a process that tried a change; any other is a crash.
const NOTICED: u8 = 10;
const UNNOTICED: u8 = 11;

/// Whether a change is noticed, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Noticed(String),
    Unnoticed,
}

/// A process that tries one change.
pub(crate) struct Attempt {
    child: Child,
    since: Instant,
}

impl Attempt {
    /// Starts this program again, which calls [`try_here`].
    pub(crate) fn start(arguments: &[String]) -> std::io::Result<Self> {
        let mut program = Command::new(std::env::current_exe()?);
        let child = program.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(Attempt { child: child.spawn()?, since: Instant::now() })
    }

    /// What becomes of it.
    pub(crate) fn wait(mut self) -> std::io::Result<Outcome> {
        loop {
            if let Some(outcome) = self.poll()? {
                return Ok(outcome);
            }
            sleep(PAUSE);
        }
    }

    /// What became of it, if it has ended or must.
    pub(crate) fn poll(&mut self) -> std::io::Result<Option<Outcome>> {
        let Some(status) = self.child.try_wait()? else {
            if self.since.elapsed() < LIMIT {
                return Ok(None);
            }
            self.child.kill()?;
            self.child.wait()?;
            return Ok(Some(Outcome::Noticed("it does not end".into())));
        };
        let mut said = String::new();
        if let Some(out) = &mut self.child.stdout {
            std::io::Read::read_to_string(out, &mut said)?;
        }
        Ok(Some(match status.code() {
            Some(code) if code == i32::from(UNNOTICED) => Outcome::Unnoticed,
            Some(code) if code == i32::from(NOTICED) => Outcome::Noticed(said.trim().into()),
            _ => Outcome::Noticed(format!("the process ends with {status}")),
        }))
    }
}

/// Compiles the change and runs the cases of its kernels, or all cases without a change; the first line of the output
/// says what noticed it.
pub(crate) fn try_here(change: Option<&Change>) -> ExitCode {
    match notice(change) {
        Some(how) => {
            println!("{}", how.lines().next().unwrap_or_default());
            ExitCode::from(NOTICED)
        }
        None => ExitCode::from(UNNOTICED),
    }
}

fn notice(change: Option<&Change>) -> Option<String> {
    let Some(session) = crate::session("the sweep of constants") else {
        return Some("no C++ compiler".into());
    };
    let touched = |case: &&Case| change.is_none_or(|change| change.expanded(case.source).is_some());
    let cases: Vec<&Case> = CASES.iter().copied().flatten().filter(touched).collect();
    [false, true].into_iter().find_map(|reversed| {
        session.set_reversed_threads(reversed);
        cases.iter().find_map(|case| {
            let ran = catch_unwind(AssertUnwindSafe(|| run(change, case)));
            let fault = || session.faults().pop().map_or(Ok(()), Err);
            let said = match ran {
                Ok(checked) => checked.and_then(|()| fault()).err()?,
                Err(_) => fault().err().unwrap_or_else(|| "a panic".into()),
            };
            Some(format!("{}: {said}", case.kernel))
        })
    })
}

fn run(change: Option<&Change>, case: &Case) -> Result<(), String> {
    let refused = std::sync::Arc::new(std::sync::Mutex::new(None));
    let (edit, why) = (change.cloned(), refused.clone());
    let image = move |source: &KernelSource| {
        let compiler = Compiler::find()?;
        let compile = |text: &str| compiler.compile_text(text, source.name, Path::new("."));
        let Some(text) = edit.as_ref().and_then(|edit| edit.expanded(source)) else {
            return compile(&source.expanded()).ok().map(|library| library.image().into_bytes());
        };
        match compile(&text) {
            Ok(library) => Some(library.image().into_bytes()),
            Err(error) => {
                *why.lock().ok()? = Some(error.to_string());
                Some(Vec::new())
            }
        }
    };
    let device = Cuda::with_options(0, CudaOptions::default().images(image).keep_memory(0));
    let rig = device.and_then(|device| Rig::on(device, case.source));
    if refused.lock().is_ok_and(|why| why.is_some()) {
        return Err("it does not compile".into());
    }
    (case.check)(&rig.map_err(|error| error.to_string())?)
}
