//! Plans per slot: the plan of one slot is made while another one runs.

use graph_core::{Backend, Source};

/// `N` lists of i32 per slot, reused from step to step.
#[derive(Debug)]
pub(crate) struct SlotPlans<const N: usize> {
    slots: Vec<[Vec<i32>; N]>,
    /// The longest that captured steps need.
    claimed: [usize; N],
}

impl<const N: usize> SlotPlans<N> {
    pub(crate) fn new() -> Self {
        SlotPlans { slots: Vec::new(), claimed: [0; N] }
    }

    /// A captured step needs lists of these lengths.
    pub(crate) fn claim(&mut self, lengths: [usize; N]) {
        for (claimed, len) in self.claimed.iter_mut().zip(lengths) {
            *claimed = len.max(*claimed);
        }
    }

    /// Memory for what was claimed, so that planning captured steps takes none.
    pub(crate) fn allocate(&mut self, slots: usize) {
        let lists = || self.claimed.map(Vec::with_capacity);
        self.slots = (0..slots).map(|_| lists()).collect();
    }

    /// The lists of a slot, empty.
    pub(crate) fn begin(&mut self, slot: usize) -> &mut [Vec<i32>; N] {
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || [const { Vec::new() }; N]);
        }
        self.slots[slot].iter_mut().for_each(Vec::clear);
        &mut self.slots[slot]
    }

    /// A list as it was left; empty for a slot that never had a plan.
    pub(crate) fn planned<B: Backend>(&self, slot: usize, list: usize) -> Source<'_, B> {
        Source::slice(self.slots.get(slot).map_or(&[], |lists| &lists[list]))
    }
}
