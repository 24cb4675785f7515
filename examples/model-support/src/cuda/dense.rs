//! Launches of the kernels that both plugins use.

use graph_core::{In, Out, Result};
use graph_cuda::{Cuda, Stream};

use super::{
    LINEAR, Matrix, ROWWISE, THREADS, Weight,
    launch::{blocks, check, kernel, size},
};
use crate::{
    Activation,
    Activations::{Bf16, F32},
};

/// Rows and columns of `linear.cu`'s tiles, and its threads.
const TILE_ROWS: u32 = 16;
const TILE_COLS: u32 = 32;
const TILE_THREADS: u32 = 128;
/// Threads of a row of `rms_norm`.
const NORM_THREADS: u32 = 128;

/// `y = x W^T`, in any elements. With the feature `cublas` by cuBLAS, where it takes them.
///
/// # Errors
/// Dimensions that do not fit together; as every launch.
pub fn linear<X: Activation, Y: Activation>(
    stream: &Stream,
    x: In<'_, Cuda, X, 2>,
    weight: &Weight,
    y: Out<'_, Cuda, Y, 2>,
) -> Result<()> {
    #[cfg(feature = "cublas")]
    if let Some(done) = weight.blas.linear(stream, x, weight.matrix(), y) {
        return done;
    }
    match weight.matrix() {
        Matrix::F32(matrix) => product(stream, x, matrix.view(), y),
        Matrix::Bf16(matrix) => product(stream, x, matrix.view(), y),
    }
}

fn product<X: Activation, W: Activation, Y: Activation>(
    stream: &Stream,
    x: In<'_, Cuda, X, 2>,
    matrix: In<'_, Cuda, W, 2>,
    y: Out<'_, Cuda, Y, 2>,
) -> Result<()> {
    let ([rows, inner], [outer, depth]) = (x.dims(), matrix.dims());
    let fits = depth == inner && y.dims() == [rows, outer];
    check("linear", fits, &[&x.dims(), &matrix.dims(), &y.dims()])?;
    if rows * outer == 0 {
        return Ok(());
    }
    let name = match (X::ACTIVATIONS, W::ACTIVATIONS, Y::ACTIVATIONS) {
        (F32, F32, F32) => "linear_f32_f32",
        (F32, Bf16, F32) => "linear_f32_bf16",
        (Bf16, F32, Bf16) => "linear_bf16_f32",
        (Bf16, Bf16, Bf16) => "linear_bf16_bf16",
        (Bf16, F32, F32) => "linear_bf16_f32_f32",
        (Bf16, Bf16, F32) => "linear_bf16_bf16_f32",
        (F32, F32, Bf16) => "linear_f32_f32_bf16",
        (F32, Bf16, Bf16) => "linear_f32_bf16_bf16",
    };
    let (rows, inner, outer) = (size(rows)?, size(inner)?, size(outer)?);
    let linear = kernel(stream, &LINEAR, name)?;
    let grid = [outer.div_ceil(TILE_COLS), rows.div_ceil(TILE_ROWS), 1];
    let launch = linear.on(stream).grid(grid).block([TILE_THREADS, 1, 1]);
    // SAFETY: the sizes are those of the views, as checked, and the kernel stays within them in any grid.
    unsafe { launch.arg(y).arg(x).arg(matrix).arg(rows).arg(inner).arg(outer).launch() }
}

/// `y = x * rsqrt(mean(x^2) + eps) * weight`, row by row.
///
/// # Errors
/// Dimensions that do not fit together; as every launch.
pub fn rms_norm<X: Activation, Y: Activation>(
    stream: &Stream,
    x: In<'_, Cuda, X, 2>,
    weight: In<'_, Cuda, f32, 1>,
    eps: f32,
    y: Out<'_, Cuda, Y, 2>,
) -> Result<()> {
    let [rows, width] = x.dims();
    let fits = weight.dims() == [width] && y.dims() == [rows, width];
    check("rms_norm", fits, &[&x.dims(), &weight.dims(), &y.dims()])?;
    if rows * width == 0 {
        return Ok(());
    }
    let (rows, width) = (size(rows)?, size(width)?);
    let name = match (X::ACTIVATIONS, Y::ACTIVATIONS) {
        (F32, F32) => "rms_norm_f32",
        (Bf16, Bf16) => "rms_norm_bf16",
        (F32, Bf16) => "rms_norm_f32_bf16",
        (Bf16, F32) => "rms_norm_bf16_f32",
    };
    let rms_norm = kernel(stream, &ROWWISE, name)?;
    let launch = rms_norm.on(stream).grid([rows, 1, 1]).block([NORM_THREADS, 1, 1]);
    // SAFETY: a block has one of the `rows` rows of `x` and `y`, all as wide as the weight.
    unsafe { launch.arg(y).arg(x).arg(weight).arg(eps).arg(width).launch() }
}

/// `y = a + b`; the rows of `b` repeat where `a` has more.
///
/// # Errors
/// Dimensions that do not fit together; as every launch.
pub fn add<A: Activation>(
    stream: &Stream,
    a: In<'_, Cuda, A, 2>,
    b: In<'_, Cuda, A, 2>,
    y: Out<'_, Cuda, A, 2>,
) -> Result<()> {
    sum(stream, A::ACTIVATIONS.pick("add_f32_f32", "add_bf16_bf16"), a, b, y)
}

/// The same with a bias, or another vector of the model, which are `f32` with any activations.
///
/// # Errors
/// Dimensions that do not fit together; as every launch.
pub fn add_bias<A: Activation>(
    stream: &Stream,
    a: In<'_, Cuda, A, 2>,
    bias: In<'_, Cuda, f32, 2>,
    y: Out<'_, Cuda, A, 2>,
) -> Result<()> {
    sum(stream, A::ACTIVATIONS.pick("add_f32_f32", "add_bf16_f32"), a, bias, y)
}

/// The same with a product that was not rounded.
///
/// # Errors
/// Dimensions that do not fit together; as every launch.
pub fn add_product<A: Activation, Y: Activation>(
    stream: &Stream,
    a: In<'_, Cuda, A, 2>,
    product: In<'_, Cuda, f32, 2>,
    y: Out<'_, Cuda, Y, 2>,
) -> Result<()> {
    let name = match (A::ACTIVATIONS, Y::ACTIVATIONS) {
        (F32, F32) => "add_f32_f32",
        (Bf16, Bf16) => "add_bf16_f32",
        (Bf16, F32) => "add_bf16_f32_f32",
        (F32, Bf16) => "add_f32_f32_bf16",
    };
    sum(stream, name, a, product, y)
}

fn sum<A: Activation, B: Activation, Y: Activation>(
    stream: &Stream,
    name: &str,
    a: In<'_, Cuda, A, 2>,
    b: In<'_, Cuda, B, 2>,
    y: Out<'_, Cuda, Y, 2>,
) -> Result<()> {
    let ([_, width], [period, other]) = (a.dims(), b.dims());
    let fits = y.dims() == a.dims() && other == width;
    check("add", fits, &[&a.dims(), &b.dims(), &y.dims()])?;
    if a.is_empty() {
        return Ok(());
    }
    check("add", period > 0, &[&a.dims(), &b.dims()])?;
    let (count, period) = (size(a.len())?, size(b.len())?);
    let add = kernel(stream, &ROWWISE, name)?;
    let launch = add.on(stream).grid(blocks(count)).block([THREADS, 1, 1]);
    // SAFETY: `a` and `y` have `count` elements, `b` has `period`, and one at least.
    unsafe { launch.arg(y).arg(a).arg(b).arg(count).arg(period).launch() }
}
