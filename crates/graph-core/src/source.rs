//! What a call may pass for an input, and what becomes of it.

use std::fmt;

use crate::{
    AnyView, Backend, Elem, Element, ErrorKind, HostValue, In, OutTensor, Result, Tensor,
    arena::Place,
    tensor::{MAX_RANK, all_axes, elements},
};

/// The rows of one input, with their types as data.
///
/// ```
/// use graph_core::{Backend, HostTensor, Source, Tensor};
/// use graph_host::Host;
///
/// let host = Host::new();
/// let x = Tensor::from_slice(&host, &host.stream()?, &[1.0_f32, 2.0], [2])?;
/// let ids = HostTensor::new(&[1, 2, 3, 4, 5, 6], [3, 2])?;
/// let sources: [Source<'_, Host>; 3] = [
///     Source::slice(&[1.0_f32, 2.0]), // host data of rank 1
///     Source::host(&ids),             // host data of any rank
///     Source::from(x.view()),         // device memory
/// ];
/// assert_eq!(sources.map(|s| s.dims().len()), [1, 2, 1]);
/// assert_eq!(sources[0].values::<f32>(), Some(&[1.0, 2.0][..]));
/// assert_eq!(sources[2].values::<f32>(), None, "its values are on the device");
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Source<'a, B: Backend> {
    pub(crate) at: At<'a, B>,
    pub(crate) elem: Elem,
    pub(crate) dims: [usize; MAX_RANK],
    pub(crate) rank: usize,
}

pub(crate) enum At<'a, B: Backend> {
    Host(&'a [u8]),
    Device {
        buffer: &'a B::Buffer,
        offset: usize,
    },
    /// All rows of another region's output: may stay where they are.
    Lent(&'a Place<B>),
}

impl<B: Backend> Clone for At<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<B: Backend> Copy for At<'_, B> {}
impl<B: Backend> Clone for Source<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<B: Backend> Copy for Source<'_, B> {}

impl<'a, B: Backend> Source<'a, B> {
    fn new<T: Element, const R: usize>(at: At<'a, B>, d: [usize; R]) -> Self {
        Source { at, elem: T::ELEM, dims: all_axes(d), rank: R }
    }

    /// Its dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank]
    }

    /// Its values, where they are on the host and of this element.
    pub fn values<T: Element>(&self) -> Option<&'a [T]> {
        match self.at {
            At::Host(bytes) if self.elem == T::ELEM => bytemuck::try_cast_slice(bytes).ok(),
            _ => None,
        }
    }

    /// Host data comes from implementations of [`HostInput`], which may say one size and give another.
    #[inline]
    pub(crate) fn check_data(&self) -> Result<()> {
        match self.at {
            At::Host(data) if data.len() != elements(self.dims()).saturating_mul(self.elem.bytes()) => {
                let (len, dims) = (data.len() / self.elem.bytes(), self.dims().to_vec());
                Err(ErrorKind::DataLength { len, want: elements(&dims), dims }.into())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn of_view(v: AnyView<'a, B>) -> Self {
        Source {
            at: At::Device { buffer: v.buffer, offset: v.offset },
            elem: v.elem,
            dims: v.dims,
            rank: v.rank,
        }
    }

    /// A host value of a request's row; `None` above rank 4.
    pub fn of_value(value: &'a HostValue) -> Option<Self> {
        let mut dims = [0; MAX_RANK];
        dims.get_mut(..value.dims().len())?.copy_from_slice(value.dims());
        Some(Source { at: At::Host(value.bytes()), elem: value.elem(), dims, rank: value.dims().len() })
    }

    /// Host data of any rank: a [`HostTensor`], or a type of your own. For rank 1 there is [`slice`](Source::slice),
    /// which takes `&[1.0, 2.0]` as it is; here that would be `&&[1.0, 2.0]`.
    pub fn host<T: Element, const R: usize>(input: &'a impl HostInput<T, R>) -> Self {
        let (data, dims) = input.data();
        Source::new::<T, R>(At::Host(bytemuck::cast_slice(data)), dims)
    }

    /// Host data of rank 1: `Source::slice(&[1.0_f32, 2.0])`, or a planned input of a resource.
    pub fn slice<T: Element>(data: &'a [T]) -> Self {
        Source::new::<T, 1>(At::Host(bytemuck::cast_slice(data)), [data.len()])
    }

    /// Whatever a device-side input takes. An output of another region stays where it is where a
    /// [wire](crate::Wire) joins the two. For a view there is `Source::from(tensor.view())`.
    pub fn device<T: Element, const R: usize>(input: &'a impl DeviceInput<B, T, R>) -> Self {
        input.source()
    }
}

/// The rows of a view, where they lie.
impl<'a, B: Backend, T: Element, const R: usize> From<In<'a, B, T, R>> for Source<'a, B> {
    fn from(view: In<'a, B, T, R>) -> Self {
        Source::of_view(view.into())
    }
}

impl<B: Backend> fmt::Debug for Source<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if matches!(self.at, At::Host(_)) { "host" } else { "device" };
        write!(f, "{side} {} {:?}", self.elem.name(), self.dims())
    }
}

