use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use crate::{Forecast, PlanError, Trace, Waste};

/// The sizes of a list.
///
/// ```
/// use graph_plan::Sizes;
///
/// let pairs = Sizes::Prefill(vec![(1, 512), (4, 512), (8, 2048)]);
/// assert_eq!(serde_json::to_string(&pairs)?, "[[1,512],[4,512],[8,2048]]");
/// // A region whose buckets are token counts alone takes the tokens of the pairs.
/// assert_eq!(pairs.axis(), ("total_tokens", vec![512, 2048]));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Sizes {
    /// Requests.
    Decode(Vec<u32>),
    /// `(requests, tokens)`, by rising tokens, then requests.
    Prefill(Vec<(u32, u32)>),
}

impl Sizes {
    /// What the list does to the steps of a trace.
    ///
    /// # Errors
    /// A size above [`MAX_SIZE`](crate::MAX_SIZE).
    pub fn waste(&self, trace: &Trace) -> Result<Waste, PlanError> {
        Ok(match self {
            Self::Decode(sizes) => Waste::of(sizes, &trace.decode()?),
            Self::Prefill(pairs) => Waste::of_pairs(pairs, &trace.prefill()?),
        })
    }

    /// The name of the axis that a bucket file lists, and its sizes, rising: `batch_sizes` or `total_tokens`.
    pub fn axis(&self) -> (&'static str, Vec<u32>) {
        match self {
            Self::Decode(sizes) => ("batch_sizes", sizes.clone()),
            Self::Prefill(pairs) => {
                let mut tokens: Vec<u32> = pairs.iter().map(|pair| pair.1).collect();
                tokens.sort_unstable();
                tokens.dedup();
                ("total_tokens", tokens)
            }
        }
    }
}

/// What the `plan` command found. Serialized, it is the command's JSON; displayed, its text.
///
/// ```
/// use graph_plan::{PlanCommand, Trace};
///
/// let trace = Trace::parse("decode_bs,prefill_chunks\n4,\n4,\n")?;
/// let plan = PlanCommand::default().plan(&trace)?;
/// let json = serde_json::to_value(&plan)?;
/// assert_eq!(json["sizes"], serde_json::json!([4]));
/// assert_eq!(json["held_out"], serde_json::Value::Null);
/// assert_eq!(json["buckets"], serde_json::json!({"llama.decode": {"batch_sizes": [4]}}));
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlanOutcome {
    /// The list.
    pub sizes: Sizes,
    /// What it does to the steps it was fitted to.
    pub fitted: Waste,
    /// What it does to the steps after those, if any were held out.
    pub held_out: Option<Waste>,
    /// What ready-made lists do to the steps held out, or else to those fitted; empty unless asked for.
    pub presets: BTreeMap<String, Waste>,
    /// The list as a bucket file has it: target, axis, sizes.
    pub buckets: Buckets,
    /// What to expect on steps that come later; `None` if the steps fitted are too few to say. Not in the JSON.
    #[serde(skip)]
    pub forecast: Option<Forecast>,
    #[serde(skip)]
    pub(super) bound: Option<Bound>,
}

/// Target, axis, sizes.
pub(super) type Buckets = BTreeMap<String, BTreeMap<&'static str, Vec<u32>>>;

/// How good a list of pairs is for the steps it was planned for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bound {
    pub(super) waste: f64,
    pub(super) lower: f64,
    pub(super) steps: f64,
}

impl fmt::Display for PlanOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sizes {
            Sizes::Decode(sizes) => {
                let list: Vec<String> = sizes.iter().map(u32::to_string).collect();
                writeln!(f, "{} sizes: {}", sizes.len(), list.join(" "))?;
            }
            Sizes::Prefill(pairs) => {
                let list: Vec<String> = pairs.iter().map(|(r, t)| format!("{r}x{t}")).collect();
                writeln!(f, "{} sizes (requests x tokens): {}", pairs.len(), list.join(" "))?;
            }
        }
        writeln!(f)?;
        writeln!(f, "{:<28} {:>10} {:>11} {:>9}", "", "steps", "padding %", "eager %")?;
        row(f, "fitted", &self.fitted)?;
        if let Some(held_out) = &self.held_out {
            row(f, "held out", held_out)?;
        }
        for (name, waste) in &self.presets {
            row(f, name, waste)?;
        }
        writeln!(f)?;
        if let Some(forecast) = &self.forecast {
            let (mean, low, high) = (forecast.mean(), forecast.quantile(0.1), forecast.quantile(0.9));
            let (parts, loads) = (forecast.rehearsed().len(), forecast.other_loads().len());
            write!(
                f,
                "expected on later steps: {mean:.2} % padding, from {low:.2} to {high:.2} % for 8 rows in 10 "
            )?;
            writeln!(f, "({parts} rehearsals, {loads} other loads)")?;
        }
        if let Some(bound) = &self.bound {
            let per_step = |waste: f64| if bound.steps > 0.0 { waste / bound.steps } else { 0.0 };
            writeln!(
                f,
                "padded tokens + 16 x padded requests per planned step: {:.2}; no list as long is below {:.2}",
                per_step(bound.waste),
                per_step(bound.lower),
            )?;
        }
        Ok(())
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, waste: &Waste) -> fmt::Result {
    let (padding, eager) = (waste.padding_percent(), waste.eager_percent());
    writeln!(f, "{name:<28} {:>10} {padding:>11.2} {eager:>9.2}", waste.steps)
}
