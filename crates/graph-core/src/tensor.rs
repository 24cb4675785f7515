//! Tensors typed by backend, element and rank, and views of them.

use std::{fmt, marker::PhantomData, ops::Range};

use crate::{Backend, Elem, Element, ErrorKind, Result};

/// Axes of a tensor at the most.
pub const MAX_RANK: usize = 4;

/// Device memory with an element and a rank. Clones share the memory.
///
/// ```
/// use graph_core::{Backend, Tensor};
/// use graph_host::Host;
///
/// let host = Host::new();
/// let stream = host.stream()?;
/// let x = Tensor::from_slice(&host, &stream, &[1.0_f32, 2.0, 3.0, 4.0], [2, 2])?;
/// let y = Tensor::<Host, f32, 2>::zeros(&host, &stream, [2, 2])?;
/// y.view_mut().rows(1..2)?.copy_from(&stream, x.view().rows(0..1)?)?;
/// assert_eq!(y.to_vec(&stream)?, [0.0, 0.0, 1.0, 2.0]);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Tensor<B: Backend, T, const R: usize> {
    buffer: B::Buffer,
    offset: usize,
    dims: [usize; R],
    element: PhantomData<T>,
}

impl<B: Backend, T, const R: usize> Clone for Tensor<B, T, R> {
    fn clone(&self) -> Self {
        Tensor { buffer: self.buffer.clone(), offset: self.offset, dims: self.dims, element: PhantomData }
    }
}

impl<B: Backend, T: Element, const R: usize> Tensor<B, T, R> {
    /// Memory with unspecified contents.
    ///
    /// # Errors
    /// What the backend reports.
    pub fn alloc(device: &B, dims: [usize; R]) -> Result<Self> {
        Ok(Self::at(device.alloc(bytes_of::<T>(&dims))?, 0, dims))
    }

    /// Zeros.
    ///
    /// # Errors
    /// What the backend reports.
    pub fn zeros(device: &B, stream: &B::Stream, dims: [usize; R]) -> Result<Self> {
        let tensor = Self::alloc(device, dims)?;
        B::zero(stream, &tensor.buffer, 0, bytes_of::<T>(&dims))?;
        Ok(tensor)
    }

    /// A copy of host data in row-major order.
    ///
    /// # Errors
    /// [`DataLength`](ErrorKind::DataLength) where the data are not as many as the dimensions say; what the backend
    /// reports.
    pub fn from_slice(device: &B, stream: &B::Stream, data: &[T], dims: [usize; R]) -> Result<Self> {
        let want = elements(&dims);
        if data.len() != want {
            return Err(ErrorKind::DataLength { len: data.len(), dims: dims.to_vec(), want }.into());
        }
        let tensor = Self::alloc(device, dims)?;
        B::upload(stream, bytemuck::cast_slice(data), &tensor.buffer, 0)?;
        Ok(tensor)
    }

    pub(crate) fn at(buffer: B::Buffer, offset: usize, dims: [usize; R]) -> Self {
        Tensor { buffer, offset, dims, element: PhantomData }
    }

    /// Its memory and the first byte within it.
    pub(crate) fn into_memory(self) -> (B::Buffer, usize) {
        (self.buffer, self.offset)
    }

    /// A view to read.
    pub fn view(&self) -> In<'_, B, T, R> {
        In { buffer: &self.buffer, offset: self.offset, dims: self.dims, element: PhantomData }
    }

    /// A view to write.
    pub fn view_mut(&self) -> Out<'_, B, T, R> {
        Out(self.view())
    }

    /// Its dimensions.
    pub fn dims(&self) -> [usize; R] {
        self.dims
    }

    /// Copies it to the host; waits for the stream.
    ///
    /// # Errors
    /// What the backend reports; a stream that captures refuses.
    pub fn to_vec(&self, stream: &B::Stream) -> Result<Vec<T>> {
        self.view().to_vec(stream)
    }
}

impl<B: Backend, T: Element, const R: usize> fmt::Debug for Tensor<B, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor<{}, {}>{:?}", B::NAME, T::ELEM.name(), self.dims)
    }
}