/// What a `host` input accepts: slices, and [`HostTensor`] above rank 1.
///
/// ```
#[doc = include_str!("doc/scale.md")]
#[doc = include_str!("doc/scaler.md")]
/// struct Column(Vec<f32>); // a type of your own as an argument
///
/// impl HostInput<f32, 1> for Column {
///     fn data(&self) -> (&[f32], [usize; 1]) {
///         (&self.0, [self.0.len()])
///     }
/// }
/// let y = scale.run(ScaleArgs { x: Column(vec![1.0, 2.0]) }, &[1, 1])?.into_out().y;
/// assert_eq!(y.to_vec(engine.stream())?, [3.0, 6.0]);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed as a host input of {T}, rank {R}",
    label = "this input wants host data: {T} of rank {R}",
    note = "a host input takes `&[{T}]` or `&Vec<{T}>` (rank 1), or `HostTensor` (any rank)"
)]
pub trait HostInput<T, const R: usize> {
    /// The data in row-major order, and its dimensions.
    fn data(&self) -> (&[T], [usize; R]);
}

/// What a device-side input accepts: tensors, views, outputs of other regions, and host data (one more copy).
///
/// ```
/// use graph_core::{Backend, DeviceInput, Tensor};
/// use graph_host::Host;
///
/// fn rows(x: impl DeviceInput<Host, f32, 1>) -> usize {
///     x.source().dims()[0]
/// }
/// let host = Host::new();
/// let x = Tensor::from_slice(&host, &host.stream()?, &[1.0_f32, 2.0, 3.0], [3])?;
/// assert_eq!(rows(&x), 3);
/// assert_eq!(rows(x.view().rows(1..3)?), 2);
/// assert_eq!(rows(&[1.0_f32]), 1); // from the host: one more copy
/// # Ok::<(), graph_core::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed as an input of {T}, rank {R}",
    label = "this input wants {T} of rank {R}",
    note = "a device input takes `&Tensor<B, {T}, {R}>`, a view, an output of another region, or host data (`&[{T}]` for rank 1, `HostTensor` for more)"
)]
pub trait DeviceInput<B: Backend, T, const R: usize> {
    /// Where its rows are.
    fn source(&self) -> Source<'_, B>;
}

/// Host data of any rank, in row-major order.
///
/// ```
/// use graph_core::HostTensor;
/// let ids = HostTensor::new(&[1, 2, 3, 4, 5, 6], [3, 2]).unwrap();
/// assert_eq!(ids.dims(), [3, 2]);
/// assert!(HostTensor::new(&[1, 2, 3], [2, 2]).is_err());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HostTensor<'a, T, const R: usize> {
    data: &'a [T],
    dims: [usize; R],
}

impl<'a, T, const R: usize> HostTensor<'a, T, R> {
    /// Data and dimensions; an error where they disagree.
    pub fn new(data: &'a [T], dims: [usize; R]) -> crate::Result<Self> {
        let want = elements(&dims);
        if data.len() != want {
            return Err(crate::ErrorKind::DataLength { len: data.len(), dims: dims.to_vec(), want }.into());
        }
        Ok(HostTensor { data, dims })
    }

    /// Its dimensions.
    pub fn dims(&self) -> [usize; R] {
        self.dims
    }
}

impl<T> HostInput<T, 1> for &[T] {
    fn data(&self) -> (&[T], [usize; 1]) {
        (self, [self.len()])
    }
}
impl<T> HostInput<T, 1> for &Vec<T> {
    fn data(&self) -> (&[T], [usize; 1]) {
        (self, [self.len()])
    }
}
impl<T, const N: usize> HostInput<T, 1> for &[T; N] {
    fn data(&self) -> (&[T], [usize; 1]) {
        (*self, [N])
    }
}
impl<T, const R: usize> HostInput<T, R> for HostTensor<'_, T, R> {
    fn data(&self) -> (&[T], [usize; R]) {
        (self.data, self.dims)
    }
}

// A blanket `impl DeviceInput for H: HostInput` would conflict with the impls below: the host types are listed.
macro_rules! host_as_device { ($([$($g:tt)*] $t:ty, $r:expr;)*) => { $(
    impl<B: Backend, T: Element, $($g)*> DeviceInput<B, T, $r> for $t {
        fn source(&self) -> Source<'_, B> {
            Source::host::<T, $r>(self)
        }
    }
)* } }
host_as_device! { [] &[T], 1; [] &Vec<T>, 1; [const N: usize] &[T; N], 1; [const R: usize] HostTensor<'_, T, R>, R; }

impl<B: Backend, T: Element, const R: usize> DeviceInput<B, T, R> for In<'_, B, T, R> {
    fn source(&self) -> Source<'_, B> {
        Source::of_view((*self).into())
    }
}
impl<B: Backend, T: Element, const R: usize> DeviceInput<B, T, R> for &Tensor<B, T, R> {
    fn source(&self) -> Source<'_, B> {
        Source::of_view(self.view().into())
    }
}
/// By value it is released when the call returns.
impl<B: Backend, T: Element, const R: usize> DeviceInput<B, T, R> for OutTensor<'_, B, T, R> {
    fn source(&self) -> Source<'_, B> {
        match self.place() {
            Some(place) => Source::new::<T, R>(At::Lent(place), self.dims()),
            None => Source::of_view(self.view().into()),
        }
    }
}
/// By reference it stays held.
impl<B: Backend, T: Element, const R: usize> DeviceInput<B, T, R> for &OutTensor<'_, B, T, R> {
    fn source(&self) -> Source<'_, B> {
        OutTensor::source(self)
    }
}
