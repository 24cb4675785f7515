//! Every kernel against the kernel on slices that defines it, and every case of the backends' suite.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook},
    sync::Mutex,
};

use backend_suite::{Bench, cases};
use graph_core::Result;
use graph_cuda::{Cuda, lost};
use plugins_on_cuda::{CASES, Rig};

use crate::{
    bundle::Bundle,
    report::{Check, Report},
};

/// Each kernel.
pub(crate) fn kernels(device: &Cuda, report: &mut Report) {
    for case in CASES.iter().copied().flatten() {
        let rig = Rig::on(device.clone(), case.source).map_err(|error| error.to_string());
        let outcome = rig.and_then(|rig| (case.check)(&rig));
        report.check(Check::new(format!("kernel {} of {}", case.kernel, case.source.name), outcome));
    }
}

/// Each case of the suite, on devices of its own. A panic is its error.
pub(crate) fn suite(open: fn() -> Result<Cuda>, bundle: &Bundle, report: &mut Report) {
    let mut bench = Bench::new(open);
    (bench.llama, bench.digits) = (bundle.llama.clone(), bundle.digits.clone());
    // Cases panic on purpose, too: what a panic says is told where it is a case's error, and nowhere else.
    static LAST: Mutex<String> = Mutex::new(String::new());
    let last = || LAST.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let hook = take_hook();
    set_hook(Box::new(move |panic| *last() = panic.to_string()));
    for case in cases::<Cuda>() {
        let outcome = match catch_unwind(AssertUnwindSafe(|| (case.run)(&bench))) {
            Ok(outcome) => outcome.map_err(|error| error.to_string()),
            Err(_) => Err(last().clone()),
        };
        let left = || match lost() {
            lost if lost.is_empty() => Ok(()),
            lost => Err(format!("not freed: {lost:?}")),
        };
        report.check(Check::new(format!("{}::{}", case.group, case.name), outcome.and_then(|()| left())));
    }
    set_hook(hook);
}
