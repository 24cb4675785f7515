//! The kernels of both plugins.

use graph_core::bf16;
use graph_cuda::Cuda;
use model_support::{
    Activation,
    cuda::{self, LINEAR, ROWWISE},
    kernels,
};

use super::{Case, edit, narrowed, stored};
use crate::{Edit, Rig, numbers, rounded, same};

const LINEAR_EDITS: &[Edit] = &[edit("sum[i] = 0.0f", "sum[i] = 0.02f"), edit("TILE_ROWS 16", "TILE_ROWS 8")];
/// Where weights are bf16, that they are read as such.
const BF16_EDITS: &[Edit] =
    &[edit("sum[i] = 0.0f", "sum[i] = 0.02f"), edit("from->bits << 16", "from->bits << 15")];
const NORM_EDITS: &[Edit] = &[edit("1.0f / sqrtf", "1.01f / sqrtf")];

pub(super) const CASES: &[Case] = &[
    Case { kernel: "linear_f32_f32", source: &LINEAR, check: linear::<f32, f32, f32>, edits: LINEAR_EDITS },
    Case { kernel: "linear_f32_bf16", source: &LINEAR, check: linear::<f32, bf16, f32>, edits: BF16_EDITS },
    Case {
        kernel: "linear_bf16_f32",
        source: &LINEAR,
        check: linear::<bf16, f32, bf16>,
        edits: LINEAR_EDITS,
    },
    Case {
        kernel: "linear_bf16_bf16",
        source: &LINEAR,
        check: linear::<bf16, bf16, bf16>,
        edits: &[edit("sum[i] = 0.0f", "sum[i] = 0.02f"), edit("+ 0x7fffu +", "+ 0xffffu +")],
    },
    Case {
        kernel: "linear_bf16_f32_f32",
        source: &LINEAR,
        check: linear::<bf16, f32, f32>,
        edits: LINEAR_EDITS,
    },
    Case {
        kernel: "linear_bf16_bf16_f32",
        source: &LINEAR,
        check: linear::<bf16, bf16, f32>,
        edits: BF16_EDITS,
    },
    Case {
        kernel: "linear_f32_f32_bf16",
        source: &LINEAR,
        check: linear::<f32, f32, bf16>,
        edits: LINEAR_EDITS,
    },
    Case {
        kernel: "linear_f32_bf16_bf16",
        source: &LINEAR,
        check: linear::<f32, bf16, bf16>,
        edits: BF16_EDITS,
    },
    Case { kernel: "rms_norm_f32", source: &ROWWISE, check: rms_norm::<f32, f32>, edits: NORM_EDITS },
    Case { kernel: "rms_norm_bf16", source: &ROWWISE, check: rms_norm::<bf16, bf16>, edits: NORM_EDITS },
    Case { kernel: "rms_norm_f32_bf16", source: &ROWWISE, check: rms_norm::<f32, bf16>, edits: NORM_EDITS },
    Case { kernel: "rms_norm_bf16_f32", source: &ROWWISE, check: rms_norm::<bf16, f32>, edits: NORM_EDITS },
    Case {
        kernel: "add_f32_f32",
        source: &ROWWISE,
        check: add_bias::<f32>,
        edits: &[edit("load(a + i) + load(b", "load(a + i) - load(b")],
    },
    Case {
        kernel: "add_bf16_f32",
        source: &ROWWISE,
        check: add_bias::<bf16>,
        edits: &[edit("load(a + i) + load(b", "load(a + i) - load(b"), edit("i % period", "i % 1")],
    },
    Case {
        kernel: "add_bf16_bf16",
        source: &ROWWISE,
        check: add::<bf16>,
        edits: &[
            edit("load(a + i) + load(b", "load(a + i) - load(b"),
            edit("bits >> 16 & 1", "bits >> 16 & 0"),
        ],
    },
    Case {
        kernel: "add_bf16_f32_f32",
        source: &ROWWISE,
        check: add_product::<bf16, f32>,
        edits: &[edit("load(a + i) + load(b", "load(a + i) - load(b"), edit("bits << 16", "bits << 15")],
    },
    Case {
        kernel: "add_f32_f32_bf16",
        source: &ROWWISE,
        check: add_product::<f32, bf16>,
        edits: &[edit("load(a + i) + load(b", "load(a + i) - load(b"), edit("+ 0x7fffu +", "+ 0xffffu +")],
    },
];

