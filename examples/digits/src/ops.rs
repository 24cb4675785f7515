//! What the model asks of a backend. A backend that implements this runs the model.

use graph_core::{Backend, In, Out, Result};
use model_support::{Activation, Stored};

/// The operations of the model. All matrices are row-major, weights are `[out, in]`. Sums are in `f32` with any
/// activations, and each operation rounds once, at its end.
pub trait DigitsOps: Backend {
    /// What the operations need on a device, such as compiled kernels. A model loads and keeps it.
    type Kernels: Send + Sync + 'static;
    /// A matrix of weights on a device.
    type Weight: Send + Sync + 'static;

    /// Loads it; the operations find it by their stream's device.
    fn kernels(device: &Self) -> Result<Self::Kernels>;

    /// Puts weights on a device, none of them rounded.
    fn weight(
        kernels: &Self::Kernels,
        device: &Self,
        stream: &Self::Stream,
        stored: &Stored,
        dims: [usize; 2],
    ) -> Result<Self::Weight>;

    /// `y = x W^T`.
    fn linear<X: Activation, Y: Activation>(
        stream: &Self::Stream,
        x: In<'_, Self, X, 2>,
        weight: &Self::Weight,
        y: Out<'_, Self, Y, 2>,
    ) -> Result<()>;

    /// `y = a + b`.
    fn add<A: Activation>(
        stream: &Self::Stream,
        a: In<'_, Self, A, 2>,
        b: In<'_, Self, A, 2>,
        y: Out<'_, Self, A, 2>,
    ) -> Result<()>;

    /// `y = a + bias`; the rows of the bias repeat where `a` has more.
    fn add_bias<A: Activation>(
        stream: &Self::Stream,
        a: In<'_, Self, A, 2>,
        bias: In<'_, Self, f32, 2>,
        y: Out<'_, Self, A, 2>,
    ) -> Result<()>;

    /// `y = x * rsqrt(mean(x^2) + eps) * weight`, row by row.
    fn rms_norm<A: Activation>(
        stream: &Self::Stream,
        x: In<'_, Self, A, 2>,
        weight: In<'_, Self, f32, 1>,
        eps: f32,
        y: Out<'_, Self, A, 2>,
    ) -> Result<()>;

    /// Attention of each token over all tokens of its image.
    fn attend<A: Activation>(
        stream: &Self::Stream,
        q: In<'_, Self, A, 2>,
        keys: In<'_, Self, A, 2>,
        values: In<'_, Self, A, 2>,
        heads: usize,
        y: Out<'_, Self, A, 2>,
    ) -> Result<()>;

    /// `y = x / (1 + exp(-x))`.
    fn silu<A: Activation>(
        stream: &Self::Stream,
        x: In<'_, Self, A, 2>,
        y: Out<'_, Self, A, 2>,
    ) -> Result<()>;

    /// The mean of each image's tokens.
    fn mean<A: Activation>(
        stream: &Self::Stream,
        x: In<'_, Self, A, 2>,
        y: Out<'_, Self, A, 2>,
    ) -> Result<()>;
}
