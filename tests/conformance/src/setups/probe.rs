//! Looking into static buffers: captured forwards copy their inputs, padding included, to memory that outlives them.

use graph_core::{Backend, Cx, Element, Error, In, Result, Tensor};
use graph_host::Host;

use super::data::DIRT;

/// The stream of the CPU backend.
pub(crate) type Stream = <Host as Backend>::Stream;
type Buffer = <Host as Backend>::Buffer;

/// Memory that a captured forward copies its static inputs to, and the slot that it ran on.
pub(crate) struct Probe {
    /// One per input.
    copies: Vec<Tensor<Host, u8, 1>>,
    /// The numbers of the slots.
    numbers: Tensor<Host, u32, 1>,
    slot: Tensor<Host, u32, 1>,
}

impl Probe {
    /// Room for inputs of these sizes, and for `slots` slots.
    pub(crate) fn new(device: &Host, stream: &Stream, bytes: &[usize], slots: usize) -> Result<Probe> {
        let numbers: Vec<u32> = (0..).take(slots).collect();
        let copies = bytes.iter().map(|bytes| Tensor::zeros(device, stream, [(*bytes).max(1)]));
        let probe = Probe {
            copies: copies.collect::<Result<_>>()?,
            numbers: Tensor::from_slice(device, stream, &numbers, [slots])?,
            slot: Tensor::zeros(device, stream, [1])?,
        };
        Host::synchronize(stream)?;
        Ok(probe)
    }

    /// Records the copies. `inputs` are in declared order.
    pub(crate) fn record(&self, cx: &Cx<'_, Host>, inputs: &[Bytes<'_>]) -> Result<()> {
        for (from, copy) in inputs.iter().zip(&self.copies) {
            let to = copy.view();
            Host::copy(cx.stream(), (from.buffer, from.offset), (to.buffer(), to.offset()), from.bytes)?;
        }
        let number = self.numbers.view().rows(cx.slot()..cx.slot() + 1)?;
        self.slot.view_mut().copy_from(cx.stream(), number)
    }

    /// The first bytes of the copy of input `i`.
    pub(crate) fn read(&self, stream: &Stream, i: usize, bytes: usize) -> Result<Vec<u8>> {
        let copy = self.copies.get(i).ok_or_else(|| Error::plugin(format!("no input {i} is probed")))?;
        copy.view().rows(0..bytes)?.to_vec(stream)
    }

    /// The slot that ran last.
    pub(crate) fn slot(&self, stream: &Stream) -> Result<usize> {
        Ok(self.slot.to_vec(stream)?.iter().map(|slot| *slot as usize).sum())
    }
}

/// Where an input lies, without its types.
pub(crate) struct Bytes<'a> {
    buffer: &'a Buffer,
    offset: usize,
    bytes: usize,
}

impl<'a, T: Element, const R: usize> From<In<'a, Host, T, R>> for Bytes<'a> {
    fn from(view: In<'a, Host, T, R>) -> Self {
        Bytes { buffer: view.buffer(), offset: view.offset(), bytes: view.len() * T::ELEM.bytes() }
    }
}

/// What a step left in a static buffer behind the rows that it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// There is nothing behind them.
    Nothing,
    /// Zeros.
    Zero,
    /// What the step before left there.
    Untouched,
    /// None of these.
    Other,
}

/// How the rows of an input lie in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    /// Runs of rows: the product of the axes before the one that varies.
    pub(crate) runs: usize,
    /// Bytes of one index of the varying axis within a run.
    pub(crate) bytes: usize,
    /// Rows of the bucket.
    pub(crate) all: usize,
    /// Rows that the step was given.
    pub(crate) real: usize,
}

impl Rows {
    /// Compares a static buffer with what the step was given: how many leading rows are the given ones, and what is
    /// behind them.
    pub(crate) fn seen(&self, given: &[u8], buffer: &[u8]) -> (usize, Rest) {
        let mut copied = self.real;
        let (mut zero, mut dirty) = (true, true);
        for run in 0..self.runs {
            let given = &given[run * self.real * self.bytes..][..self.real * self.bytes];
            let buffer = &buffer[run * self.all * self.bytes..][..self.all * self.bytes];
            let (front, rest) = buffer.split_at(self.real * self.bytes);
            let same = front.iter().zip(given).take_while(|(a, b)| a == b).count();
            if same < front.len() {
                copied = copied.min(same / self.bytes);
            }
            zero &= rest.iter().all(|b| *b == 0);
            dirty &= rest.iter().all(|b| *b == DIRT);
        }
        let rest = match (self.all == self.real, zero, dirty) {
            (true, ..) => Rest::Nothing,
            (_, true, false) => Rest::Zero,
            (_, false, true) => Rest::Untouched,
            // Rows of no bytes cannot be told apart; the reference implementation says that it zeroes them.
            (_, true, true) => Rest::Zero,
            _ => Rest::Other,
        };
        (copied, rest)
    }
}
