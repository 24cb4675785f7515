mod outcome;

pub use outcome::{PlanOutcome, Sizes};

use std::{collections::BTreeMap, io::Write, path::PathBuf, process::ExitCode};

use crate::{
    Constraints, Forecast, LoadPrior, PaddedRows, PairCost, PairHistogram, PairRules, PlanError, Preset,
    Trace, Waste, best_pairs, best_sizes,
};

/// What a padded request row weighs beside a padded token row in a plan for prefill.
const REQUEST_WEIGHT: f64 = 16.0;

/// Into how many stretches the steps to fit are cut to rehearse the plan on steps it has not seen.
const REHEARSALS: usize = 5;

/// Which batches to plan for.
///
/// ```
/// assert_eq!("prefill".parse(), Ok(graph_plan::Dims::Prefill));
/// assert!("both".parse::<graph_plan::Dims>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Dims {
    /// Decode batches: the size is the number of requests.
    #[default]
    Decode,
    /// Packed prefill batches: the size is the pair of requests and tokens.
    Prefill,
}

impl std::str::FromStr for Dims {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "decode" => Ok(Self::Decode),
            "prefill" => Ok(Self::Prefill),
            other => Err(format!("`{other}` is neither `decode` nor `prefill`")),
        }
    }
}

/// The `plan` command: computes a list of sizes from the steps that a server recorded.
///
/// With the feature `cli` it is also a set of command-line arguments, so that an engine's subcommand is
/// `Command::Plan(plan) => return plan.execute()`.
///
/// ```
/// use graph_plan::{PlanCommand, Sizes, Trace};
///
/// let trace = Trace::parse("decode_bs,prefill_chunks\n3,\n3,\n7,\n3,\n")?;
/// let plan = PlanCommand { sizes: 2, max: Some(16), ..PlanCommand::default() }.plan(&trace)?;
/// assert!(matches!(&plan.sizes, Sizes::Decode(sizes) if sizes.len() == 2 && sizes[1] == 16));
/// assert_eq!(plan.fitted.eager_percent(), 0.0);
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
pub struct PlanCommand {
    /// The steps: CSV with the header `decode_bs,prefill_chunks`, or one JSON object a line
    #[cfg_attr(feature = "cli", arg(long, value_name = "FILE"))]
    pub trace: PathBuf,
    /// How many sizes the list may hold
    #[cfg_attr(feature = "cli", arg(long, value_name = "K"))]
    pub sizes: usize,
    /// The largest size, always in the list; nothing up to it is eager (default: the largest size fitted)
    #[cfg_attr(feature = "cli", arg(long, value_name = "N"))]
    pub max: Option<u32>,
    /// For prefill with --max: the most requests in a batch (default: N, one token each)
    #[cfg_attr(feature = "cli", arg(long, value_name = "R"))]
    pub max_requests: Option<u32>,
    /// Fit on this first part of the steps and count on the rest
    #[cfg_attr(feature = "cli", arg(long, value_name = "F", default_value_t = 1.0))]
    pub fit_fraction: f64,
    /// Which batches to plan for
    #[cfg_attr(feature = "cli", arg(long, value_enum, default_value_t = Dims::Decode))]
    pub dims: Dims,
    /// Fit the steps as they are, without a share of them at other loads
    #[cfg_attr(feature = "cli", arg(long))]
    pub plain: bool,
    /// Count what ready-made lists waste on the same steps: those held out, or else those fitted
    #[cfg_attr(feature = "cli", arg(long))]
    pub compare: bool,
    /// Print JSON
    #[cfg_attr(feature = "cli", arg(long))]
    pub json: bool,
    /// What the list is for in the bucket file; repeat for several [default: llama.decode, or llama.embed, llama.qkv and llama.mlp]
    #[cfg_attr(feature = "cli", arg(long = "target", value_name = "NAME"))]
    pub targets: Vec<String>,
}

impl Default for PlanCommand {
    /// One size for decode, fitted to all steps, with the default prior; the trace has no path.
    fn default() -> Self {
        Self {
            trace: PathBuf::new(),
            sizes: 1,
            max: None,
            max_requests: None,
            fit_fraction: 1.0,
            dims: Dims::Decode,
            plain: false,
            compare: false,
            json: false,
            targets: vec![],
        }
    }
}

