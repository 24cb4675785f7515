//! The scheduler over the llama node: thousands of random schedules on a tiny model, and the references of the bundled
//! one.

// The plugin registers itself.
use llama_plugin as _;

mod audit;
mod node;
mod property;
mod references;
mod sampling;
mod schedule;
mod tiny;
