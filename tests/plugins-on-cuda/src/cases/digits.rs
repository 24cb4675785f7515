//! The vision transformer's kernels.

use digits_plugin::{DIGITS, DigitsOps, TOKENS, kernels};
use graph_cuda::Cuda;

use super::{Case, edit};
use crate::{Rig, close, numbers, same};

pub(super) const CASES: &[Case] = &[
    Case {
        kernel: "attend",
        source: &DIGITS,
        check: attend,
        edits: &[
            edit("#define TOKENS 16", "#define TOKENS 8"),
            edit("score *= scale", "score *= 1.01f * scale"),
        ],
    },
    Case { kernel: "silu", source: &DIGITS, check: silu, edits: &[edit("1.0f + expf", "1.01f + expf")] },
    Case {
        kernel: "mean",
        source: &DIGITS,
        check: mean,
        edits: &[edit("float sum = 0.0f;\n    for (u32 token", "float sum = 0.01f;\n    for (u32 token")],
    },
];

fn attend(rig: &Rig) -> Result<(), String> {
    for (images, heads, head_dim) in [(1, 4, 16), (3, 2, 40), (2, 1, 128)] {
        let (tokens, width) = (images * TOKENS, heads * head_dim);
        let [q, k, v] = [7, 8, 9].map(|seed| numbers(tokens * width, seed));
        let mut want = vec![0.0; q.len()];
        kernels::attend(&q, &k, &v, heads, width, &mut want);
        let y = rig.out([tokens, width]);
        let [q, k, v] = [q, k, v].map(|data| rig.up(&data, [tokens, width]));
        Cuda::attend(&rig.stream, q.view(), k.view(), v.view(), heads, y.view_mut())
            .map_err(|e| e.to_string())?;
        close(&format!("attend, {images} images, {heads} heads of {head_dim}"), &rig.down(&y)?, &want, 1e-5)?;
    }
    Ok(())
}

fn silu(rig: &Rig) -> Result<(), String> {
    let x: Vec<f32> = numbers(3 * 131, 10).iter().map(|x| 20.0 * x).collect();
    let mut want = vec![0.0; x.len()];
    kernels::silu(&x, &mut want);
    let (on_x, y) = (rig.up(&x, [3, 131]), rig.out([3, 131]));
    Cuda::silu(&rig.stream, on_x.view(), y.view_mut()).map_err(|e| e.to_string())?;
    close("silu", &rig.down(&y)?, &want, 1e-6)
}

fn mean(rig: &Rig) -> Result<(), String> {
    let x = numbers(3 * TOKENS * 70, 11);
    let mut want = vec![0.0; 3 * 70];
    kernels::mean(&x, 70, &mut want);
    let (on_x, y) = (rig.up(&x, [3 * TOKENS, 70]), rig.out([3, 70]));
    Cuda::mean(&rig.stream, on_x.view(), y.view_mut()).map_err(|e| e.to_string())?;
    same("mean", &rig.down(&y)?, &want)
}