/// A read-only view: what a forward gets for an input.
///
/// ```
/// use graph_core::{Backend, In, Result, Tensor};
/// use graph_host::Host;
///
/// // Rank and element are part of the type: a vector or integers do not compile here.
/// fn last_row(x: In<'_, Host, f32, 2>) -> Result<In<'_, Host, f32, 2>> {
///     let [rows, _] = x.dims();
///     x.rows(rows - 1..rows)
/// }
/// let host = Host::new();
/// let stream = host.stream()?;
/// let x = Tensor::from_slice(&host, &stream, &[1.0, 2.0, 3.0, 4.0], [2, 2])?;
/// assert_eq!(last_row(x.view())?.to_vec(&stream)?, [3.0, 4.0]);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct In<'a, B: Backend, T, const R: usize> {
    buffer: &'a B::Buffer,
    offset: usize,
    dims: [usize; R],
    element: PhantomData<T>,
}

impl<B: Backend, T, const R: usize> Clone for In<'_, B, T, R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<B: Backend, T, const R: usize> Copy for In<'_, B, T, R> {}

impl<B: Backend, T: Element, const R: usize> fmt::Debug for In<'_, B, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "In<{}, {}>{:?}", B::NAME, T::ELEM.name(), self.dims)
    }
}

impl<'a, B: Backend, T: Element, const R: usize> In<'a, B, T, R> {
    pub(crate) fn at(buffer: &'a B::Buffer, offset: usize, dims: [usize; R]) -> Self {
        In { buffer, offset, dims, element: PhantomData }
    }

    /// Its dimensions.
    pub fn dims(&self) -> [usize; R] {
        self.dims
    }

    /// Its number of elements.
    pub fn len(&self) -> usize {
        elements(&self.dims)
    }

    /// Whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory, for a backend's ops.
    pub fn buffer(&self) -> &'a B::Buffer {
        self.buffer
    }

    /// The first byte within [`buffer`](Self::buffer).
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Some of its rows (indices of the first axis).
    ///
    /// # Errors
    /// [`OutOfBounds`](ErrorKind::OutOfBounds) for rows that there are not.
    pub fn rows(&self, rows: Range<usize>) -> Result<Self> {
        let mut part = *self;
        let row = bytes_of::<T>(self.dims.get(1..).unwrap_or(&[]));
        match part.dims.first_mut() {
            Some(all) if rows.start <= rows.end && rows.end <= *all => *all = rows.len(),
            all => {
                let bytes = all.map_or(0, |all| all.saturating_mul(row));
                let (from, to) = (rows.start.saturating_mul(row), rows.end.saturating_mul(row));
                return Err(ErrorKind::OutOfBounds { what: "rows of a view", from, to, bytes }.into());
            }
        }
        part.offset += rows.start * row;
        Ok(part)
    }

    /// Copies it to the host; waits for the stream.
    ///
    /// # Errors
    /// What the backend reports; a stream that captures refuses.
    pub fn to_vec(&self, stream: &B::Stream) -> Result<Vec<T>> {
        let mut data = vec![T::zeroed(); self.len()];
        B::download(stream, self.buffer, self.offset, bytemuck::cast_slice_mut(&mut data))?;
        Ok(data)
    }

    fn any(self) -> AnyView<'a, B> {
        AnyView {
            buffer: self.buffer,
            offset: self.offset,
            elem: T::ELEM,
            dims: all_axes(self.dims),
            rank: R,
        }
    }
}

/// A view to write: what a forward gets for an output. `Copy`; hazards between kernels are for the backend to check,
/// from the ranges that they name.
///
/// ```
/// use graph_core::{Backend, In, Out, Result, Tensor};
/// use graph_host::{Host, Stream};
///
/// // An op: what it reads, and where it writes.
/// fn double(stream: &Stream, x: In<'_, Host, f32, 1>, y: Out<'_, Host, f32, 1>) -> Result<()> {
///     stream.kernel("double", (x,), (y,), |(x,), (y,)| {
///         y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
///     })
/// }
/// let host = Host::new();
/// let stream = host.stream()?;
/// let x = Tensor::from_slice(&host, &stream, &[1.0, 2.0], [2])?;
/// let y = Tensor::alloc(&host, [2])?;
/// double(&stream, x.view(), y.view_mut())?;
/// assert_eq!(y.to_vec(&stream)?, [2.0, 4.0]);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Out<'a, B: Backend, T, const R: usize>(In<'a, B, T, R>);

impl<B: Backend, T, const R: usize> Clone for Out<'_, B, T, R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<B: Backend, T, const R: usize> Copy for Out<'_, B, T, R> {}

