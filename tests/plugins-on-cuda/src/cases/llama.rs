//! The decoder's kernels that are element by element, and sampling.

use graph_core::bf16;
use graph_cuda::Cuda;
use graph_resources::{SampleParams, SamplerRow, sample_rows};
use llama_plugin::{
    LlamaOps,
    cuda::{DECODER, SAMPLE},
    kernels,
};
use model_support::Activation;

use super::{Case, edit, narrowed, sample_units, stored};
use crate::{Edit, Rig, numbers, rounded, same};

const GATHER_EDITS: &[Edit] = &[edit("(u64)row * width + i % width)", "(u64)row * width + 0)")];
const ROTARY_EDITS: &[Edit] = &[edit("(u64)(pair / half) * 2 * half", "(u64)(pair / half) * 1 * half")];
const STORE_EDITS: &[Edit] = &[edit("u64 to = (u64)row * width", "u64 to = (u64)0 * width")];
const SILU_EDITS: &[Edit] = &[edit("1.0f + expf", "1.02f + expf")];

pub(super) const CASES: &[Case] = &[
    Case { kernel: "gather_f32_f32", source: &DECODER, check: gather::<f32, f32>, edits: GATHER_EDITS },
    Case { kernel: "gather_f32_bf16", source: &DECODER, check: gather::<f32, bf16>, edits: GATHER_EDITS },
    Case {
        kernel: "gather_bf16_f32",
        source: &DECODER,
        check: gather::<bf16, f32>,
        edits: &[GATHER_EDITS[0], edit("+ 0x7fffu +", "+ 0xffffu +")],
    },
    Case { kernel: "gather_bf16_bf16", source: &DECODER, check: gather::<bf16, bf16>, edits: GATHER_EDITS },
    Case { kernel: "rotary_f32", source: &DECODER, check: rotary::<f32>, edits: ROTARY_EDITS },
    Case { kernel: "rotary_bf16", source: &DECODER, check: rotary::<bf16>, edits: ROTARY_EDITS },
    Case { kernel: "store_kv_f32", source: &DECODER, check: store_kv::<f32>, edits: STORE_EDITS },
    Case { kernel: "store_kv_bf16", source: &DECODER, check: store_kv::<bf16>, edits: STORE_EDITS },
    Case { kernel: "silu_mul_f32", source: &DECODER, check: silu_mul::<f32>, edits: SILU_EDITS },
    Case { kernel: "silu_mul_bf16", source: &DECODER, check: silu_mul::<bf16>, edits: SILU_EDITS },
    Case {
        kernel: "sample",
        source: &SAMPLE,
        check: sample,
        edits: &[
            edit("0xd2511f53u", "0xd2511f55u"),
            edit("0x1.ebfbdff82c58ep-3", "0x1.ebfbdff82c58ep-2"),
            edit("#define TOP_K 5", "#define TOP_K 7"),
            edit("#define ONE 4294967296.0", "#define ONE 4294967297.0"),
            edit("#define LOG2_E 0x1.71", "#define LOG2_E 0x1.81"),
        ],
    },
];

/// With the table as weights, and as activations where it has their element.
fn gather<A: Activation, T: Activation>(rig: &Rig) -> Result<(), String> {
    let (table, rows) = (numbers::<T>(9 * 37, 1), [8, 0, 3, 3, 5]);
    let mut want = vec![0.0; rows.len() * 37];
    kernels::gather(&T::widen(&table), &rows, 37, &mut want);
    let on_table =
        rig.kernels.weight(&rig.device, &rig.stream, &stored(&table), [9, 37]).map_err(|e| e.to_string())?;
    let (on_rows, y) = (rig.up(&rows, [5]), rig.out([5, 37]));
    Cuda::embed(&rig.stream, &on_table, on_rows.view(), y.view_mut()).map_err(|e| e.to_string())?;
    same::<A>("embed", &rig.down(&y)?, &narrowed(&want))?;
    if A::ACTIVATIONS == T::ACTIVATIONS {
        let (x, y) = (rig.up(&table, [9, 37]), rig.out([5, 37]));
        Cuda::gather(&rig.stream, x.view(), on_rows.view(), y.view_mut()).map_err(|e| e.to_string())?;
        same::<T>("gather", &rig.down(&y)?, &narrowed(&want))?;
    }

    let on_rows = rig.up(&[9, -1, i32::MAX, 0, 8], [5]);
    Cuda::embed(&rig.stream, &on_table, on_rows.view(), y.view_mut()).map_err(|e| e.to_string())?;
    match A::widen(&rig.down(&y)?).iter().take_while(|y| y.is_nan()).count() {
        111 => Ok(()),
        got => Err(format!("gather: {got} NaN for three rows that there are not")),
    }
}

