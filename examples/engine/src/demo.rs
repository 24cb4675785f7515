//! The run without a command: everything once, and a comparison with eager execution.

use std::time::Instant;

use anyhow::{Result, bail};
use digits_plugin::{DigitsOptions, Images, Pixels};
use graph_core::{Engine, Options, Registry};
use graph_host::Host;
use graph_resources::SampleParams;

use crate::{
    classify, progress, prompts, regions, report,
    scheduler::{self, Finished},
    serve::{self, Model},
};

/// Tokens for each prompt.
const NEW_TOKENS: usize = 100;
/// Requests at a time: fewer than prompts, so that some wait.
const MAX_BATCH: usize = 8;
/// Steps between arrivals.
const ARRIVAL_STEPS: usize = 7;
/// The most images in one call.
const MOST_IMAGES: usize = 32;

/// Lists, captures, serves, classifies, reports, and compares with eager execution; a difference is an error.
pub fn run(host: &Host) -> Result<()> {
    let registry = Registry::collect()?;
    println!("# Registered\n\n{}\n", regions::list(&registry));

    let model = Model::open(None)?;
    let Images { images, .. } = Images::read(&DigitsOptions::default().dir.join("test_images.json"))?;
    let start = Instant::now();
    let mut engine = Engine::builder(host.clone())
        .options(Options::default().with(model.options(MAX_BATCH)))
        .progress(progress::report())
        .build(&registry)?;
    let ledger = engine.ledger().clone();
    println!("# Captured in {:.2} s\n", start.elapsed().as_secs_f64());
    for (node, bytes) in &ledger.arena {
        println!("static buffers of {node}: {bytes} bytes");
    }
    println!("blocks of host-side inputs: {} bytes\nscratch: {} bytes\n", ledger.blocks, ledger.scratch);

    let prompts: Vec<String> = prompts::DEMO.map(String::from).to_vec();
    let captured = everything(&mut engine, &model, &prompts, &images)?;
    println!("# Served\n");
    serve::print(&prompts, &model.texts(&captured.finished)?, &captured.finished);
    println!("\n# Classified\n\n{} images in batches of 1 to {MOST_IMAGES}\n", images.len());
    println!("# Buckets\n\n{}\n", report::buckets(&engine.stats()));

    engine.node("llama")?.set_eager(true);
    engine.node("digits")?.set_eager(true);
    let eager = everything(&mut engine, &model, &prompts, &images)?;
    println!("# Compared with eager execution\n");
    captured.compare(&eager)?;
    println!(
        "the same: {} texts, the bits of their logits, and {} images' logits",
        prompts.len(),
        images.len()
    );
    println!("replayed {:.2} s, eager {:.2} s", captured.seconds, eager.seconds);
    Ok(())
}

/// What one pass over all inputs gave.
struct Pass {
    finished: Vec<Finished>,
    /// Logits of every image, at every batch size.
    logits: Vec<Vec<Vec<f32>>>,
    seconds: f64,
}

fn everything(
    engine: &mut Engine<Host>,
    model: &Model,
    prompts: &[String],
    images: &[Pixels],
) -> Result<Pass> {
    let stream = engine.stream().clone();
    let arrivals = model.arrivals(prompts, |i| i * ARRIVAL_STEPS)?;
    let start = Instant::now();
    let limits = model.limits(NEW_TOKENS, MAX_BATCH);
    let params = SampleParams::greedy();
    let node = engine.node("llama")?;
    let (finished, _) = scheduler::run(node, &stream, &arrivals, limits, params, |_| Ok(()))?;
    let node = engine.node("digits")?;
    let logits = (1..=MOST_IMAGES)
        .map(|batch_size| classify::classify(node, &stream, images, batch_size))
        .collect::<Result<_>>()?;
    Ok(Pass { finished, logits, seconds: start.elapsed().as_secs_f64() })
}

impl Pass {
    fn compare(&self, eager: &Pass) -> Result<()> {
        for (i, (a, b)) in self.finished.iter().zip(&eager.finished).enumerate() {
            if a.tokens != b.tokens {
                bail!("request {}: replay and eager execution generated different tokens", i + 1);
            }
            if a != b {
                bail!("request {}: the same tokens from different logits", i + 1);
            }
        }
        for (i, (a, b)) in self.logits.iter().zip(&eager.logits).enumerate() {
            let bits = |all: &[Vec<f32>]| -> Vec<u32> { all.iter().flatten().map(|x| x.to_bits()).collect() };
            if bits(a) != bits(b) {
                bail!("digits at batch size {}: replay and eager execution differ", i + 1);
            }
        }
        Ok(())
    }
}
