//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::device::{self, Choice};

/// Captures and serves the models that are linked into this binary.
///
/// Without a command: lists what is registered, captures everything, serves and classifies, prints what happened, and
/// compares with eager execution.
#[derive(Parser)]
#[command(version)]
pub(crate) struct Cli {
    /// Where the models run: auto, host, or cuda:N for the CUDA device of that number (cuda is cuda:0). Auto takes
    /// cuda:0 where it can be had, else the host.
    #[arg(long, global = true, default_value = "auto", value_parser = device::choice)]
    pub(crate) device: Choice,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the registered regions and whole forwards.
    Regions(RegionsArgs),
    /// Continue prompts with the llama node, by continuous batching.
    Serve(ServeArgs),
    /// Classify images with the digits node.
    Classify(ClassifyArgs),
    /// Compute bucket lists from recorded steps.
    Plan(graph_plan::PlanCommand),
}

#[derive(Args)]
pub(crate) struct RegionsArgs {
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Prompts to continue.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompts: Vec<String>,
    /// More prompts: a JSON array of strings.
    #[arg(long = "prompts", value_name = "FILE")]
    pub(crate) prompts_file: Option<PathBuf>,
    /// A Llama-style model folder (config.json, safetensors).
    #[arg(long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
    /// Tokens to generate for each prompt.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) max_new_tokens: usize,
    /// Requests that run at the same time.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = at_least_one)]
    pub(crate) max_batch: usize,
    /// How prompts run: regions with eager attention between them, or one region with all layers.
    #[arg(long, value_name = "WAY", default_value = "piecewise")]
    pub(crate) prefill: PrefillWay,
    /// Tokens of a prefill step.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = at_least_one)]
    pub(crate) prefill_budget: usize,
    /// Tokens of a page of keys and values.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = at_least_one)]
    pub(crate) page_size: usize,
    /// Pages that all requests share; by default as many as --max-batch whole contexts take.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) pages: Option<usize>,
    /// When prompts arrive: all at once, or at random steps.
    #[arg(long, value_name = "WHEN", default_value = "all")]
    pub(crate) arrivals: Arrivals,
    /// The seed of random arrivals and of sampling: every request draws with it.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Logits are divided by it before a token is drawn; 0 takes the largest.
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = temperature, allow_negative_numbers = true)]
    pub(crate) temperature: f32,
    /// The largest tokens that may be drawn; 0 for all.
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub(crate) top_k: u32,
    /// The part of all probability that the largest tokens must reach to be drawn; 1 for all.
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = top_p, allow_negative_numbers = true)]
    pub(crate) top_p: f32,
    /// Bucket lists that replace the configured ones, as JSON: {"llama.decode": {"batch_sizes": [1, 4]}}.
    #[arg(long, value_name = "FILE")]
    pub(crate) buckets: Option<PathBuf>,
    /// Run everything eagerly.
    #[arg(long, conflicts_with = "strict")]
    pub(crate) eager: bool,
    /// Fail where no captured bucket fits, instead of running eagerly.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Write the size of every step, as JSON lines that `engine plan --trace` reads.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum PrefillWay {
    Piecewise,
    BlockLoop,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arrivals {
    All,
    Random,
}

#[derive(Args)]
pub(crate) struct ClassifyArgs {
    /// Images: JSON with `images`, an array of arrays of 64 integers from 0 to 16.
    #[arg(long, value_name = "FILE")]
    pub(crate) images: PathBuf,
    /// Images in a call.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) batch_size: usize,
    /// A digits model folder (config.json, model.safetensors).
    #[arg(long, value_name = "DIR")]
    pub(crate) model: Option<PathBuf>,
    /// Bucket lists that replace the configured ones, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) buckets: Option<PathBuf>,
    /// Run everything eagerly.
    #[arg(long, conflicts_with = "strict")]
    pub(crate) eager: bool,
    /// Fail where no captured bucket fits, instead of running eagerly.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be 1 or more".into()),
        Ok(n) => Ok(n),
        Err(e) => Err(format!("{e}")),
    }
}

fn temperature(text: &str) -> Result<f32, String> {
    in_range(text, |t: f32| t >= 0.0 && t.is_finite(), "0 or more")
}

fn top_p(text: &str) -> Result<f32, String> {
    in_range(text, |p| (0.0..=1.0).contains(&p), "from 0 to 1")
}

fn in_range(text: &str, holds: impl Fn(f32) -> bool, must: &str) -> Result<f32, String> {
    match text.parse() {
        Ok(n) if holds(n) => Ok(n),
        Ok(_) => Err(format!("must be {must}")),
        Err(e) => Err(format!("{e}")),
    }
}
