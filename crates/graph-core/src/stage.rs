//! Staging: every input is checked, then every row of every input is written, padding included (invariant 1).

use crate::{
    Backend, Dims, Error, ErrorKind, Pad, Result, SlotLease,
    check::check_sources,
    executor::{Executor, IoPlan},
    lease::Staged,
    source::{At, Source},
};

impl<B: Backend> Executor<B> {
    /// Host-side inputs and their padding go into the block, device-side ones into their places; the padding of those
    /// is written by the graph's head. `rows` is the length of each input's varying axis in this call.
    #[inline]
    pub(crate) fn stage(
        &mut self,
        mut lease: SlotLease<B>,
        real: Dims,
        rows: &[usize],
        sources: &[Source<'_, B>],
    ) -> Result<SlotLease<B, Staged>> {
        if lease.token.executor != self.id {
            return Err(ErrorKind::ForeignLease { owner: self.owner.clone() }.into());
        }
        let layout = &self.buckets[lease.token.local.index()].layout;
        let slot = &self.slots[lease.token.slot];
        check_sources(&self.owner, &self.inputs, real, rows, sources)?;
        for (i, most) in layout.in_rows.iter().enumerate() {
            if rows[i] > *most {
                return Err(self.beyond_bucket(i, rows[i], *most));
            }
            // A static buffer that somebody holds is written by nobody (invariant 4).
            if let Some(place) = &slot.places.inputs[i]
                && !matches!(sources[i].at, At::Lent(lent) if lent.is(place))
                && !lease.token.take_input(i, place)
            {
                return Err(self.input_held(i, lease.token.slot));
            }
        }
        self.wait_for(lease.token.slot)?;
        let pinned = B::pinned_bytes(&slot.pinned);
        // SAFETY: the block part is `block_bytes` long at the least. The lease is the only one on this slot, so no
        // other thread writes it, and the last graph on this slot is done, so the device does not read it. The
        // sequence word behind it, which the device writes, is not part of the slice.
        let block =
            unsafe { std::slice::from_raw_parts_mut(pinned.cast::<u8>().as_ptr(), layout.block_bytes) };
        let header = block[..(self.inputs.len() + 1) * 4].chunks_exact_mut(4);
        let words = rows.iter().map(|r| *r as u32).chain([slot.sequence.wrapping_add(1)]);
        for (word, value) in header.zip(words) {
            word.copy_from_slice(&value.to_ne_bytes());
        }
        for (i, plan) in self.inputs.iter().enumerate() {
            match (sources[i].at, &slot.places.inputs[i]) {
                (At::Host(data), None) => {
                    let at = layout.host_at[i];
                    let static_bytes = &mut block[at..at + plan.bytes(layout.in_rows[i])];
                    write_padded(static_bytes, data, plan, rows[i], layout.in_rows[i]);
                }
                (At::Host(data), Some(place)) => {
                    B::upload(&self.stream, data, &place.buffer, place.offset)?;
                }
                (At::Device { buffer, offset }, Some(place)) => {
                    let to = (&place.buffer, place.offset);
                    B::copy(&self.stream, (buffer, offset), to, plan.bytes(rows[i]))?;
                }
                (At::Lent(lent), Some(place)) => {
                    if !lent.is(place) {
                        let (from, to) = ((&lent.buffer, lent.offset), (&place.buffer, place.offset));
                        B::copy(&self.stream, from, to, plan.bytes(rows[i]))?;
                    }
                }
                (At::Device { .. } | At::Lent(_), None) => return Err(self.device_for_host(i)),
            }
        }
        Ok(lease.into_state())
    }

    /// The completion word says that the slot's last graph is done; only when it does not is the driver asked. Graphs on
    /// other slots may still run afterwards.
    #[inline]
    pub(crate) fn wait_for(&self, index: usize) -> Result<()> {
        match self.slots[index].is_done() {
            true => Ok(()),
            false => self.wait(index),
        }
    }

    #[cold]
    fn wait(&self, index: usize) -> Result<()> {
        let slot = &self.slots[index];
        B::await_signal(&self.stream, (&slot.pinned, slot.done_at), slot.sequence)?;
        match slot.is_done() {
            true => Ok(()),
            false => Err(ErrorKind::NeverCompleted { owner: self.owner.clone(), slot: index }.into()),
        }
    }

    #[cold]
    fn beyond_bucket(&self, i: usize, got: usize, most: usize) -> Error {
        ErrorKind::BeyondBucket { owner: self.owner.clone(), what: self.inputs[i].name, got, most }.into()
    }

    #[cold]
    fn device_for_host(&self, i: usize) -> Error {
        ErrorKind::HostInputOnDevice { owner: self.owner.clone(), input: self.inputs[i].name }.into()
    }

    #[cold]
    fn input_held(&self, i: usize, slot: usize) -> Error {
        ErrorKind::InputHeld { owner: self.owner.clone(), input: self.inputs[i].name, slot }.into()
    }
}

/// Writes all rows of one host-side input: `real` rows of data, padding up to `rows`, in each run.
#[inline]
fn write_padded(to: &mut [u8], data: &[u8], plan: &IoPlan, real: usize, rows: usize) {
    if plan.outer == 1 {
        return write_run(to, data, plan, real, rows);
    }
    for run in 0..plan.outer {
        let (from, at) = (run * real * plan.row_bytes, run * rows * plan.row_bytes);
        let to = &mut to[at..at + rows * plan.row_bytes];
        write_run(to, &data[from..from + real * plan.row_bytes], plan, real, rows);
    }
}

#[inline]
fn write_run(to: &mut [u8], data: &[u8], plan: &IoPlan, real: usize, rows: usize) {
    to[..data.len()].copy_from_slice(data);
    if real == rows {
        return;
    }
    let row = plan.row_bytes;
    match &plan.pad {
        Pad::RepeatLast if real > 0 && row == 4 => {
            let last = *to[..data.len()].last_chunk::<4>().unwrap_or(&[0; 4]);
            to[data.len()..].as_chunks_mut::<4>().0.fill(last);
        }
        Pad::RepeatLast if real > 0 => {
            for r in real..rows {
                to.copy_within((real - 1) * row..real * row, r * row);
            }
        }
        Pad::Zero | Pad::RepeatLast => to[data.len()..].fill(0),
        Pad::Value(value) => {
            to[data.len()..]
                .chunks_exact_mut(value.bytes().len())
                .for_each(|e| e.copy_from_slice(value.bytes()));
        }
    }
}
