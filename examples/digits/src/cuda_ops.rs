//! The operations on CUDA: the shared kernels, and those of `kernels/digits.cu`.

use graph_core::{
    Elem::{self, BF16, F32},
    In, Out, Result,
};
use graph_cuda::{Arg, Cuda, Kernel, KernelSource, Stream};
use model_support::{
    Activation, Stored,
    cuda::{self, MOST_HEAD_DIM, THREADS, Weight, blocks, check, kernel, size},
};

use crate::{DigitsOps, TOKENS};

/// The model's own kernels.
pub static DIGITS: KernelSource = KernelSource {
    name: "digits.cu",
    text: include_str!("../kernels/digits.cu"),
    headers: cuda::HEADERS,
    options: cuda::OPTIONS,
    kernels: &[
        Kernel::new("attend_f32", &attend(F32)),
        Kernel::new("attend_bf16", &attend(BF16)),
        Kernel::new("silu_f32", &silu(F32)),
        Kernel::new("silu_bf16", &silu(BF16)),
        Kernel::new("mean_f32", &mean(F32)),
        Kernel::new("mean_bf16", &mean(BF16)),
    ],
};

const fn attend(of: Elem) -> [Arg; 7] {
    [Arg::Out(of), Arg::In(of), Arg::In(of), Arg::In(of), Arg::U32, Arg::U32, Arg::F32]
}

const fn silu(of: Elem) -> [Arg; 3] {
    [Arg::Out(of), Arg::In(of), Arg::U32]
}

const fn mean(of: Elem) -> [Arg; 4] {
    [Arg::Out(of), Arg::In(of), Arg::U32, Arg::U32]
}

impl DigitsOps for Cuda {
    type Kernels = cuda::Kernels;
    type Weight = Weight;

    fn kernels(device: &Cuda) -> Result<cuda::Kernels> {
        cuda::load(device, &[&DIGITS])
    }

    fn weight(
        kernels: &cuda::Kernels,
        device: &Cuda,
        stream: &Stream,
        stored: &Stored,
        dims: [usize; 2],
    ) -> Result<Weight> {
        kernels.weight(device, stream, stored, dims)
    }

    fn linear<X: Activation, Y: Activation>(
        stream: &Stream,
        x: In<'_, Cuda, X, 2>,
        weight: &Weight,
        y: Out<'_, Cuda, Y, 2>,
    ) -> Result<()> {
        cuda::linear(stream, x, weight, y)
    }

    fn add<A: Activation>(
        stream: &Stream,
        a: In<'_, Cuda, A, 2>,
        b: In<'_, Cuda, A, 2>,
        y: Out<'_, Cuda, A, 2>,
    ) -> Result<()> {
        cuda::add(stream, a, b, y)
    }

    fn add_bias<A: Activation>(
        stream: &Stream,
        a: In<'_, Cuda, A, 2>,
        bias: In<'_, Cuda, f32, 2>,
        y: Out<'_, Cuda, A, 2>,
    ) -> Result<()> {
        cuda::add_bias(stream, a, bias, y)
    }

    fn rms_norm<A: Activation>(
        stream: &Stream,
        x: In<'_, Cuda, A, 2>,
        weight: In<'_, Cuda, f32, 1>,
        eps: f32,
        y: Out<'_, Cuda, A, 2>,
    ) -> Result<()> {
        cuda::rms_norm(stream, x, weight, eps, y)
    }

    fn attend<A: Activation>(
        stream: &Stream,
        q: In<'_, Cuda, A, 2>,
        keys: In<'_, Cuda, A, 2>,
        values: In<'_, Cuda, A, 2>,
        heads: usize,
        y: Out<'_, Cuda, A, 2>,
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
        let attend = kernel(stream, &DIGITS, A::ACTIVATIONS.pick("attend_f32", "attend_bf16"))?;
        let launch = attend.on(stream).grid([tokens, heads, 1]).block([32, 1, 1]);
        let launch = launch.arg(y).arg(q).arg(keys).arg(values);
        // SAFETY: all views are [tokens, width], of whole images and whole heads, and a block has one token and head.
        unsafe { launch.arg(width).arg(head_dim).arg(scale).launch() }
    }

    fn silu<A: Activation>(stream: &Stream, x: In<'_, Cuda, A, 2>, y: Out<'_, Cuda, A, 2>) -> Result<()> {
        check("silu", x.dims() == y.dims(), &[&x.dims(), &y.dims()])?;
        let count = size(x.len())?;
        let silu = kernel(stream, &DIGITS, A::ACTIVATIONS.pick("silu_f32", "silu_bf16"))?;
        let launch = silu.on(stream).grid(blocks(count)).block([THREADS, 1, 1]);
        // SAFETY: both views have `count` elements.
        unsafe { launch.arg(y).arg(x).arg(count).launch() }
    }

    fn mean<A: Activation>(stream: &Stream, x: In<'_, Cuda, A, 2>, y: Out<'_, Cuda, A, 2>) -> Result<()> {
        let ([tokens, width], [images, other]) = (x.dims(), y.dims());
        check("mean", tokens == images * TOKENS && other == width, &[&x.dims(), &y.dims()])?;
        let (count, width) = (size(images * width)?, size(width)?);
        let mean = kernel(stream, &DIGITS, A::ACTIVATIONS.pick("mean_f32", "mean_bf16"))?;
        let launch = mean.on(stream).grid(blocks(count)).block([THREADS, 1, 1]);
        // SAFETY: `y` has `count` elements in rows of `width`, and `x` has 16 rows for each of them.
        unsafe { launch.arg(y).arg(x).arg(count).arg(width).launch() }
    }
}
