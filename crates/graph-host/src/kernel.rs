//! Kernels: Rust closures over the slices that they declare.

use graph_core::{Element, In, Out, Result};

use crate::{
    Host, Stream,
    hooks::Call,
    memory::{Launch, ReadSpans, Span, WriteSpans},
    turn::Turn,
};

/// The name of an operation, and what it costs on the virtual clock of [`Host::timeline`]. A name alone costs 1.
///
/// ```
/// use graph_host::Label;
/// assert_eq!(Label::from("attend"), Label::new("attend").cost(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    pub(crate) name: &'static str,
    pub(crate) cost: u64,
}

impl Label {
    /// A name, at the cost of 1.
    pub const fn new(name: &'static str) -> Self {
        Label { name, cost: 1 }
    }

    /// The same with another cost.
    pub const fn cost(self, cost: u64) -> Self {
        Label { cost, ..self }
    }
}

impl From<&'static str> for Label {
    fn from(name: &'static str) -> Self {
        Label::new(name)
    }
}

/// What a kernel reads: `()`, or a tuple of up to eight [`In`]. The body gets a tuple of `&[T]`. Not for others to
/// implement.
///
/// ```
/// use graph_core::{Backend, Result, Tensor};
/// use graph_host::{Host, ReadSlices, Reads, Stream, WriteSlices, Writes};
///
/// // A kernel that is counted, whatever it reads and writes.
/// fn counted<R: Reads, W: Writes>(
///     launches: &mut usize,
///     stream: &Stream,
///     reads: R,
///     writes: W,
///     body: impl for<'s> Fn(ReadSlices<'s, R>, WriteSlices<'s, W>) + Send + 'static,
/// ) -> Result<()> {
///     *launches += 1;
///     stream.kernel("counted", reads, writes, body)
/// }
/// let host = Host::new();
/// let (stream, mut launches) = (host.stream()?, 0);
/// let x = Tensor::from_slice(&host, &stream, &[1.0_f32, 2.0], [2])?;
/// let y = Tensor::<Host, f32, 1>::alloc(&host, [1])?;
/// counted(&mut launches, &stream, (x.view(),), (y.view_mut(),), |(x,), (y,)| y[0] = x.iter().sum())?;
/// assert_eq!((y.to_vec(&stream)?, launches), (vec![3.0], 1));
/// # Ok::<(), graph_core::Error>(())
/// ```
pub trait Reads {
    #[doc(hidden)]
    type Spans: ReadSpans;
    #[doc(hidden)]
    fn spans(&self, name: &'static str) -> Result<Self::Spans>;
}

/// What a kernel writes: `()`, or a tuple of up to eight [`Out`]. The body gets a tuple of `&mut [T]`. Not for others
/// to implement.
///
/// See [`Reads`] for an example.
pub trait Writes {
    #[doc(hidden)]
    type Spans: WriteSpans;
    #[doc(hidden)]
    fn spans(&self, name: &'static str) -> Result<Self::Spans>;
}

/// The slices that a body reads: `(&[A], &[B], ..)` for `(In<A>, In<B>, ..)`.
pub type ReadSlices<'s, R> = <<R as Reads>::Spans as ReadSpans>::Slices<'s>;
/// The slices that a body writes: `(&mut [A], &mut [B], ..)` for `(Out<A>, Out<B>, ..)`.
pub type WriteSlices<'s, W> = <<W as Writes>::Spans as WriteSpans>::Slices<'s>;

impl Stream {
    /// Runs a kernel, or records it while the stream captures.
    ///
    /// The body sees what it declares and nothing else. A graph keeps the declared memory alive, and replays the body
    /// on it as it is then. Memory that is worked on in place is named once, as a write: `&mut [T]` may be read.
    /// Shapes are the author's to pass: the slices are flat.
    ///
    /// ```
    /// use graph_core::{Backend, Tensor};
    /// use graph_host::Host;
    /// let host = Host::new();
    /// let stream = host.stream()?;
    /// let x = Tensor::<Host, f32, 2>::from_slice(&host, &stream, &[3.0, 4.0, 6.0, 8.0], [2, 2])?;
    /// let w = Tensor::<Host, f32, 1>::from_slice(&host, &stream, &[1.0, 10.0], [2])?;
    /// let y = Tensor::<Host, f32, 2>::alloc(&host, [2, 2])?;
    /// stream.kernel("scale", (x.view(), w.view()), (y.view_mut(),), |(x, w), (y,)| {
    ///     for (y, x) in y.chunks_mut(w.len()).zip(x.chunks(w.len())) {
    ///         y.iter_mut().zip(x.iter().zip(w)).for_each(|(y, (x, w))| *y = x * w);
    ///     }
    /// })?;
    /// assert_eq!(y.to_vec(&stream)?, [3.0, 40.0, 6.0, 80.0]);
    /// # Ok::<(), graph_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// A write that overlaps a read or another write; a view of another device's memory; a broken capture; a panic of
    /// the body, as [`Panicked`](graph_core::ErrorKind::Panicked), from the call that ran it.
    pub fn kernel<R: Reads, W: Writes>(
        &self,
        label: impl Into<Label>,
        reads: R,
        writes: W,
        body: impl for<'s> Fn(ReadSlices<'s, R>, WriteSlices<'s, W>) + Send + 'static,
    ) -> Result<()> {
        let label = label.into();
        let (reads, writes) = (reads.spans(label.name)?, writes.spans(label.name)?);
        let launch = Launch::new(label.name, self.device(), reads, writes)?;
        self.submit(Call::Kernel, label, move |turn: &mut Turn<'_>| launch.run(turn, &body))
    }

    /// Runs host code in stream order, or records it: a callback, which like a kernel may not call the backend.
    ///
    /// ```
    /// use graph_core::Backend;
    /// use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
    /// let host = graph_host::Host::new();
    /// let (stream, steps) = (host.stream()?, Arc::new(AtomicU32::new(0)));
    /// let count = steps.clone();
    /// stream.callback("count", move || { count.fetch_add(1, Ordering::Relaxed); })?;
    /// assert_eq!(steps.load(Ordering::Relaxed), 1);
    /// # Ok::<(), graph_core::Error>(())
    /// ```
    pub fn callback(&self, label: impl Into<Label>, body: impl Fn() + Send + 'static) -> Result<()> {
        self.submit(Call::Callback, label.into(), move |_: &mut Turn<'_>| body())
    }
}

fn span<T: Element, const R: usize>(name: &'static str, view: In<'_, Host, T, R>) -> Result<Span<T>> {
    Span::new(name, &view.buffer().0, view.offset(), view.len())
}

macro_rules! views {
    ($($($t:ident $r:ident $i:tt)*;)*) => { $(
        impl<$($t: Element, const $r: usize),*> Reads for ($(In<'_, Host, $t, $r>,)*) {
            type Spans = ($(Span<$t>,)*);
            fn spans(&self, _name: &'static str) -> Result<Self::Spans> {
                Ok(($(span(_name, self.$i)?,)*))
            }
        }
        impl<$($t: Element, const $r: usize),*> Writes for ($(Out<'_, Host, $t, $r>,)*) {
            type Spans = ($(Span<$t>,)*);
            fn spans(&self, _name: &'static str) -> Result<Self::Spans> {
                Ok(($(span(_name, self.$i.read())?,)*))
            }
        }
    )* };
}
views! {
    ;
    A RA 0;
    A RA 0 B RB 1;
    A RA 0 B RB 1 C RC 2;
    A RA 0 B RB 1 C RC 2 D RD 3;
    A RA 0 B RB 1 C RC 2 D RD 3 E RE 4;
    A RA 0 B RB 1 C RC 2 D RD 3 E RE 4 F RF 5;
    A RA 0 B RB 1 C RC 2 D RD 3 E RE 4 F RF 5 G RG 6;
    A RA 0 B RB 1 C RC 2 D RD 3 E RE 4 F RF 5 G RG 6 H RH 7;
}
