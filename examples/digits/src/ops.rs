//! What the model asks of a backend. A backend that implements this runs the model.

use graph_core::{Backend, In, Out, Result};

/// The operations of the model. All matrices are row-major, weights are `[out, in]`.
pub trait DigitsOps: Backend {
    /// What the operations need on a device, such as compiled kernels. A model loads and keeps it.
    type Kernels: Send + Sync + 'static;

    /// Loads it; the operations find it by their stream's device.
    fn kernels(device: &Self) -> Result<Self::Kernels>;

    /// `y = x W^T`.
    fn linear(
        stream: &Self::Stream,
        x: In<'_, Self, f32, 2>,
        weight: In<'_, Self, f32, 2>,
        y: Out<'_, Self, f32, 2>,
    ) -> Result<()>;

    /// `y = a + b`; the rows of `b` repeat where `a` has more.
    fn add(
        stream: &Self::Stream,
        a: In<'_, Self, f32, 2>,
        b: In<'_, Self, f32, 2>,
        y: Out<'_, Self, f32, 2>,
    ) -> Result<()>;

    /// `y = x * rsqrt(mean(x^2) + eps) * weight`, row by row.
    fn rms_norm(
        stream: &Self::Stream,
        x: In<'_, Self, f32, 2>,
        weight: In<'_, Self, f32, 1>,
        eps: f32,
        y: Out<'_, Self, f32, 2>,
    ) -> Result<()>;

    /// Attention of each token over all tokens of its image.
    fn attend(
        stream: &Self::Stream,
        q: In<'_, Self, f32, 2>,
        keys: In<'_, Self, f32, 2>,
        values: In<'_, Self, f32, 2>,
        heads: usize,
        y: Out<'_, Self, f32, 2>,
    ) -> Result<()>;

    /// `y = x / (1 + exp(-x))`.
    fn silu(stream: &Self::Stream, x: In<'_, Self, f32, 2>, y: Out<'_, Self, f32, 2>) -> Result<()>;

    /// The mean of each image's tokens.
    fn mean(stream: &Self::Stream, x: In<'_, Self, f32, 2>, y: Out<'_, Self, f32, 2>) -> Result<()>;
}
