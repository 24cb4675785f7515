//! `engine serve`: prompts through the llama node.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use graph_core::{Backend, BucketLists, CaptureOptions, Engine, NodeRunner, Options, Registry};
use graph_resources::{PageCounts, PagedKv, SampleParams};
use llama_plugin::{LlamaConfig, LlamaOptions, Prefill, Tokenizer};
use serde_json::json;

use crate::{
    cli::{Arrivals, PrefillWay, ServeArgs},
    progress, prompts,
    record::Record,
    report,
    scheduler::{self, Arrival, Finished, Limits},
};

/// Tokens of a prefill step where nothing else is said: the largest total that the llama plugin captures.
const PREFILL_BUDGET: usize = 256;

pub(crate) fn run<B: Backend>(args: &ServeArgs, device: &B, name: &str, out: &mut impl Write) -> Result<()> {
    let prompts = prompts::collect(&args.prompts, args.prompts_file.as_deref())?;
    let model = Model::open(args.model.as_deref())?;
    let steps = match args.arrivals {
        Arrivals::All => vec![0; prompts.len()],
        Arrivals::Random => scheduler::random_steps(args.seed, prompts.len()),
    };
    let arrivals = model.arrivals(&prompts, |i| steps[i])?;
    let options = LlamaOptions {
        page_size: args.page_size,
        pages: args.pages,
        prefill: match args.prefill {
            PrefillWay::Piecewise => Prefill::Piecewise,
            PrefillWay::BlockLoop => Prefill::BlockLoop,
        },
        ..model.options(args.max_batch)
    };
    let lists = args.buckets.as_ref().map(BucketLists::from_file).transpose()?.unwrap_or_default();
    let capture = CaptureOptions { strict: args.strict, ..CaptureOptions::default() };
    let mut engine = Engine::builder(device.clone())
        .nodes(["llama"])
        .options(Options::default().with(options.clone()))
        .bucket_lists(lists)
        .capture_options(capture)
        .progress(progress::report())
        .build(&Registry::collect()?)?;
    let stream = engine.stream().clone();
    let node = engine.node("llama")?;
    node.set_eager(args.eager);
    if args.strict {
        check_batch(node, args.max_batch.min(prompts.len()))?;
    }
    let limits = Limits {
        prefill_budget: args.prefill_budget,
        prefill: options.prefill.walk(),
        ..model.limits(args.max_new_tokens, args.max_batch)
    };
    let params =
        SampleParams::seeded(args.seed).temperature(args.temperature).top_k(args.top_k).top_p(args.top_p);
    let mut record = args.record.as_deref().map(Record::create).transpose()?;
    let (finished, counts) =
        scheduler::run(node, &stream, &arrivals, limits, params, |step| match &mut record {
            Some(record) => record.write(step),
            None => Ok(()),
        })?;
    let pages = node.steps().get::<PagedKv<B>>().context("the llama node has no cache")?.counts();
    record.map_or(Ok(()), Record::finish)?;
    let texts = model.texts(&finished)?;
    let stats = engine.stats();
    if args.json {
        let request = |((prompt, text), f): ((&String, &String), &Finished)| json!({ "prompt": prompt, "text": text, "new_tokens": f.new_tokens });
        let requests: Vec<_> = prompts.iter().zip(&texts).zip(&finished).map(request).collect();
        let (buckets, eager) = (report::buckets_json(&stats), report::eager_json(&stats));
        let pages = json!({ "total": pages.total, "free_at_end": pages.free, "peak": pages.peak });
        let preemptions = counts.preemptions;
        writeln!(
            out,
            "{}",
            json!({
                "device": name, "requests": requests, "buckets": buckets, "eager": eager, "pages": pages,
                "preemptions": preemptions,
            })
        )?;
    } else {
        print(out, &prompts, &texts, &finished)?;
        let PageCounts { total, peak, .. } = pages;
        writeln!(out, "\npages: {peak} of {total} at the most; preemptions: {}", counts.preemptions)?;
        writeln!(out, "\n{}", report::buckets(&stats))?;
    }
    Ok(())
}

/// Strict mode: a batch that no decode bucket holds is an error before anything runs.
fn check_batch<B: Backend>(node: &mut NodeRunner<B>, batch: usize) -> Result<()> {
    match node.whole().max_batch_size_for("decode") {
        Some(most) if batch > most => bail!(
            "llama.decode: a batch of {batch} is larger than any captured bucket ({most}) and strict mode is on; \
             lower --max-batch, capture a larger bucket with --buckets, or leave out --strict"
        ),
        _ => Ok(()),
    }
}

/// Texts with their prompts, as a person reads them.
pub(crate) fn print(
    out: &mut impl Write,
    prompts: &[String],
    texts: &[String],
    finished: &[Finished],
) -> Result<()> {
    for (i, ((prompt, text), f)) in prompts.iter().zip(texts).zip(finished).enumerate() {
        let new = text.strip_prefix(prompt.as_str()).unwrap_or(text);
        writeln!(out, "--- request {} (+{} tokens)\n{prompt}|{new}", i + 1, f.new_tokens)?;
    }
    Ok(())
}

/// A model folder with what the scheduler needs to know of it.
pub(crate) struct Model {
    dir: PathBuf,
    config: LlamaConfig,
    tokenizer: Tokenizer,
}

impl Model {
    /// The folder, or the model that comes with the plugin.
    pub(crate) fn open(dir: Option<&Path>) -> Result<Self> {
        let dir = dir.map_or_else(|| LlamaOptions::default().dir, Path::to_path_buf);
        let config = LlamaConfig::from_dir(&dir)?;
        let tokenizer = Tokenizer::for_model(&dir, config.vocab_size)?;
        Ok(Model { dir, config, tokenizer })
    }

    /// What the plugin loads, for `max_batch` requests at a time.
    pub(crate) fn options(&self, max_batch: usize) -> LlamaOptions {
        LlamaOptions { dir: self.dir.clone(), max_requests: max_batch, ..LlamaOptions::default() }
    }

    pub(crate) fn limits(&self, max_new_tokens: usize, max_batch: usize) -> Limits {
        let context = LlamaOptions::default().context(&self.config);
        Limits {
            max_new_tokens,
            max_batch,
            prefill_budget: PREFILL_BUDGET,
            context,
            vocab: self.config.vocab_size,
            prefill: Prefill::Piecewise.walk(),
            decode: "decode",
        }
    }

    /// Prompts as tokens; an empty or too long one is an error.
    pub(crate) fn arrivals(
        &self,
        prompts: &[String],
        at_step: impl Fn(usize) -> usize,
    ) -> Result<Vec<Arrival>> {
        let context = self.limits(0, 1).context;
        let arrival = |(i, prompt): (usize, &String)| {
            let tokens = self.tokenizer.encode(prompt).with_context(|| format!("prompt {}", i + 1))?;
            match tokens.len() {
                0 => bail!("prompt {} is empty; give at least one character", i + 1),
                n if n > context => {
                    bail!("prompt {} has {n} tokens, the model's context holds {context}", i + 1)
                }
                _ => Ok(Arrival { tokens, at_step: at_step(i) }),
            }
        };
        prompts.iter().enumerate().map(arrival).collect()
    }

    /// Prompt and continuation of every request.
    pub(crate) fn texts(&self, finished: &[Finished]) -> Result<Vec<String>> {
        finished.iter().map(|f| Ok(self.tokenizer.decode(&f.tokens)?)).collect()
    }
}