impl PlanCommand {
    /// Runs the command as a program does: the answer on standard output, an error on standard error, and the exit
    /// code of [`PlanError::exit_code`].
    pub fn execute(&self) -> ExitCode {
        match self.run(&mut std::io::stdout().lock()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::from(error.exit_code())
            }
        }
    }

    /// Reads the trace, plans, and writes the answer as text or, with `json`, as one JSON object.
    ///
    /// # Errors
    /// A trace that cannot be read, arguments that contradict each other or the trace, an output that cannot be
    /// written.
    pub fn run(&self, output: &mut dyn Write) -> Result<(), PlanError> {
        let outcome = self.plan(&Trace::read(&self.trace)?)?;
        let text = if self.json { serde_json::to_string(&outcome)? } else { outcome.to_string() };
        writeln!(output, "{}", text.trim_end()).map_err(PlanError::Write)
    }

    /// Plans for the steps of a trace.
    ///
    /// # Errors
    /// As for [`PlanCommand::run`].
    pub fn plan(&self, trace: &Trace) -> Result<PlanOutcome, PlanError> {
        let (fit, rest) = trace.split(self.fit_fraction)?;
        let planned = self.fit(&fit)?;
        let count = |trace: &Trace| planned.sizes.waste(trace);
        let fitted = count(&fit)?;
        let held_out = rest.as_ref().map(count).transpose()?;
        let presets = self.presets(rest.as_ref().unwrap_or(&fit))?;
        let forecast = self.forecast(&fit, &planned.sizes)?;
        let buckets = self.buckets(&planned.sizes)?;
        Ok(PlanOutcome {
            sizes: planned.sizes,
            fitted,
            held_out,
            presets,
            buckets,
            forecast,
            bound: planned.bound,
        })
    }

    fn fit(&self, trace: &Trace) -> Result<Planned, PlanError> {
        let steps = trace.steps().len();
        let nothing = |what| PlanError::NothingToCount { what, steps };
        match self.dims {
            Dims::Decode => {
                let seen = trace.decode()?;
                let largest = self.max.or(seen.max()).ok_or(nothing("decode batches"))?;
                if seen.is_empty() {
                    return Err(nothing("decode batches"));
                }
                let rules = Constraints::new().covering(largest);
                let expected = self.prior().expected(&seen, largest)?;
                let sizes = best_sizes(&expected, &PaddedRows::default(), &rules, self.sizes)?;
                Ok(Planned { sizes: Sizes::Decode(sizes), bound: None })
            }
            Dims::Prefill => {
                let seen = trace.prefill()?;
                if seen.is_empty() {
                    return Err(nothing("prefill batches"));
                }
                self.fit_pairs(&seen)
            }
        }
    }

    fn fit_pairs(&self, seen: &PairHistogram) -> Result<Planned, PlanError> {
        let most_tokens = self.max.or(seen.tokens().max()).unwrap_or(1);
        let most_requests = self.max_requests.or(self.max).or(seen.requests().max()).unwrap_or(1);
        let rules = PairRules {
            requests: Constraints::new().covering(most_requests),
            tokens: Constraints::new().covering(most_tokens),
        };
        let (tokens, requests) = (PaddedRows::default(), PaddedRows::weighing(REQUEST_WEIGHT)?);
        let cost = PairCost { requests: &requests, tokens: &tokens };
        let plan = best_pairs(&self.prior().expected_pairs(seen, most_tokens)?, &cost, &rules, self.sizes)?;
        let bound = outcome::Bound { waste: plan.waste, lower: plan.lower_bound, steps: seen.steps() };
        Ok(Planned { sizes: Sizes::Prefill(plan.pairs), bound: Some(bound) })
    }

    /// What may change in the traffic.
    fn change(&self) -> LoadPrior {
        match self.dims {
            Dims::Decode => LoadPrior::decode(),
            Dims::Prefill => LoadPrior::prefill(),
        }
    }

    /// What the list is planned for.
    fn prior(&self) -> LoadPrior {
        if self.plain { LoadPrior::none() } else { self.change() }
    }

    /// `None` if the steps are too few to rehearse on, or a stretch of them has no batch to plan for.
    fn forecast(&self, fit: &Trace, sizes: &Sizes) -> Result<Option<Forecast>, PlanError> {
        let rehearse = |past: &Trace, next: &Trace| self.fit(past)?.sizes.waste(next);
        let rehearsed = match Forecast::rehearse(fit, REHEARSALS, rehearse) {
            Ok(rehearsed) => rehearsed,
            Err(PlanError::EmptyTrace | PlanError::NothingToCount { .. }) => return Ok(None),
            Err(other) => return Err(other),
        };
        // Loads change whether or not the list was planned for it.
        let prior = self.change();
        let loads = match sizes {
            Sizes::Decode(sizes) => {
                let (seen, largest) = (fit.decode()?, sizes.last().copied().unwrap_or(1));
                let waste = |load| Ok(Waste::of(sizes, &seen.at_load(load, largest)?));
                prior
                    .loads(seen.max().unwrap_or(1))
                    .into_iter()
                    .map(waste)
                    .collect::<Result<_, PlanError>>()?
            }
            Sizes::Prefill(pairs) => {
                let (seen, most) = (fit.prefill()?, pairs.last().map_or(1, |pair| pair.1));
                let waste = |load| Ok(Waste::of_pairs(pairs, &seen.at_load(load, most)?));
                let largest = seen.tokens().max().unwrap_or(1);
                prior.loads(largest).into_iter().map(waste).collect::<Result<_, PlanError>>()?
            }
        };
        Ok(Some(rehearsed.with_loads(prior.share(), loads)))
    }

    fn presets(&self, trace: &Trace) -> Result<BTreeMap<String, Waste>, PlanError> {
        if !self.compare {
            return Ok(BTreeMap::new());
        }
        let (lists, seen) = match self.dims {
            Dims::Decode => (Preset::for_decode(), trace.decode()?),
            Dims::Prefill => {
                let seen = trace.prefill_tokens()?;
                let most = self.max.or(seen.max()).unwrap_or(1);
                (Preset::for_prefill(most.next_multiple_of(256)), seen)
            }
        };
        Ok(lists.into_iter().map(|list| (list.name.clone(), list.waste(&seen))).collect())
    }

    fn buckets(&self, sizes: &Sizes) -> Result<outcome::Buckets, PlanError> {
        let defaults: &[&str] = match self.dims {
            Dims::Decode => &["llama.decode"],
            Dims::Prefill => &["llama.embed", "llama.qkv", "llama.mlp"],
        };
        let names = match self.targets.as_slice() {
            [] => defaults.iter().map(|&name| name.to_owned()).collect(),
            given => given.to_vec(),
        };
        let mut buckets = outcome::Buckets::new();
        for name in names {
            let bad = name.is_empty() || buckets.contains_key(&name);
            if bad {
                return Err(PlanError::BadTarget { name });
            }
            buckets.insert(name, BTreeMap::from([sizes.axis()]));
        }
        Ok(buckets)
    }
}

struct Planned {
    sizes: Sizes,
    bound: Option<outcome::Bound>,
}
