//! How a token is drawn from a row of logits: the exact algorithm, for kernels of every backend.
//!
//! All sums are of integers, so their order does not matter: a kernel that adds in parallel draws the same tokens.

use crate::{
    SamplerRow, philox4x32_10,
    select::{Cut, kept, threshold},
    weight::weight,
};

/// What [`sample_row`] gives.
///
/// ```
/// use graph_resources::{Sample, SampleParams, SamplerRow, sample_row};
///
/// let logits = [0.5, 2.0, 1.0];
/// let greedy = SamplerRow::new(&SampleParams::greedy());
/// assert_eq!(sample_row(&logits, &greedy), Sample { token: 1, counter: 0 }); // nothing was drawn
/// let drawn = sample_row(&logits, &SamplerRow::new(&SampleParams::seeded(17)));
/// assert_eq!(drawn.counter, 1); // the next draw of this request has another random number
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The token.
    pub token: u32,
    /// The row's counter afterwards: one more if something was drawn.
    pub counter: u64,
}

/// Draws a token.
///
/// In this order, each step on what the one before it leaves; "larger" is by logit, and of equal logits the lowest
/// token id is the larger. NaN is smaller than minus infinity, and weighs nothing; -0 is 0.
///
/// 1. Temperature 0: the largest token. Nothing is drawn.
/// 2. Top-k (0: off): the k largest tokens stay.
/// 3. Weights: `floor(2^32 * exp((logit - largest logit) / temperature))` as an integer ([`weight`]).
/// 4. Top-p (1: off): the largest tokens stay, as many as it takes for their weights to reach
///    `ceil(top_p * sum of all weights)`, computed in f64; one at the least.
/// 5. Draw: the first two words of the Philox block at the counter, with the seed as key, are a 64-bit number `r` (the
///    first word is the low half); `target = floor(r * sum / 2^64)`. In order of token ids, the first token at which
///    the running sum of weights exceeds the target.
///
/// ```
/// use graph_resources::{SampleParams, SamplerRow, sample_row};
/// let logits = [0.5, 2.0, 2.0, -1.0];
/// let greedy = SamplerRow::new(&SampleParams::greedy());
/// assert_eq!(sample_row(&logits, &greedy).token, 1);
///
/// let mut row = SamplerRow::new(&SampleParams::seeded(17).top_k(2));
/// let tokens = [(); 6].map(|()| {
///     let sample = sample_row(&logits, &row);
///     row.counter = sample.counter;
///     sample.token
/// });
/// assert!(tokens.contains(&1) && tokens.contains(&2) && row.counter == 6);
/// ```
pub fn sample_row(logits: &[f32], row: &SamplerRow) -> Sample {
    let largest = largest(logits);
    if row.temperature == 0.0 {
        return Sample { token: largest as u32, counter: row.counter };
    }
    let top = logits.get(largest).copied().unwrap_or(f32::NEG_INFINITY);
    let weigh = |logit: f32| weight(logit, top, row.temperature);
    let mut cut = Cut::ALL;
    if row.top_k > 0 && (row.top_k as usize) < logits.len() {
        cut = threshold(logits, cut, |_| 1, u64::from(row.top_k));
    }
    let sum = |cut| kept(logits, cut).map(|(_, logit)| weigh(logit)).sum::<u64>();
    let mut total = sum(cut);
    if row.top_p < 1.0 {
        let enough = (f64::from(row.top_p) * total as f64).ceil() as u64;
        cut = threshold(logits, cut, weigh, enough.clamp(1, total.max(1)));
        total = sum(cut);
    }
    let [low, high, ..] = philox4x32_10(row.counter_words(), row.seed_words());
    let r = u64::from(high) << 32 | u64::from(low);
    let target = ((u128::from(r) * u128::from(total)) >> 64) as u64;
    let mut running = 0;
    let drawn = kept(logits, cut).find(|(_, logit)| {
        running += weigh(*logit);
        running > target
    });
    Sample { token: drawn.map_or(largest, |(id, _)| id) as u32, counter: row.counter.wrapping_add(1) }
}

/// The largest token; the lowest id of equals.
fn largest(logits: &[f32]) -> usize {
    let mut best = 0;
    for (id, logit) in logits.iter().enumerate() {
        if *logit > logits[best] || logits[best].is_nan() && !logit.is_nan() {
            best = id;
        }
    }
    best
}

/// One token per row of a batch: the body of a host kernel.
///
/// `logits` is `[rows, vocabulary]`, `rows` the planned input `row` of the sampler, `state` the words of
/// [`SamplerState`](crate::SamplerState), whose counters advance. A row number that there is not is the sink's.
pub fn sample_rows(logits: &[f32], rows: &[i32], state: &mut [u32], tokens: &mut [i32]) {
    let vocabulary = logits.len().checked_div(tokens.len()).unwrap_or(0).max(1);
    let (words, _) = state.as_chunks_mut::<{ SamplerRow::WORDS }>();
    for ((logits, row), token) in logits.chunks_exact(vocabulary).zip(rows).zip(tokens) {
        let words = usize::try_from(*row).ok().and_then(|row| words.get_mut(row));
        let mut sink = SamplerRow::SINK.to_words();
        let words = words.unwrap_or(&mut sink);
        let mut row = SamplerRow::from_words(*words);
        let sample = sample_row(logits, &row);
        row.counter = sample.counter;
        *words = row.to_words();
        *token = sample.token as i32;
    }
}
