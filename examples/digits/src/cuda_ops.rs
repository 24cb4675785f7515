//! The operations on CUDA: the shared kernels, and those of `kernels/digits.cu`.

use graph_core::{Elem::F32, In, Out, Result};
use graph_cuda::{Arg, Cuda, Kernel, KernelSource, Stream};
use model_support::cuda::{self, MOST_HEAD_DIM, THREADS, blocks, check, kernel, size};

use crate::{DigitsOps, TOKENS};

/// The model's own kernels.
pub static DIGITS: KernelSource = KernelSource {
    name: "digits.cu",
    text: include_str!("../kernels/digits.cu"),
    headers: cuda::HEADERS,
    options: cuda::OPTIONS,
    kernels: &[
        Kernel::new(
            "attend",
            &[Arg::Out(F32), Arg::In(F32), Arg::In(F32), Arg::In(F32), Arg::U32, Arg::U32, Arg::F32],
        ),
        Kernel::new("silu", &[Arg::Out(F32), Arg::In(F32), Arg::U32]),
        Kernel::new("mean", &[Arg::Out(F32), Arg::In(F32), Arg::U32, Arg::U32]),
    ],
};

impl DigitsOps for Cuda {
    type Kernels = cuda::Kernels;

    fn kernels(device: &Cuda) -> Result<cuda::Kernels> {
        cuda::load(device, &[&DIGITS])
    }

    fn linear(
        stream: &Stream,
        x: In<'_, Cuda, f32, 2>,
        weight: In<'_, Cuda, f32, 2>,
        y: Out<'_, Cuda, f32, 2>,
    ) -> Result<()> {
        cuda::linear(stream, x, weight, y)
    }

    fn add(
        stream: &Stream,
        a: In<'_, Cuda, f32, 2>,
        b: In<'_, Cuda, f32, 2>,
        y: Out<'_, Cuda, f32, 2>,
    ) -> Result<()> {
        cuda::add(stream, a, b, y)
    }

    fn rms_norm(
        stream: &Stream,
        x: In<'_, Cuda, f32, 2>,
        weight: In<'_, Cuda, f32, 1>,
        eps: f32,
        y: Out<'_, Cuda, f32, 2>,
    ) -> Result<()> {
        cuda::rms_norm(stream, x, weight, eps, y)
    }

    fn attend(
        stream: &Stream,
        q: In<'_, Cuda, f32, 2>,
        keys: In<'_, Cuda, f32, 2>,
        values: In<'_, Cuda, f32, 2>,
        heads: usize,
        y: Out<'_, Cuda, f32, 2>,
    ) -> Result<()> {
        let [tokens, width] = q.dims();
        let same = [keys.dims(), values.dims(), y.dims()] == [q.dims(); 3];
        let heads_fit = heads > 0 && width % heads == 0 && width / heads <= MOST_HEAD_DIM;
        let fits = same && heads_fit && tokens % TOKENS == 0;
        check("attend", fits, &[&q.dims(), &keys.dims(), &values.dims(), &[heads], &y.dims()])?;
        if q.is_empty() {
            return Ok(());
        }
        let head_dim = width / heads;
        let scale = 1.0 / (head_dim as f32).sqrt();
        let (tokens, width, heads, head_dim) = (size(tokens)?, size(width)?, size(heads)?, size(head_dim)?);
        let attend = kernel(stream, &DIGITS, "attend")?;
        let launch = attend.on(stream).grid([tokens, heads, 1]).block([32, 1, 1]);
        let launch = launch.arg(y).arg(q).arg(keys).arg(values);
        // SAFETY: all views are [tokens, width], of whole images and whole heads, and a block has one token and head.
        unsafe { launch.arg(width).arg(head_dim).arg(scale).launch() }
    }

    fn silu(stream: &Stream, x: In<'_, Cuda, f32, 2>, y: Out<'_, Cuda, f32, 2>) -> Result<()> {
        check("silu", x.dims() == y.dims(), &[&x.dims(), &y.dims()])?;
        let count = size(x.len())?;
        let silu = kernel(stream, &DIGITS, "silu")?;
        let launch = silu.on(stream).grid(blocks(count)).block([THREADS, 1, 1]);
        // SAFETY: both views have `count` elements.
        unsafe { launch.arg(y).arg(x).arg(count).launch() }
    }

    fn mean(stream: &Stream, x: In<'_, Cuda, f32, 2>, y: Out<'_, Cuda, f32, 2>) -> Result<()> {
        let ([tokens, width], [images, other]) = (x.dims(), y.dims());
        check("mean", tokens == images * TOKENS && other == width, &[&x.dims(), &y.dims()])?;
        let (count, width) = (size(images * width)?, size(width)?);
        let mean = kernel(stream, &DIGITS, "mean")?;
        let launch = mean.on(stream).grid(blocks(count)).block([THREADS, 1, 1]);
        // SAFETY: `y` has `count` elements in rows of `width`, and `x` has 16 rows for each of them.
        unsafe { launch.arg(y).arg(x).arg(count).arg(width).launch() }
    }
}
