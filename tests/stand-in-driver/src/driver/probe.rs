//! Call counts per function, the number of every call, and failures on demand.
use super::abi::to_c;
use super::codes::{Code, Result};
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A driver function: what counts its calls, and where it is.
pub(crate) struct Function {
    pub(crate) probe: &'static Probe,
    pub(crate) address: fn() -> usize,
}

pub(crate) struct Probe {
    pub(crate) name: &'static str,
    calls: AtomicU64,
}

/// A failure that was ordered and, once it happened, where.
#[derive(Clone)]
struct Plan {
    /// The function, or any.
    function: Option<String>,
    /// How many matching calls may still pass.
    pass: u64,
    code: c_int,
    fired: Option<(&'static str, u64)>,
}

static CALLS: AtomicU64 = AtomicU64::new(0);
static ARMED: AtomicBool = AtomicBool::new(false);
static PLANS: Mutex<Vec<Plan>> = Mutex::new(Vec::new());

impl Probe {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, calls: AtomicU64::new(0) }
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// Counts the call, then fails it if that was ordered, else runs it.
    pub(crate) fn call(&'static self, body: impl FnOnce() -> Result) -> c_int {
        self.calls.fetch_add(1, Relaxed);
        let number = CALLS.fetch_add(1, Relaxed) + 1;
        if ARMED.load(Relaxed)
            && let Some(code) = ordered_failure(self.name, number)
        {
            super::state::note_injected(self.name, code);
            return code.0;
        }
        to_c(body())
    }
}

/// The failure that is due at this call. Each plan fires once.
fn ordered_failure(name: &'static str, number: u64) -> Option<Code> {
    let mut plans = PLANS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut due = None;
    for plan in plans.iter_mut().filter(|plan| plan.fired.is_none()) {
        if plan.function.as_deref().is_some_and(|function| function != name) {
            continue;
        }
        if plan.pass > 0 {
            plan.pass -= 1;
        } else if due.is_none() {
            plan.fired = Some((name, number));
            due = Some(Code(plan.code));
        }
    }
    ARMED.store(plans.iter().any(|plan| plan.fired.is_none()), Relaxed);
    due
}

/// Orders the `nth` matching call from now (1 is the next one) to return `code`.
pub(crate) fn fail(function: Option<String>, nth: u64, code: c_int) {
    let mut plans = PLANS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    plans.push(Plan { function, pass: nth.saturating_sub(1), code, fired: None });
    ARMED.store(true, Relaxed);
}

/// Every failure that has fired: function and number of the call.
pub(crate) fn fired() -> Vec<(&'static str, u64)> {
    let plans = PLANS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    plans.iter().filter_map(|plan| plan.fired).collect()
}

/// Forgets counts and failures.
pub(crate) fn reset() {
    let mut plans = PLANS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    plans.clear();
    ARMED.store(false, Relaxed);
    CALLS.store(0, Relaxed);
    for function in super::api::functions() {
        function.probe.calls.store(0, Relaxed);
    }
}

/// Defines driver functions: exported under their C names, counted, and listed in `FUNCTIONS`.
macro_rules! driver_functions {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$doc])*
            // SAFETY: the symbol is one of the CUDA driver's, with the driver's signature. The crate is never
            // linked into a program that links the real driver: cudarc looks its functions up at run time.
            #[unsafe(no_mangle)]
            extern "C" fn $name($($arg: $type),*) -> std::ffi::c_int {
                probes::$name.call(|| $body)
            }
        )*
        mod probes {
            $(
                #[expect(non_upper_case_globals, reason = "named like the function that it counts")]
                pub(super) static $name: $crate::driver::probe::Probe =
                    $crate::driver::probe::Probe::new(stringify!($name));
            )*
        }
        pub(crate) static FUNCTIONS: &[$crate::driver::probe::Function] = &[
            $($crate::driver::probe::Function {
                probe: &probes::$name,
                address: || $name as *const () as usize,
            }),*
        ];
    };
}
pub(crate) use driver_functions;