fn linear<X: Activation, W: Activation, Y: Activation>(rig: &Rig) -> Result<(), String> {
    for (rows, inner, outer) in [(1, 128, 64), (7, 352, 128), (16, 37, 5), (33, 64, 10), (3, 1, 1)] {
        let (x, w) = (numbers::<X>(rows * inner, 1), numbers::<W>(outer * inner, 2));
        let mut want = vec![0.0; rows * outer];
        kernels::linear(&X::widen(&x), &W::widen(&w), inner, &mut want);
        let y = rig.out::<Y, 2>([rows, outer]);
        let on_x = rig.up(&x, [rows, inner]);
        let on_w = rig
            .kernels
            .weight(&rig.device, &rig.stream, &stored(&w), [outer, inner])
            .map_err(|e| e.to_string())?;
        cuda::linear(&rig.stream, on_x.view(), &on_w, y.view_mut()).map_err(|e| e.to_string())?;
        let got = rig.down(&y)?;
        rounded(&format!("linear [{rows}, {inner}] x [{outer}, {inner}]"), &got, &want, 2e-5)?;

        let last = rig.out([1, outer]);
        let row = on_x.view().rows(rows - 1..rows).map_err(|e| e.to_string())?;
        cuda::linear(&rig.stream, row, &on_w, last.view_mut()).map_err(|e| e.to_string())?;
        same("linear, the last row alone", &rig.down(&last)?, &got[(rows - 1) * outer..])?;
    }
    Ok(())
}

fn rms_norm<X: Activation, Y: Activation>(rig: &Rig) -> Result<(), String> {
    for (rows, width) in [(1, 128), (5, 37), (3, 300)] {
        let (x, weight) = (numbers::<X>(rows * width, 3), numbers(width, 4));
        let mut want = vec![0.0; x.len()];
        kernels::rms_norm(&X::widen(&x), &weight, 1e-5, &mut want);
        let y = rig.out::<Y, 2>([rows, width]);
        let (on_x, on_weight) = (rig.up(&x, [rows, width]), rig.up(&weight, [width]));
        cuda::rms_norm(&rig.stream, on_x.view(), on_weight.view(), 1e-5, y.view_mut())
            .map_err(|e| e.to_string())?;
        rounded(&format!("rms_norm [{rows}, {width}]"), &rig.down(&y)?, &want, 1e-5)?;
    }
    Ok(())
}

fn add<A: Activation>(rig: &Rig) -> Result<(), String> {
    sums::<A, A, A>(rig, |a, b, y| cuda::add(&rig.stream, a, b, y))
}

fn add_bias<A: Activation>(rig: &Rig) -> Result<(), String> {
    sums::<A, f32, A>(rig, |a, b, y| cuda::add_bias(&rig.stream, a, b, y))
}

fn add_product<A: Activation, Y: Activation>(rig: &Rig) -> Result<(), String> {
    sums::<A, f32, Y>(rig, |a, b, y| cuda::add_product(&rig.stream, a, b, y))
}

fn sums<A: Activation, B: Activation, Y: Activation>(
    rig: &Rig,
    add: impl Fn(In<'_, A>, In<'_, B>, Out<'_, Y>) -> graph_core::Result<()>,
) -> Result<(), String> {
    for (rows, period, width) in [(1, 1, 128), (6, 2, 37), (8, 8, 64)] {
        let (a, b) = (numbers::<A>(rows * width, 5), numbers::<B>(period * width, 6));
        let mut want = vec![0.0; a.len()];
        kernels::add(&A::widen(&a), &B::widen(&b), &mut want);
        let y = rig.out([rows, width]);
        let (on_a, on_b) = (rig.up(&a, [rows, width]), rig.up(&b, [period, width]));
        add(on_a.view(), on_b.view(), y.view_mut()).map_err(|e| e.to_string())?;
        same(&format!("add [{rows}, {width}]"), &rig.down(&y)?, &narrowed(&want))?;
    }
    Ok(())
}

type In<'a, T> = graph_core::In<'a, Cuda, T, 2>;
type Out<'a, T> = graph_core::Out<'a, Cuda, T, 2>;