fn rotary<A: Activation>(rig: &Rig) -> Result<(), String> {
    let frequencies: Vec<f32> = (0..16).map(|i| 10_000.0_f32.powf(-(i as f32) / 16.0)).collect();
    let (x, positions) = (numbers::<A>(3 * 4 * 32, 2), [0, 7, 511]);
    let mut want = vec![0.0; x.len()];
    kernels::rotary(&A::widen(&x), &positions, &frequencies, &mut want);
    let (on_x, y) = (rig.up(&x, [3, 128]), rig.out([3, 128]));
    let (on_positions, on_frequencies) = (rig.up(&positions, [3]), rig.up(&frequencies, [16]));
    let (positions, frequencies) = (on_positions.view(), on_frequencies.view());
    Cuda::rotary(&rig.stream, on_x.view(), positions, frequencies, y.view_mut())
        .map_err(|e| e.to_string())?;
    rounded("rotary", &rig.down(&y)?, &want, 1e-6)
}

fn store_kv<A: Activation>(rig: &Rig) -> Result<(), String> {
    let (k, v, slots) = (numbers::<A>(3 * 40, 3), numbers::<A>(3 * 40, 4), [6, 0, 2]);
    let (keys, values) = (numbers::<A>(8 * 40, 5), numbers::<A>(8 * 40, 6));
    let (mut want_keys, mut want_values) = (keys.clone(), values.clone());
    kernels::store(&k, &slots, 40, &mut want_keys);
    kernels::store(&v, &slots, 40, &mut want_values);
    let [k, v] = [k, v].map(|data| rig.up(&data, [3, 40]));
    let [keys, values] = [keys, values].map(|data| rig.up(&data, [8, 40]));
    for slots in [slots, [8, -1, i32::MIN]] {
        let slots = rig.up(&slots, [3]);
        let (slots, keys, values) = (slots.view(), keys.view_mut(), values.view_mut());
        Cuda::store_kv(&rig.stream, k.view(), v.view(), slots, keys, values).map_err(|e| e.to_string())?;
    }
    same("store_kv, keys", &rig.down(&keys)?, &want_keys)?;
    same("store_kv, values", &rig.down(&values)?, &want_values)
}

fn silu_mul<A: Activation>(rig: &Rig) -> Result<(), String> {
    let (gate, up) = (numbers::<A>(3 * 131, 7), numbers::<A>(3 * 131, 8));
    let mut want = vec![0.0; gate.len()];
    kernels::silu_mul(&A::widen(&gate), &A::widen(&up), &mut want);
    let (gate, up, y) = (rig.up(&gate, [3, 131]), rig.up(&up, [3, 131]), rig.out([3, 131]));
    Cuda::silu_mul(&rig.stream, gate.view(), up.view(), y.view_mut()).map_err(|e| e.to_string())?;
    rounded("silu_mul", &rig.down(&y)?, &want, 1e-6)
}

/// Tokens and counters of some draws, to the bit: greedy, all of the softmax, top-k, top-p, both, with ties and NaN.
fn sample(rig: &Rig) -> Result<(), String> {
    let seeded = |seed: u64| SampleParams::seeded(seed << 33 | 17).counter(seed << 30);
    let params = [
        SampleParams::greedy(),
        seeded(1),
        seeded(2).temperature(0.7).top_k(5),
        seeded(3).temperature(1.3).top_p(0.8),
        seeded(4).top_k(40).top_p(0.5),
        seeded(5).top_p(0.0),
        seeded(6).temperature(9.0).top_k(1_000_000),
    ];
    let mut state: Vec<u32> = SamplerRow::SINK.to_words().to_vec();
    params.iter().for_each(|params| state.extend(SamplerRow::new(params).to_words()));
    let rows = [1, 2, 3, 4, 5, 6, 7, 0, 0, 99, -1];
    for vocabulary in [1, 7, 256, 1000] {
        let mut logits: Vec<f32> =
            numbers::<f32>(rows.len() * vocabulary, 9).iter().map(|x| 4.0 * x).collect();
        logits.iter_mut().enumerate().for_each(|(i, x)| match i % 11 {
            2 | 5 | 7 => *x = 3.0,
            8 => *x = -0.0,
            9 => *x = f32::NAN,
            10 => *x = f32::NEG_INFINITY,
            _ => {}
        });
        let (on_logits, on_rows) = (rig.up(&logits, [rows.len(), vocabulary]), rig.up(&rows, [rows.len()]));
        let on_state = rig.up(&state, [params.len() + 1, SamplerRow::WORDS]);
        let (mut want_state, mut want, tokens) = (state.clone(), vec![0; rows.len()], rig.out([rows.len()]));
        for draw in 0..20 {
            sample_rows(&logits, &rows, &mut want_state, &mut want);
            let (state, to) = (on_state.view_mut(), tokens.view_mut());
            Cuda::sample(&rig.stream, on_logits.view(), on_rows.view(), state, to)
                .map_err(|e| e.to_string())?;
            let got = rig.down(&tokens)?;
            if got != want || rig.down(&on_state)? != want_state {
                return Err(format!("draw {draw} of {vocabulary}: {got:?}, not {want:?}"));
            }
        }
    }
    sample_units::check(rig)
}
