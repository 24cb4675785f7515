//! Plans per slot: the plan of one slot is made while another one runs.

/// One plan per slot, each reused from step to step.
#[derive(Debug, Default)]
pub(crate) struct SlotPlans<P>(Vec<P>);

impl<P: Default> SlotPlans<P> {
    pub(crate) fn new() -> Self {
        SlotPlans(Vec::new())
    }

    /// Room for these slots, so that planning on them allocates no more than the plans themselves do.
    pub(crate) fn reserve(&mut self, slots: usize) {
        if self.0.len() < slots {
            self.0.resize_with(slots, P::default);
        }
    }

    /// The plan of a slot, to be written.
    pub(crate) fn at_mut(&mut self, slot: usize) -> &mut P {
        self.reserve(slot + 1);
        &mut self.0[slot]
    }

    /// The plan of a slot, if one was ever made.
    pub(crate) fn at(&self, slot: usize) -> Option<&P> {
        self.0.get(slot)
    }
}
