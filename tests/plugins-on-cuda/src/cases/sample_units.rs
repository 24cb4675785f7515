//! Sampling where little decides: a unit of a weight, a bit of a logit, the last token of a row.

use graph_cuda::Cuda;
use graph_resources::{SampleParams, SamplerRow, philox4x32_10, sample_rows, weight};
use llama_plugin::LlamaOps;

use crate::{Rig, numbers};

/// A row of logits, and what it is drawn with.
type Row = (Vec<f32>, SampleParams);

pub(super) fn check(rig: &Rig) -> Result<(), String> {
    agree(rig, "bits of logits", &bits())?;
    agree(rig, "units of a weight", &units())?;
    let seeded = SampleParams::seeded(1);
    agree(rig, "rows that weigh nothing", &[seeded, seeded.top_p(0.5)].map(|p| (vec![f32::NAN; 4], p)))?;
    let nothing = [f32::NAN, f32::NEG_INFINITY, f32::NAN, f32::NEG_INFINITY, f32::NEG_INFINITY];
    let rows: Vec<Row> = (0..8).map(|k| (nothing.to_vec(), seeded.top_k(k % 4).top_p(0.5))).collect();
    agree(rig, "NaN among minus infinity", &rows)?;
    agree(rig, "the carry of a product", &exact_tail())?;
    agree(rig, "tails", &tails(0))?;
    agree(rig, "tails behind a cut", &tails(30_000))
}

/// Tokens and counters are the definition's. Shorter rows end with tokens that weigh nothing.
fn agree(rig: &Rig, what: &str, rows: &[Row]) -> Result<(), String> {
    let vocabulary = rows.iter().map(|(logits, _)| logits.len()).max().unwrap_or(0);
    let mut logits = Vec::new();
    let mut state: Vec<u32> = SamplerRow::SINK.to_words().to_vec();
    for (row, params) in rows {
        logits.extend(row);
        logits.resize(logits.len().next_multiple_of(vocabulary), f32::NEG_INFINITY);
        state.extend(SamplerRow::new(params).to_words());
    }
    let ids: Vec<i32> = (1..=rows.len() as i32).collect();
    let (on_logits, on_ids) = (rig.up(&logits, [rows.len(), vocabulary]), rig.up(&ids, [rows.len()]));
    let (on_state, tokens) = (rig.up(&state, [rows.len() + 1, SamplerRow::WORDS]), rig.out([rows.len()]));
    let mut want = vec![0; rows.len()];
    sample_rows(&logits, &ids, &mut state, &mut want);
    Cuda::sample(&rig.stream, on_logits.view(), on_ids.view(), on_state.view_mut(), tokens.view_mut())
        .map_err(|error| error.to_string())?;
    let got = rig.down(&tokens)?;
    if got != want {
        return Err(format!("sample, {what}: {got:?}, not {want:?}"));
    }
    match rig.down(&on_state)? == state {
        true => Ok(()),
        false => Err(format!("sample, {what}: other counters")),
    }
}

/// Neighbours among the numbers, one of which stays; and tokens that only one thread looks at.
fn bits() -> Vec<Row> {
    let after = |x: f32, steps: u32| f32::from_bits(x.to_bits() + steps);
    let mut rows: Vec<Row> = vec![
        (vec![1e-12, 2e-12], SampleParams::greedy()),
        (vec![1.0, after(1.0, 1)], SampleParams::greedy()),
    ];
    // Equals at both ends of a row whose last token is alone in a thread.
    let mut ends = vec![f32::NEG_INFINITY; 257];
    (ends[5], ends[256]) = (1.0, 1.0);
    for seed in 0..8 {
        let params = SampleParams::seeded(seed);
        rows.push((ends.clone(), params));
        // Keys that differ in their last bit, and keys with a byte of ones.
        rows.push((vec![after(1.0, 2), after(1.0, 3)], params.top_k(1)));
        rows.push((vec![1.0, after(2.0, 0), f32::from_bits(0x3fff_0000), 1.5], params.top_k(2)));
        rows.push((vec![1.0, f32::from_bits(0x3fff_0000)], params.top_k(1)));
        rows.push((vec![0.0; 3], params.counter(u64::from(u32::MAX) - seed)));
        rows.push((vec![0.0; 3], params.counter(u64::MAX - seed)));
    }
    rows
}

/// The largest token's weight.
const ONE: u64 = 1 << 32;

/// A token weighs so much that top-p at one half keeps a second one, or by one unit does not. Whether it is there shows in
/// the draw.
fn units() -> Vec<Row> {
    let mut rows = Vec::new();
    // Bits of the second tokens' logit, the temperature, and how many second tokens there are. Each of these logits is one
    // where the last term of the series, one more term, or a unit of `ONE` moves the weight.
    for (bits, temperature, copies) in [
        (0xb4ec_2002, 1.0, 1),
        (0xb4ec_201a, 1.0, 1),
        (0xbf05_1593, 0.75, 2),
        (0xbf05_1596, 0.75, 2),
        (0xbf0d_f4e1, 0.8, 2),
        (0xbf0d_f4e2, 0.8, 2),
    ] {
        let second = f32::from_bits(bits);
        // Each of these weighs 1.
        let last = -31.5 * std::f32::consts::LN_2 * temperature;
        let missing = ONE - copies * weight(second, 0.0, temperature);
        for more in [0, 1] {
            let mut logits = vec![0.0];
            logits.extend((0..copies).map(|_| second));
            logits.extend((0..missing + more).map(|_| last));
            logits.extend([f32::NEG_INFINITY; 5]);
            let kept = logits.len() as u32 - 5;
            let params = high_draw(7, 0xc000_0000).temperature(temperature).top_p(0.5);
            rows.push((logits.clone(), params));
            rows.push((logits, params.top_k(kept)));
        }
    }
    rows
}

/// A tail has so many tokens.
const TAIL: usize = 1 << 16;

/// Draws that end among many tokens of few units each, where every unit that any token has too much or too little moves
/// the token.
fn tails(top_k: u32) -> Vec<Row> {
    let mut logits: Vec<f32> =
        numbers::<f32>(TAIL, 12).iter().map(|x| (0.8 * x - 31.2) * std::f32::consts::LN_2).collect();
    logits[0] = 0.0;
    (0..6).map(|seed| (logits.clone(), draw_in_the_tail(seed).top_k(top_k))).collect()
}

/// The same among tokens of one unit, which tell the target exactly, with a sum whose low half is large.
fn exact_tail() -> Vec<Row> {
    let mut logits = vec![-31.5 * std::f32::consts::LN_2; TAIL];
    (logits[0], logits[1]) = (0.0, -0.05);
    (0..12).map(|seed| (logits.clone(), draw_in_the_tail(seed))).collect()
}

fn draw_in_the_tail(seed: u64) -> SampleParams {
    high_draw(seed << 32 | 3, u32::MAX - 20_000)
}

/// A seed and the first counter whose draw has that high word or a larger one.
fn high_draw(seed: u64, high: u32) -> SampleParams {
    let key = [seed as u32, (seed >> 32) as u32];
    let drawn =
        |counter: &u64| philox4x32_10([*counter as u32, (*counter >> 32) as u32, 0, 0], key)[1] >= high;
    SampleParams::seeded(seed).counter((0..).find(drawn).unwrap_or_default())
}
