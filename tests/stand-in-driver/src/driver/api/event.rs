//! Events.
use crate::driver::abi::{Handle, Out};
use crate::driver::codes::{Code, Result};
use crate::driver::event::Event;
use crate::driver::probe::driver_functions;
use crate::driver::state::enter;
use std::ffi::c_uint;

/// `CU_EVENT_DISABLE_TIMING`.
const DISABLE_TIMING: c_uint = 2;

driver_functions! {
    fn cuEventCreate(event: Out<Handle>, flags: c_uint) {
        let (mut state, context) = enter()?;
        let handle = state.new_handle();
        state.events.insert(handle, Event::new(context, flags & DISABLE_TIMING != 0));
        event.set(handle)
    }

    fn cuEventDestroy_v2(event: Handle) {
        let (mut state, _) = enter()?;
        state.events.remove(&event).map(|_| ()).ok_or(Code::INVALID_HANDLE)
    }

    fn cuEventRecord(event: Handle, stream: Handle) {
        record(event, stream)
    }

    fn cuEventRecordWithFlags(event: Handle, stream: Handle, flags: c_uint) {
        if flags != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        record(event, stream)
    }

    fn cuEventSynchronize(event: Handle) {
        let (mut state, _) = enter()?;
        state.check_not_captured(event)?;
        state.check_unsafe_call("cuEventSynchronize")?;
        state.synchronise_event(event)
    }

    fn cuEventQuery(event: Handle) {
        let (mut state, _) = enter()?;
        state.check_not_captured(event)?;
        state.check_unsafe_call("cuEventQuery")?;
        state.query_event(event)
    }

    fn cuEventElapsedTime(milliseconds: Out<f32>, start: Handle, end: Handle) {
        let (mut state, _) = enter()?;
        milliseconds.set(state.elapsed(start, end)?)
    }

    fn cuEventElapsedTime_v2(milliseconds: Out<f32>, start: Handle, end: Handle) {
        let (mut state, _) = enter()?;
        milliseconds.set(state.elapsed(start, end)?)
    }
}

fn record(event: Handle, stream: Handle) -> Result {
    let (mut state, context) = enter()?;
    let key = state.stream_key(context, stream)?;
    state.record_event(event, key)
}
