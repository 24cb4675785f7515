//! The differences on purpose: which vectors must differ, by their inputs alone, and what graph-core answers instead.
//!
//! The numbers are those of `docs/differences.md`. Nothing here asks graph-core. What it answers instead is the
//! vector's own answer with the one thing changed that the difference is about, or worked out from the setup.

mod model;
mod piecewise;
mod regions;
mod shapes;
mod steps;
mod whole;

pub(crate) use whole::expected;

use serde_json::{Map, Value, json};

use crate::{
    answers::has_negative,
    setups::Setups,
    vectors::{Problem, Vector},
};

/// A vector that must differ.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Its number.
    pub(crate) number: u8,
    /// What graph-core answers instead.
    pub(crate) ours: Value,
}

impl Difference {
    fn new(number: u8, ours: Value) -> Self {
        Difference { number, ours }
    }
}

type Found = Result<Option<Difference>, Problem>;

/// The difference that a vector's inputs belong to.
pub(crate) fn difference(vector: &Vector, setups: &Setups<'_>) -> Found {
    if has_negative(&vector.args) {
        return Ok(Some(Difference::new(22, json!({"error": "NotACount"}))));
    }
    match vector.function.as_str() {
        "seq_dim" => shapes::seq_dim(vector),
        "replay_seq_lens" => shapes::replay_seq_lens(vector),
        "capture_order" => whole::capture_order(vector, setups),
        "runner_max_bs" => whole::runner_max_bs(vector, setups),
        "dropped_buckets" => whole::dropped_buckets(vector, setups),
        "select_bucket" | "select_batched_bucket" => whole::select(vector, setups),
        "max_batch_size_for" => whole::max_batch_size_for(vector, setups),
        "captures_walk" => whole::captures_walk(vector, setups),
        "lease_slot" => steps::lease_slot(vector, setups),
        "lease_sequence" => steps::lease_sequence(vector, setups),
        "pad_inputs" => steps::pad_inputs(vector, setups),
        "step_ids" => steps::step_ids(vector, setups),
        "stage" => steps::stage(vector, setups),
        "captured_order" | "piecewise_dropped_shapes" => piecewise::shapes(vector, setups),
        "padded_bs" => piecewise::padded_bs(vector, setups),
        "resolve" => piecewise::resolve(vector, setups),
        "piecewise_lease_slot" => piecewise::lease_slot(vector, setups),
        "run" => piecewise::run(vector, setups),
        _ => Ok(None),
    }
}

/// An answer with handles where the reference implementation names padding rows (difference 21):
/// `__cg_node_0_slot1_7__` is row 7 of slot 1, `__cg_pw_blk_8_32_7__` is row 7 of slot 0.
fn with_handles(value: &Value) -> Value {
    match value {
        Value::String(name) if name.starts_with("__cg_") => {
            let mut parts = name.trim_matches('_').rsplit('_');
            let row: Option<usize> = parts.next().and_then(|row| row.parse().ok());
            let slot: Option<usize> = parts.find_map(|part| part.strip_prefix("slot")?.parse().ok());
            json!({"padding": row, "slot": slot.unwrap_or(0)})
        }
        Value::Array(all) => all.iter().map(with_handles).collect(),
        Value::Object(all) => {
            let all: Map<_, _> =
                all.iter().map(|(name, value)| (name.clone(), with_handles(value))).collect();
            all.into()
        }
        other => other.clone(),
    }
}

/// An answer to a call with inputs that nothing declares: each is refused, and then the call is made without them
/// (difference 6).
fn with_refused(mut ours: Value, unknown: &[&str]) -> Value {
    if !unknown.is_empty() {
        ours["refused"] = json!(unknown);
    }
    ours
}
