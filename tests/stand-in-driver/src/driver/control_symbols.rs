//! What the control side of the crate calls in the loaded cdylib. None of it counts as a driver call.
use super::abi::{Out, Text};
use super::state::{lock, reset_all};
use super::{api, probe};
use crate::shared::{BUILD_ID, Live, Setting, Sink};
use std::ffi::{c_int, c_void};

// SAFETY (of every `no_mangle` here): names with this prefix are this crate's own.

fn tell(context: *mut c_void, sink: Sink, text: &str, number: u64) {
    sink(context, text.as_ptr(), text.len(), number);
}

#[unsafe(no_mangle)]
extern "C" fn stand_in_build_id(context: *mut c_void, sink: Sink) {
    tell(context, sink, BUILD_ID, 0);
}

#[unsafe(no_mangle)]
extern "C" fn stand_in_reset() {
    reset_all();
}

#[unsafe(no_mangle)]
extern "C" fn stand_in_set(setting: u32, value: u64) -> c_int {
    let known = Setting::ALL.into_iter().find(|known| *known as u32 == setting);
    match (known, lock()) {
        (Some(setting), Ok(mut state)) => {
            state.settings.set(setting, value);
            0
        }
        _ => 1,
    }
}

/// Orders the `nth` call from now of a function, or of any function if it is empty, to return `code`.
#[unsafe(no_mangle)]
extern "C" fn stand_in_fail(function: Text, nth: u64, code: c_int) -> c_int {
    let function = match function.get() {
        Ok(name) if name.is_empty() => None,
        Ok(name) if api::functions().any(|function| function.probe.name == name) => Some(name),
        _ => return 1,
    };
    probe::fail(function, nth, code);
    0
}

#[unsafe(no_mangle)]
extern "C" fn stand_in_fired(context: *mut c_void, sink: Sink) {
    probe::fired().into_iter().for_each(|(function, call)| tell(context, sink, function, call));
}

#[unsafe(no_mangle)]
extern "C" fn stand_in_counts(context: *mut c_void, sink: Sink) {
    for function in api::functions() {
        tell(context, sink, function.probe.name, function.probe.calls());
    }
}

#[unsafe(no_mangle)]
extern "C" fn stand_in_live(live: Out<Live>) {
    if let Ok(state) = lock() {
        live.set_if_wanted(state.live());
    }
}

/// Everything that was refused or went wrong, and what is written outside allocations at this moment.
#[unsafe(no_mangle)]
extern "C" fn stand_in_faults(context: *mut c_void, sink: Sink) {
    if let Ok(state) = lock() {
        state.faults.iter().chain(&state.memory.damage()).for_each(|text| tell(context, sink, text, 0));
    }
}

/// Adds a compiled library, whose kernels PTX modules can then name. What is wrong with it becomes a fault.
#[unsafe(no_mangle)]
extern "C" fn stand_in_register_kernels(path: Text) -> c_int {
    let (Ok(path), Ok(mut state)) = (path.get(), lock()) else { return 1 };
    match state.kernels.register(&path) {
        Ok(()) => 0,
        Err(why) => {
            state.faults.push(why);
            1
        }
    }
}
