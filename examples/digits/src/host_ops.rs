//! The operations on the CPU: each is one kernel over slices of `f32`, rounded at the end where the activations are not.

use graph_core::{In, Out, Result, Tensor};
use graph_host::{Host, Stream};
use model_support::{Activation, Stored};

use crate::{DigitsOps, kernels};

impl DigitsOps for Host {
    type Kernels = ();
    /// Widened: the products would do it at every use.
    type Weight = Tensor<Host, f32, 2>;

    fn kernels(_device: &Host) -> Result<()> {
        Ok(())
    }

    fn weight(
        _kernels: &(),
        device: &Host,
        stream: &Stream,
        stored: &Stored,
        dims: [usize; 2],
    ) -> Result<Self::Weight> {
        Tensor::from_slice(device, stream, &stored.widened(), dims)
    }

    fn linear<X: Activation, Y: Activation>(
        stream: &Stream,
        x: In<'_, Host, X, 2>,
        weight: &Self::Weight,
        y: Out<'_, Host, Y, 2>,
    ) -> Result<()> {
        let [_, inner] = x.dims();
        stream.kernel("linear", (x, weight.view()), (y,), move |(x, weight), (y,)| {
            Y::write(y, |y| kernels::linear(&X::widen(x), weight, inner, y));
        })
    }

    fn add<A: Activation>(
        stream: &Stream,
        a: In<'_, Host, A, 2>,
        b: In<'_, Host, A, 2>,
        y: Out<'_, Host, A, 2>,
    ) -> Result<()> {
        stream.kernel("add", (a, b), (y,), |(a, b), (y,)| {
            A::write(y, |y| kernels::add(&A::widen(a), &A::widen(b), y));
        })
    }

    fn add_bias<A: Activation>(
        stream: &Stream,
        a: In<'_, Host, A, 2>,
        bias: In<'_, Host, f32, 2>,
        y: Out<'_, Host, A, 2>,
    ) -> Result<()> {
        stream.kernel("add_bias", (a, bias), (y,), |(a, bias), (y,)| {
            A::write(y, |y| kernels::add(&A::widen(a), bias, y));
        })
    }

    fn rms_norm<A: Activation>(
        stream: &Stream,
        x: In<'_, Host, A, 2>,
        weight: In<'_, Host, f32, 1>,
        eps: f32,
        y: Out<'_, Host, A, 2>,
    ) -> Result<()> {
        stream.kernel("rms_norm", (x, weight), (y,), move |(x, weight), (y,)| {
            A::write(y, |y| kernels::rms_norm(&A::widen(x), weight, eps, y));
        })
    }

    fn attend<A: Activation>(
        stream: &Stream,
        q: In<'_, Host, A, 2>,
        keys: In<'_, Host, A, 2>,
        values: In<'_, Host, A, 2>,
        heads: usize,
        y: Out<'_, Host, A, 2>,
    ) -> Result<()> {
        let [_, width] = q.dims();
        stream.kernel("attend", (q, keys, values), (y,), move |(q, keys, values), (y,)| {
            let (q, keys, values) = (A::widen(q), A::widen(keys), A::widen(values));
            A::write(y, |y| kernels::attend(&q, &keys, &values, heads, width, y));
        })
    }

    fn silu<A: Activation>(stream: &Stream, x: In<'_, Host, A, 2>, y: Out<'_, Host, A, 2>) -> Result<()> {
        stream.kernel("silu", (x,), (y,), |(x,), (y,)| A::write(y, |y| kernels::silu(&A::widen(x), y)))
    }

    fn mean<A: Activation>(stream: &Stream, x: In<'_, Host, A, 2>, y: Out<'_, Host, A, 2>) -> Result<()> {
        let [_, width] = x.dims();
        stream.kernel("mean", (x,), (y,), move |(x,), (y,)| {
            A::write(y, |y| kernels::mean(&A::widen(x), width, y));
        })
    }
}
