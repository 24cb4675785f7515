//! Bucket lists for CUDA graphs, computed from the traffic they will serve.
//!
//! A graph runs a fixed number of rows, so a step runs in the smallest captured size (a *bucket*) that fits, and pays
//! for the rest as padding; a step larger than all buckets runs without a graph (*eager*). Engines ship hand-written
//! lists. This crate computes a list instead:
//!
//! - [`Trace`] reads what a server did, step by step; [`Histogram`] and [`PairHistogram`] count it.
//! - [`best_sizes`] and [`SizeCurve`] find the best list in one dimension, exactly, under [`Constraints`] and for any
//!   [`CostModel`]; the curve also says how many sizes are worth having.
//! - [`best_pairs`] finds buckets of (requests, tokens), and says how far from the best they can be at most.
//! - [`LoadPrior`] makes a list hold on traffic nobody has seen yet; [`Forecast`] rehearses how well.
//! - [`Preset`] has the lists that engines ship, and [`Waste`] counts what any list wastes.
//! - [`PlanCommand`] is all of it as one command.
//!
//! ```
//! use graph_plan::{Constraints, LoadPrior, PaddedRows, Preset, Trace, Waste, best_sizes};
//!
//! let trace = Trace::parse("decode_bs,prefill_chunks\n9,\n9,512\n10,\n10,\n9,\n17,\n")?;
//! let seen = trace.decode()?;
//! let expected = LoadPrior::decode().expected(&seen, 64)?;
//! let sizes = best_sizes(&expected, &PaddedRows::default(), &Constraints::new().covering(64), 5)?;
//! let (ours, theirs) = (Waste::of(&sizes, &seen), Preset::powers_of_two(1, 64).waste(&seen));
//! assert!(ours.padded_rows < theirs.padded_rows);
//! # Ok::<(), graph_plan::PlanError>(())
//! ```

mod command;
mod constraints;
mod cost;
mod envelope;
mod error;
mod exact;
mod forecast;
mod histogram;
mod load;
mod pairs;
mod presets;
mod trace;
mod waste;

pub use command::{Dims, PlanCommand, PlanOutcome, Sizes};
pub use constraints::Constraints;
pub use cost::{CostModel, MeasuredTime, PaddedRows};
pub use error::PlanError;
pub use exact::{SizeCurve, best_sizes};
pub use forecast::Forecast;
pub use histogram::{Histogram, MAX_SIZE};
pub use load::LoadPrior;
pub use pairs::{GridPlan, PairCost, PairHistogram, PairPlan, PairRules, best_grid, best_pairs};
pub use presets::Preset;
pub use trace::{Step, Trace};
pub use waste::Waste;
