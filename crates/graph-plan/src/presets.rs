use crate::{Histogram, Waste};

/// A list that an engine ships.
///
/// ```
/// use graph_plan::{Histogram, Preset};
///
/// let seen = Histogram::from_sizes([5, 40])?;
/// let vllm = Preset::vllm(256);
/// assert_eq!(vllm.sizes.len(), 51);
/// assert_eq!(vllm.waste(&seen).padded_rows, 3.0);
/// // Without padding, TensorRT-LLM captures 1 to 31, 32, 64 and 128, and runs a batch of 40 eagerly.
/// assert_eq!(Preset::tensorrt_exact().waste(&seen).eager_steps, 1.0);
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preset {
    /// Engine and, where there are several lists, which.
    pub name: String,
    /// The sizes, in rows, rising.
    pub sizes: Vec<u32>,
    /// Whether a step may run in a larger bucket than its own size.
    pub pads: bool,
}

impl Preset {
    /// The lists for decode batches that engines use when nobody says otherwise.
    pub fn for_decode() -> Vec<Self> {
        vec![
            Self::vllm(256),
            Self::sglang(256),
            Self::sglang(160),
            Self::tensorrt_exact(),
            Self::tensorrt(128),
            Self::tensorrt(256),
            Self::mstar(16),
            Self::mstar(64),
            Self::powers_of_two(1, 256),
        ]
    }

    /// The lists for the tokens of a prefill batch, with a budget of `most` tokens a step.
    pub fn for_prefill(most: u32) -> Vec<Self> {
        vec![
            Self::vllm(256),
            Self::sglang_piecewise(most),
            Self::powers_of_two(1, most),
            Self::new(format!("multiples-of-256-to-{most}"), (256..=most).step_by(256)),
        ]
    }

    /// vLLM with that `max_num_seqs`: up to twice as many, at most 512.
    pub fn vllm(max_num_seqs: u32) -> Self {
        let most = max_num_seqs.saturating_mul(2).min(512);
        let sizes = [1, 2, 4].into_iter().chain((8..256).step_by(8)).chain((256..=most).step_by(16));
        Self::new("vllm", sizes.filter(|&size| size <= most))
    }

    /// SGLang with that `cuda_graph_max_bs`: 256 on large GPUs, 512 with tensor parallelism of four or more, 160 when
    /// the memory is unknown.
    pub fn sglang(most: u32) -> Self {
        let sizes = [1, 2, 4, 8, 12].into_iter().chain((16..=256).step_by(8)).chain((272..512).step_by(16));
        let sizes = sizes.chain((512..=most).step_by(32));
        Self::new(format!("sglang-{most}"), sizes.filter(|&size| size <= most))
    }

    /// SGLang's token counts for piecewise graphs.
    pub fn sglang_piecewise(most: u32) -> Self {
        let small = (4..=32).step_by(4).chain((48..=256).step_by(16)).chain((288..=512).step_by(32));
        let large =
            (576..=1024).step_by(64).chain((1280..=4096).step_by(256)).chain((4608..=most).step_by(512));
        Self::new(format!("sglang-piecewise-{most}"), small.chain(large).filter(|&size| size <= most))
    }

    /// TensorRT-LLM as it starts: no padding.
    pub fn tensorrt_exact() -> Self {
        let exact = Self::new("tensorrt-exact", (1..=32).chain([64, 128]));
        Self { pads: false, ..exact }
    }

    /// TensorRT-LLM with padding turned on.
    pub fn tensorrt(most: u32) -> Self {
        let sizes = [1, 2, 4].into_iter().chain((8..=128).step_by(8)).chain((192..=most).step_by(64));
        Self::new(format!("tensorrt-pad-{most}"), sizes.filter(|&size| size <= most))
    }

    /// mstar: powers of two to 16, or to 64 in its newest version.
    pub fn mstar(most: u32) -> Self {
        Self { name: format!("mstar-{most}"), ..Self::powers_of_two(1, most) }
    }

    /// Powers of two between two sizes.
    pub fn powers_of_two(least: u32, most: u32) -> Self {
        let powers = (0..32).map(|power| 1 << power).filter(|size| (least..=most).contains(size));
        Self::new(format!("powers-of-two-{most}"), powers)
    }

    /// What the list does to the steps of a histogram.
    pub fn waste(&self, seen: &Histogram) -> Waste {
        if self.pads { Waste::of(&self.sizes, seen) } else { Waste::without_padding(&self.sizes, seen) }
    }

    fn new(name: impl Into<String>, sizes: impl Iterator<Item = u32>) -> Self {
        Self { name: name.into(), sizes: sizes.collect(), pads: true }
    }
}