impl<B: Backend, T: Element, const R: usize> fmt::Debug for Out<'_, B, T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Out<{}, {}>{:?}", B::NAME, T::ELEM.name(), self.dims())
    }
}

impl<'a, B: Backend, T: Element, const R: usize> Out<'a, B, T, R> {
    /// The same to read.
    pub fn read(&self) -> In<'a, B, T, R> {
        self.0
    }

    /// Its dimensions.
    pub fn dims(&self) -> [usize; R] {
        self.0.dims
    }

    /// Some of its rows (indices of the first axis).
    ///
    /// # Errors
    /// [`OutOfBounds`](ErrorKind::OutOfBounds) for rows that there are not.
    pub fn rows(&self, rows: Range<usize>) -> Result<Self> {
        self.0.rows(rows).map(Out)
    }

    /// Copies `src` here, on the device.
    ///
    /// # Errors
    /// [`DataLength`](ErrorKind::DataLength) where the dimensions differ; what the backend reports.
    pub fn copy_from(&self, stream: &B::Stream, src: In<'_, B, T, R>) -> Result<()> {
        if src.dims != self.0.dims {
            let want = elements(&src.dims);
            return Err(ErrorKind::DataLength { len: self.0.len(), dims: src.dims.to_vec(), want }.into());
        }
        B::copy(stream, (src.buffer, src.offset), (self.0.buffer, self.0.offset), bytes_of::<T>(&src.dims))
    }
}

/// A view whose element and rank are data: what the executor moves around.
///
/// ```
/// use graph_core::{AnyView, Backend, Elem, Tensor};
/// use graph_host::Host;
///
/// let host = Host::new();
/// let x = Tensor::from_slice(&host, &host.stream()?, &[1.0_f32, 2.0], [2])?;
/// let view = AnyView::from(x.view());
/// assert_eq!((view.elem(), view.dims()), (Elem::F32, &[2][..]));
/// assert!(view.typed::<f32, 1>().is_some());
/// assert!(view.typed::<i32, 1>().is_none() && view.typed::<f32, 2>().is_none());
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct AnyView<'a, B: Backend> {
    pub(crate) buffer: &'a B::Buffer,
    pub(crate) offset: usize,
    pub(crate) elem: Elem,
    pub(crate) dims: [usize; MAX_RANK],
    pub(crate) rank: usize,
}

impl<B: Backend> Clone for AnyView<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<B: Backend> Copy for AnyView<'_, B> {}

impl<B: Backend> fmt::Debug for AnyView<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyView<{}, {}>{:?}", B::NAME, self.elem.name(), self.dims())
    }
}

impl<'a, B: Backend> AnyView<'a, B> {
    /// Its dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank]
    }

    /// Its element.
    pub fn elem(&self) -> Elem {
        self.elem
    }

    /// Typed, or `None` where element or rank differ.
    pub fn typed<T: Element, const R: usize>(&self) -> Option<In<'a, B, T, R>> {
        if (T::ELEM, R) != (self.elem, self.rank) {
            return None;
        }
        let mut dims = [0; R];
        dims.copy_from_slice(self.dims());
        Some(In { buffer: self.buffer, offset: self.offset, dims, element: PhantomData })
    }

    /// Typed and writable, or `None` where element or rank differ.
    pub fn typed_mut<T: Element, const R: usize>(&self) -> Option<Out<'a, B, T, R>> {
        self.typed().map(Out)
    }
}

impl<'a, B: Backend, T: Element, const R: usize> From<In<'a, B, T, R>> for AnyView<'a, B> {
    fn from(view: In<'a, B, T, R>) -> Self {
        view.any()
    }
}

pub(crate) fn bytes_of<T: Element>(dims: &[usize]) -> usize {
    elements(dims).saturating_mul(T::ELEM.bytes())
}

/// Elements of a tensor. Dimensions whose product is beyond `usize` give `usize::MAX`, which no allocation has, where a
/// product that wraps would give a tensor that is larger than its memory.
pub(crate) fn elements(dims: &[usize]) -> usize {
    dims.iter().fold(1, |n, d| n.saturating_mul(*d))
}

/// Dimensions as data. More axes than a tensor may have do not compile.
pub(crate) fn all_axes<const R: usize>(d: [usize; R]) -> [usize; MAX_RANK] {
    const { assert!(R <= MAX_RANK, "a tensor has at most 4 axes") };
    let mut dims = [0; MAX_RANK];
    dims[..R].copy_from_slice(&d);
    dims
}
