//! Contexts: which one a thread has current, and what happens to everything in one when it goes.
use super::abi::Handle;
use super::codes::{Code, Result};
use super::state::State;
use super::stream::Stream;
use std::{cell::RefCell, mem::ManuallyDrop};

pub(crate) struct Context {
    pub(crate) device: i32,
    /// How often the primary context is retained; 0 for one that was created.
    pub(crate) retained: u32,
    pub(crate) flags: u32,
    /// The error that every call returns from now on.
    pub(crate) poison: Option<Code>,
}

thread_local! {
    /// The thread's stack of contexts, and the epoch that it belongs to. Never dropped: what a thread's other locals hold
    /// goes through the driver when the thread ends.
    static CURRENT: RefCell<(u64, ManuallyDrop<Vec<Handle>>)> =
        const { RefCell::new((0, ManuallyDrop::new(Vec::new()))) };
}

/// The thread's current context.
pub(crate) fn current(state: &State) -> Option<Handle> {
    CURRENT.with_borrow(|(epoch, stack)| (*epoch == state.epoch).then(|| stack.last().copied()).flatten())
}

/// Changes the thread's stack of contexts.
pub(crate) fn with_stack<T>(state: &State, change: impl FnOnce(&mut Vec<Handle>) -> T) -> T {
    CURRENT.with_borrow_mut(|(epoch, stack)| {
        if *epoch != state.epoch {
            *epoch = state.epoch;
            stack.clear();
        }
        change(stack)
    })
}

/// The handle of a device's primary context.
pub(crate) fn primary(device: i32) -> Handle {
    0x1000 + 16 * device as usize
}

/// The handle of a context's legacy stream, which programs write as null.
pub(crate) fn legacy_stream(context: Handle) -> Handle {
    context + 1
}

impl State {
    pub(crate) fn check_device(&self, device: i32) -> Result {
        if !self.initialised {
            return Err(Code::NOT_INITIALIZED);
        }
        if (0..self.settings.devices).contains(&device) { Ok(()) } else { Err(Code::INVALID_DEVICE) }
    }

    pub(crate) fn retain_primary(&mut self, device: i32) -> Result<Handle> {
        self.check_device(device)?;
        let handle = primary(device);
        if let Some(context) = self.contexts.get_mut(&handle) {
            if let Some(code) = context.poison {
                return Err(code);
            }
            context.retained += 1;
        } else {
            self.open_context(handle, device, 1);
        }
        Ok(handle)
    }

    pub(crate) fn open_context(&mut self, handle: Handle, device: i32, retained: u32) {
        self.contexts.insert(handle, Context { device, retained, flags: 0, poison: None });
        self.streams.insert(legacy_stream(handle), Stream::new(handle, true, true));
    }

    pub(crate) fn release_primary(&mut self, device: i32) -> Result {
        self.check_device(device)?;
        let handle = primary(device);
        let context = self.contexts.get_mut(&handle).ok_or(Code::INVALID_CONTEXT)?;
        context.retained -= 1;
        if context.retained == 0 {
            self.destroy_context(handle);
        }
        Ok(())
    }

    /// `cuDevicePrimaryCtxReset`: whatever is in the context goes, and an error that poisoned it with it.
    pub(crate) fn reset_primary(&mut self, device: i32) -> Result {
        self.check_device(device)?;
        let handle = primary(device);
        let Some(context) = self.contexts.get(&handle) else { return Ok(()) };
        let retained = context.retained;
        self.destroy_context(handle);
        self.open_context(handle, device, retained);
        Ok(())
    }

    /// Pending work runs, then everything in the context goes. What the program had not freed is counted as
    /// abandoned, unless the context is poisoned: then it could not have freed it.
    pub(crate) fn destroy_context(&mut self, handle: Handle) {
        self.run_context(handle);
        let poisoned = self.contexts.remove(&handle).is_some_and(|context| context.poison.is_some());
        if !poisoned {
            let left = self.owned_by(Some(handle));
            if !left.is_zero() {
                self.faults.push(format!("a context was destroyed that still owned {left:?}"));
            }
            self.abandoned = self.abandoned.plus(&left);
        }
        self.captures.retain(|_, capture| capture.graph.context != handle);
        self.execs.retain(|_, exec| exec.context != handle);
        self.graphs.retain(|_, graph| graph.context != handle);
        self.modules.retain(|_, module| module.context != handle);
        self.functions.retain(|_, function| function.context != handle);
        self.events.retain(|_, event| event.context != handle);
        self.streams.retain(|_, stream| stream.context != handle);
        self.thread_streams.retain(|(context, _), _| *context != handle);
        let owned = self.memory.iter().filter(|it| it.context == handle);
        let addresses: Vec<usize> = owned.map(|it| it.range().addr).collect();
        for addr in addresses {
            self.release_memory(addr);
        }
    }
}
