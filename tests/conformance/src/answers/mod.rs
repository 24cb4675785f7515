//! graph-core's answers, from its public types and from runners that were really captured.

mod choice;
mod config;
mod piecewise;
mod run;
mod step;

use serde_json::{Value, json};

use crate::{
    errors::Stop,
    setups::Setups,
    vectors::{Problem, Vector},
};

type Answer = Result<Value, Stop>;

/// graph-core's answer to a vector. An error of graph-core is an answer; a problem is a vector that cannot be asked.
pub(crate) fn answer(vector: &Vector, setups: &Setups<'_>) -> Result<Value, Problem> {
    if has_negative(&vector.args) {
        // Counts are `usize`: the question cannot be written.
        return Ok(json!({"error": "NotACount"}));
    }
    match ask(vector, setups) {
        Ok(answer) | Err(Stop::Refused(answer)) => Ok(answer),
        Err(Stop::Problem(problem)) => Err(problem),
    }
}

fn ask(vector: &Vector, setups: &Setups<'_>) -> Answer {
    match vector.function.as_str() {
        "distribute_tokens" => config::distribute_tokens(vector),
        "default_batch_sizes" => Ok(config::default_batch_sizes()),
        "seq_dim" => config::seq_dim(vector),
        "replay_graph_walks" => config::replay_graph_walks(vector),
        "defaults" => config::defaults(vector),
        "get_total_tokens" => config::total_tokens(vector),
        "get_node_inputs" => config::node_inputs(vector),
        "get_capture_shapes" => config::capture_shapes(vector),
        "replay_seq_lens" => config::replay_seq_lens(vector),
        "capture_order" => choice::capture_order(vector, setups),
        "runner_max_bs" => choice::runner_max_bs(vector, setups),
        "dropped_buckets" => choice::dropped_buckets(vector, setups),
        "select_bucket" | "select_batched_bucket" => choice::select(vector, setups),
        "max_batch_size_for" => choice::max_batch_size_for(vector, setups),
        "captures_walk" => choice::captures_walk(vector, setups),
        "lease_slot" => step::lease_slot(vector, setups),
        "lease_sequence" => step::lease_sequence(vector, setups),
        "pad_inputs" => step::pad_inputs(vector, setups),
        "step_ids" => step::step_ids(vector, setups),
        "stage" => step::stage(vector, setups),
        "captured_order" => piecewise::captured_order(vector, setups),
        "piecewise_dropped_shapes" => piecewise::dropped_shapes(vector, setups),
        "padded_bs" => piecewise::padded_bs(vector, setups),
        "resolve" => piecewise::resolve(vector, setups),
        "piecewise_lease_slot" => run::lease_slot(vector, setups),
        "run" => run::run(vector, setups),
        other => Err(format!("unknown function `{other}`").into()),
    }
}

/// Whether a count is negative. Key info may be.
pub(crate) fn has_negative(args: &Value) -> bool {
    match args {
        Value::Number(n) => n.as_i64().is_some_and(|n| n < 0),
        Value::Array(all) => all.iter().any(has_negative),
        Value::Object(all) => all.iter().any(|(name, value)| name != "key" && has_negative(value)),
        _ => false,
    }
}
