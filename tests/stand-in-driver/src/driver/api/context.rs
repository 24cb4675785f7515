//! Contexts.
use crate::driver::abi::{Handle, Out};
use crate::driver::codes::Code;
use crate::driver::context::{current, primary, with_stack};
use crate::driver::probe::driver_functions;
use crate::driver::state::{State, enter, lock};
use std::ffi::{c_int, c_uint, c_void};

driver_functions! {
    fn cuDevicePrimaryCtxRetain(context: Out<Handle>, device: c_int) {
        let handle = lock()?.retain_primary(device)?;
        context.set(handle)
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        lock()?.release_primary(device)
    }

    fn cuDevicePrimaryCtxReset_v2(device: c_int) {
        lock()?.reset_primary(device)
    }

    fn cuDevicePrimaryCtxGetState(device: c_int, flags: Out<c_uint>, active: Out<c_int>) {
        let state = lock()?;
        state.check_device(device)?;
        let context = state.contexts.get(&primary(device));
        flags.set(context.map_or(0, |context| context.flags))?;
        active.set(c_int::from(context.is_some()))
    }

    fn cuCtxCreate_v3(context: Out<Handle>, _affinity: Handle, _count: c_int, flags: c_uint, device: c_int) {
        create(&context, flags, device)
    }

    fn cuCtxCreate_v4(context: Out<Handle>, _params: Handle, flags: c_uint, device: c_int) {
        create(&context, flags, device)
    }

    fn cuCtxDestroy_v2(context: Handle) {
        let mut state = lock()?;
        match state.contexts.get(&context) {
            Some(it) if it.retained == 0 => {
                state.destroy_context(context);
                Ok(())
            }
            _ => Err(Code::INVALID_CONTEXT),
        }
    }

    fn cuCtxGetCurrent(context: Out<Handle>) {
        let state = lock()?;
        context.set(current(&state).unwrap_or(0))
    }

    fn cuCtxSetCurrent(context: Handle) {
        let state = lock()?;
        check(&state, context)?;
        with_stack(&state, |stack| {
            stack.pop();
            stack.extend((context != 0).then_some(context));
        });
        Ok(())
    }

    fn cuCtxPushCurrent_v2(context: Handle) {
        let state = lock()?;
        check(&state, context)?;
        with_stack(&state, |stack| stack.push(context));
        Ok(())
    }

    fn cuCtxPopCurrent_v2(context: Out<Handle>) {
        let state = lock()?;
        let popped = with_stack(&state, Vec::pop).ok_or(Code::INVALID_CONTEXT)?;
        context.set_if_wanted(popped);
        Ok(())
    }

    fn cuCtxGetDevice(device: Out<c_int>) {
        let (state, context) = enter()?;
        device.set(state.contexts.get(&context).map_or(0, |it| it.device))
    }

    fn cuCtxGetFlags(flags: Out<c_uint>) {
        let (state, context) = enter()?;
        flags.set(state.contexts.get(&context).map_or(0, |it| it.flags))
    }

    fn cuCtxSetFlags(flags: c_uint) {
        let (mut state, context) = enter()?;
        if let Some(it) = state.contexts.get_mut(&context) {
            it.flags = flags;
        }
        Ok(())
    }

    fn cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) {
        enter()?;
        least.set_if_wanted(0);
        greatest.set_if_wanted(-5);
        Ok(())
    }

    fn cuCtxGetLimit(value: Out<usize>, _limit: c_uint) {
        enter()?;
        value.set(0)
    }

    fn cuCtxSetLimit(_limit: c_uint, _value: usize) {
        enter().map(|_| ())
    }

    fn cuCtxSynchronize() {
        let (mut state, context) = enter()?;
        state.check_context_free(context, "a wait for the context")?;
        state.run_context(context);
        state.outcome(context)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: Out<u32>) {
        let state = lock()?;
        let new = crate::driver::capture::Mode::from_c(mode.get()?)?;
        mode.set(state.exchange_thread_mode(new) as u32)
    }

    fn cuStreamGetCtx(stream: Handle, context: Out<Handle>) {
        let (mut state, current) = enter()?;
        let key = state.stream_key(current, stream)?;
        context.set(state.stream(key)?.context)
    }

    /// No exported table is known; a caller that asks for one gets the error that a driver gives for an
    /// unknown one.
    fn cuGetExportTable(_table: Out<*const c_void>, _id: Handle) {
        Err(Code::NOT_FOUND)
    }
}

fn create(context: &Out<Handle>, flags: c_uint, device: c_int) -> crate::driver::codes::Result {
    let mut state = lock()?;
    state.check_device(device)?;
    let handle = state.new_handle();
    state.open_context(handle, device, 0);
    if let Some(it) = state.contexts.get_mut(&handle) {
        it.flags = flags;
    }
    with_stack(&state, |stack| stack.push(handle));
    context.set(handle)
}

fn check(state: &State, context: Handle) -> crate::driver::codes::Result {
    if context == 0 || state.contexts.contains_key(&context) { Ok(()) } else { Err(Code::INVALID_CONTEXT) }
}
