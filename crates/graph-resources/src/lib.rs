//! State that captured steps touch: a paged KV cache, attention plans, positions, a sampler.
//!
//! Each is a [`Resource`](graph_core::Resource) that a node makes in `Node::resources` and whose planned inputs its
//! forwards read. Nothing here knows a backend: a plugin's ops do the device work. [`guide`] has a worked example.

mod attention;
mod attention_launch;
mod kv;
mod kv_pages;
mod launch_shape;
mod pages;
mod philox;
mod positions;
mod sample;
mod sampler;
mod sampler_row;
mod select;
mod slots;
mod streams;
mod weight;

pub use attention::AttentionPlan;
pub use attention_launch::AttentionLaunch;
pub use kv::{KvOptions, PagedKv};
pub use kv_pages::KvPages;
pub use launch_shape::{LaunchShape, LaunchShapes};
pub use pages::{PADDING_PAGE, PageCounts, PageOwner, StreamPages};
pub use philox::philox4x32_10;
pub use positions::Positions;
pub use sample::{Sample, sample_row, sample_rows};
pub use sampler::{Sampler, SamplerState};
pub use sampler_row::{SampleParams, SamplerRow};
pub use weight::weight;

#[doc = include_str!("../../../docs/steps.md")]
pub mod guide {}
