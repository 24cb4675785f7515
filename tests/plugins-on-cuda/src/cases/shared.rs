//! The kernels of both plugins.

use model_support::{
    cuda::{self, LINEAR, ROWWISE},
    kernels,
};

use super::{Case, edit};
use crate::{Rig, close, numbers, same};

pub(super) const CASES: &[Case] = &[
    Case {
        kernel: "linear",
        source: &LINEAR,
        check: linear,
        edits: &[edit("sum[i] = 0.0f", "sum[i] = 0.01f"), edit("TILE_ROWS 16", "TILE_ROWS 8")],
    },
    Case {
        kernel: "rms_norm",
        source: &ROWWISE,
        check: rms_norm,
        edits: &[edit("1.0f / sqrtf", "1.01f / sqrtf")],
    },
    Case { kernel: "add", source: &ROWWISE, check: add, edits: &[edit("a[i] + b", "a[i] - b")] },
];

fn linear(rig: &Rig) -> Result<(), String> {
    for (rows, inner, outer) in [(1, 128, 64), (7, 352, 128), (16, 37, 5), (33, 64, 10), (3, 1, 1)] {
        let (x, w) = (numbers(rows * inner, 1), numbers(outer * inner, 2));
        let mut want = vec![0.0; rows * outer];
        kernels::linear(&x, &w, inner, &mut want);
        let y = rig.out([rows, outer]);
        let (on_x, on_w) = (rig.up(&x, [rows, inner]), rig.up(&w, [outer, inner]));
        cuda::linear(&rig.stream, on_x.view(), on_w.view(), y.view_mut()).map_err(|e| e.to_string())?;
        let got = rig.down(&y)?;
        close(&format!("linear [{rows}, {inner}] x [{outer}, {inner}]"), &got, &want, 2e-5)?;

        let last = rig.out([1, outer]);
        let row = on_x.view().rows(rows - 1..rows).map_err(|e| e.to_string())?;
        cuda::linear(&rig.stream, row, on_w.view(), last.view_mut()).map_err(|e| e.to_string())?;
        same("linear, the last row alone", &rig.down(&last)?, &got[(rows - 1) * outer..])?;
    }
    Ok(())
}

fn rms_norm(rig: &Rig) -> Result<(), String> {
    for (rows, width) in [(1, 128), (5, 37), (3, 300)] {
        let (x, weight) = (numbers(rows * width, 3), numbers(width, 4));
        let mut want = vec![0.0; x.len()];
        kernels::rms_norm(&x, &weight, 1e-5, &mut want);
        let y = rig.out([rows, width]);
        let (on_x, on_weight) = (rig.up(&x, [rows, width]), rig.up(&weight, [width]));
        cuda::rms_norm(&rig.stream, on_x.view(), on_weight.view(), 1e-5, y.view_mut())
            .map_err(|e| e.to_string())?;
        close(&format!("rms_norm [{rows}, {width}]"), &rig.down(&y)?, &want, 1e-5)?;
    }
    Ok(())
}

fn add(rig: &Rig) -> Result<(), String> {
    for (rows, period, width) in [(1, 1, 128), (6, 2, 37), (8, 8, 64)] {
        let (a, b) = (numbers(rows * width, 5), numbers(period * width, 6));
        let mut want = vec![0.0; a.len()];
        kernels::add(&a, &b, &mut want);
        let y = rig.out([rows, width]);
        let (on_a, on_b) = (rig.up(&a, [rows, width]), rig.up(&b, [period, width]));
        cuda::add(&rig.stream, on_a.view(), on_b.view(), y.view_mut()).map_err(|e| e.to_string())?;
        same(&format!("add [{rows}, {width}]"), &rig.down(&y)?, &want)?;
    }
    Ok(())
}
