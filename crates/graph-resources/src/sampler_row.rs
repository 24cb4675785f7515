//! One request's sampling: its parameters, and its row on the device.

use graph_core::{ErrorKind, Result};

/// How a request's tokens are drawn: an option of `ingest`, by type.
///
/// ```
/// use graph_resources::{SampleParams, SamplerRow, sample_row};
///
/// fn text(params: SampleParams, tokens: usize) -> Vec<u32> {
///     let mut row = SamplerRow::new(&params);
///     let mut next = || {
///         let sample = sample_row(&[1.0, 1.0, 1.0, 1.0], &row);
///         row.counter = sample.counter;
///         sample.token
///     };
///     (0..tokens).map(|_| next()).collect()
/// }
/// let params = SampleParams::seeded(42).temperature(0.8);
/// assert_eq!(text(params, 8), text(params, 8)); // one seed, one text
/// assert_eq!(text(params.counter(5), 3), text(params, 8)[5..]); // preempted after five tokens, it goes on
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleParams {
    /// Logits are divided by it; 0 for the largest token, without drawing.
    pub temperature: f32,
    /// The largest tokens that may be drawn; 0 for all.
    pub top_k: u32,
    /// The part of all weight that the largest tokens must reach, from 0 to 1; 1 for all.
    pub top_p: f32,
    /// Two requests with one seed, and one model, get one text.
    pub seed: u64,
    /// Numbers that were drawn already: that of [`Sampler::counter`](crate::Sampler::counter) for a request that comes
    /// back after a preemption.
    pub counter: u64,
}

impl SampleParams {
    /// The largest token, always.
    pub const fn greedy() -> Self {
        SampleParams { temperature: 0.0, top_k: 0, top_p: 1.0, seed: 0, counter: 0 }
    }

    /// Draws from the softmax, at temperature 1.
    pub const fn seeded(seed: u64) -> Self {
        SampleParams { temperature: 1.0, seed, ..Self::greedy() }
    }

    /// The same at another temperature.
    pub const fn temperature(self, temperature: f32) -> Self {
        SampleParams { temperature, ..self }
    }

    /// The same from the `top_k` largest tokens.
    pub const fn top_k(self, top_k: u32) -> Self {
        SampleParams { top_k, ..self }
    }

    /// The same from the largest tokens that reach `top_p` of all weight.
    pub const fn top_p(self, top_p: f32) -> Self {
        SampleParams { top_p, ..self }
    }

    /// The same, after so many draws.
    pub const fn counter(self, counter: u64) -> Self {
        SampleParams { counter, ..self }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let (input, got, may) = if !(0.0..f32::INFINITY).contains(&self.temperature) {
            ("temperature", self.temperature, "0 or more, and finite")
        } else if !(0.0..=1.0).contains(&self.top_p) {
            ("top_p", self.top_p, "from 0 to 1")
        } else {
            return Ok(());
        };
        let why = format!("{got} is not {may}");
        Err(ErrorKind::BadDeclaration { owner: "sampler".into(), input, why }.into())
    }
}

impl Default for SampleParams {
    fn default() -> Self {
        Self::greedy()
    }
}

/// The state of one row, as the device has it.
///
/// ```
/// use graph_resources::{SampleParams, SamplerRow};
///
/// // What a kernel reads and writes, and what the host makes of it.
/// let row = SamplerRow::new(&SampleParams::seeded(42).top_k(40));
/// let mut words = row.to_words();
/// assert_eq!((words[0], words[5], words.len()), (42, 40, SamplerRow::WORDS));
/// words[2] += 1; // the kernel has drawn
/// assert_eq!(SamplerRow::from_words(words), SamplerRow { counter: 1, ..row });
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplerRow {
    /// The key of its random numbers.
    pub seed: u64,
    /// Numbers drawn so far.
    pub counter: u64,
    /// As [`SampleParams::temperature`].
    pub temperature: f32,
    /// As [`SampleParams::top_k`].
    pub top_k: u32,
    /// As [`SampleParams::top_p`].
    pub top_p: f32,
}

impl SamplerRow {
    /// Words of a row: seed and counter (low half first), temperature, top_k, top_p, and one that is 0.
    pub const WORDS: usize = 8;

    /// The row of padding: greedy, so that its state never changes.
    pub const SINK: SamplerRow = SamplerRow { seed: 0, counter: 0, temperature: 0.0, top_k: 0, top_p: 0.0 };

    /// The row of a request that begins.
    pub const fn new(params: &SampleParams) -> Self {
        let SampleParams { temperature, top_k, top_p, seed, counter } = *params;
        SamplerRow { seed, counter, temperature, top_k, top_p }
    }

    /// As the device has it.
    pub const fn to_words(self) -> [u32; Self::WORDS] {
        let [seed_low, seed_high] = self.seed_words();
        let [counter_low, counter_high, ..] = self.counter_words();
        let (temperature, top_p) = (self.temperature.to_bits(), self.top_p.to_bits());
        [seed_low, seed_high, counter_low, counter_high, temperature, self.top_k, top_p, 0]
    }

    /// From what the device has.
    pub const fn from_words(words: [u32; Self::WORDS]) -> Self {
        let [seed_low, seed_high, counter_low, counter_high, temperature, top_k, top_p, _] = words;
        SamplerRow {
            seed: (seed_high as u64) << 32 | seed_low as u64,
            counter: (counter_high as u64) << 32 | counter_low as u64,
            temperature: f32::from_bits(temperature),
            top_k,
            top_p: f32::from_bits(top_p),
        }
    }

    pub(crate) const fn seed_words(&self) -> [u32; 2] {
        [self.seed as u32, (self.seed >> 32) as u32]
    }

    pub(crate) const fn counter_words(&self) -> [u32; 4] {
        [self.counter as u32, (self.counter >> 32) as u32, 0, 0]
    }
}
