//! The vision transformer's kernels.

use digits_plugin::{DIGITS, DigitsOps, TOKENS, kernels};
use graph_core::bf16;
use graph_cuda::Cuda;
use model_support::Activation;

use super::{Case, edit, narrowed};
use crate::{Edit, Rig, numbers, rounded, same};

const ATTEND_EDITS: &[Edit] =
    &[edit("#define TOKENS 16", "#define TOKENS 8"), edit("score *= scale", "score *= 1.1f * scale")];
const SILU_EDITS: &[Edit] = &[edit("1.0f + expf", "1.02f + expf")];
const MEAN_EDITS: &[Edit] =
    &[edit("float sum = 0.0f;\n    for (u32 token", "float sum = 0.2f;\n    for (u32 token")];

pub(super) const CASES: &[Case] = &[
    Case { kernel: "attend_f32", source: &DIGITS, check: attend::<f32>, edits: ATTEND_EDITS },
    Case { kernel: "attend_bf16", source: &DIGITS, check: attend::<bf16>, edits: ATTEND_EDITS },
    Case { kernel: "silu_f32", source: &DIGITS, check: silu::<f32>, edits: SILU_EDITS },
    Case { kernel: "silu_bf16", source: &DIGITS, check: silu::<bf16>, edits: SILU_EDITS },
    Case { kernel: "mean_f32", source: &DIGITS, check: mean::<f32>, edits: MEAN_EDITS },
    Case { kernel: "mean_bf16", source: &DIGITS, check: mean::<bf16>, edits: MEAN_EDITS },
];

fn attend<A: Activation>(rig: &Rig) -> Result<(), String> {
    for (images, heads, head_dim) in [(1, 4, 16), (3, 2, 40), (2, 1, 128)] {
        let (tokens, width) = (images * TOKENS, heads * head_dim);
        let [q, k, v] = [7, 8, 9].map(|seed| numbers::<A>(tokens * width, seed));
        let mut want = vec![0.0; q.len()];
        kernels::attend(&A::widen(&q), &A::widen(&k), &A::widen(&v), heads, width, &mut want);
        let y = rig.out([tokens, width]);
        let [q, k, v] = [q, k, v].map(|data| rig.up(&data, [tokens, width]));
        Cuda::attend(&rig.stream, q.view(), k.view(), v.view(), heads, y.view_mut())
            .map_err(|e| e.to_string())?;
        rounded(
            &format!("attend, {images} images, {heads} heads of {head_dim}"),
            &rig.down(&y)?,
            &want,
            1e-5,
        )?;
    }
    Ok(())
}

fn silu<A: Activation>(rig: &Rig) -> Result<(), String> {
    let x: Vec<A> = numbers::<f32>(3 * 131, 10).iter().map(|x| A::narrow(20.0 * x)).collect();
    let mut want = vec![0.0; x.len()];
    kernels::silu(&A::widen(&x), &mut want);
    let (on_x, y) = (rig.up(&x, [3, 131]), rig.out([3, 131]));
    Cuda::silu(&rig.stream, on_x.view(), y.view_mut()).map_err(|e| e.to_string())?;
    rounded("silu", &rig.down(&y)?, &want, 1e-6)
}

fn mean<A: Activation>(rig: &Rig) -> Result<(), String> {
    let x = numbers::<A>(3 * TOKENS * 70, 11);
    let mut want = vec![0.0; 3 * 70];
    kernels::mean(&A::widen(&x), 70, &mut want);
    let (on_x, y) = (rig.up(&x, [3 * TOKENS, 70]), rig.out([3, 70]));
    Cuda::mean(&rig.stream, on_x.view(), y.view_mut()).map_err(|e| e.to_string())?;
    same("mean", &rig.down(&y)?, &narrowed(&want))
}
