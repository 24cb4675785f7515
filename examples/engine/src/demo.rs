//! The run without a command: everything once, and a comparison with eager execution.

use std::{io::Write, time::Instant};

use anyhow::{Result, bail};
use digits_plugin::{DigitsOptions, Images, Pixels};
use graph_core::{Backend, Engine, Options, Registry};
use graph_resources::SampleParams;

use crate::{
    classify, progress, prompts, regions, report,
    scheduler::{self, Finished},
    serve::{self, Model},
};

/// Requests at a time: fewer than prompts, so that some wait.
const MAX_BATCH: usize = 8;
/// Steps between arrivals.
const ARRIVAL_STEPS: usize = 7;

/// What is served and classified.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Prompts of the llama model.
    pub prompts: Vec<String>,
    /// Tokens to generate for each prompt.
    pub new_tokens: usize,
    /// Images of the digits model.
    pub images: Vec<Pixels>,
    /// They are classified in batches of 1, 2 and so on up to this.
    pub most_images: usize,
}

impl Inputs {
    /// The binary's own prompts, and the images that come with the digits plugin.
    ///
    /// # Errors
    /// The file of images cannot be read.
    pub fn bundled() -> Result<Self> {
        let Images { images, .. } = Images::read(&DigitsOptions::default().dir.join("test_images.json"))?;
        Ok(Inputs {
            prompts: prompts::DEMO.map(String::from).to_vec(),
            new_tokens: 100,
            images,
            most_images: 32,
        })
    }
}

/// Lists, captures, serves, classifies, reports, and compares with eager execution; a difference is an error.
///
/// # Errors
/// A difference; what the device, the models or `out` report.
pub fn run<B: Backend>(device: &B, name: &str, inputs: &Inputs, out: &mut impl Write) -> Result<()> {
    let registry = Registry::collect()?;
    writeln!(out, "# Registered\n\n{}\n", regions::list(&registry))?;

    let model = Model::open(None)?;
    let start = Instant::now();
    let mut engine = Engine::builder(device.clone())
        .options(Options::default().with(model.options(MAX_BATCH)))
        .progress(progress::report())
        .build(&registry)?;
    let ledger = engine.ledger().clone();
    writeln!(out, "# Captured on {name} in {:.2} s\n", start.elapsed().as_secs_f64())?;
    for (node, bytes) in &ledger.arena {
        writeln!(out, "static buffers of {node}: {bytes} bytes")?;
    }
    writeln!(
        out,
        "blocks of host-side inputs: {} bytes\nscratch: {} bytes\n",
        ledger.blocks, ledger.scratch
    )?;

    let Inputs { prompts, images, most_images, .. } = inputs;
    let captured = everything(&mut engine, &model, inputs)?;
    writeln!(out, "# Served\n")?;
    serve::print(out, prompts, &model.texts(&captured.finished)?, &captured.finished)?;
    writeln!(out, "\n# Classified\n\n{} images in batches of 1 to {most_images}\n", images.len())?;
    writeln!(out, "# Buckets\n\n{}\n", report::buckets(&engine.stats()))?;

    engine.node("llama")?.set_eager(true);
    engine.node("digits")?.set_eager(true);
    let eager = everything(&mut engine, &model, inputs)?;
    writeln!(out, "# Compared with eager execution\n")?;
    captured.compare(&eager)?;
    writeln!(
        out,
        "the same: {} texts, the bits of their logits, and {} images' logits",
        prompts.len(),
        images.len()
    )?;
    writeln!(out, "replayed {:.2} s, eager {:.2} s", captured.seconds, eager.seconds)?;
    Ok(())
}

/// What one pass over all inputs gave.
struct Pass {
    finished: Vec<Finished>,
    /// Logits of every image, at every batch size.
    logits: Vec<Vec<Vec<f32>>>,
    seconds: f64,
}

fn everything<B: Backend>(engine: &mut Engine<B>, model: &Model, inputs: &Inputs) -> Result<Pass> {
    let stream = engine.stream().clone();
    let arrivals = model.arrivals(&inputs.prompts, |i| i * ARRIVAL_STEPS)?;
    let start = Instant::now();
    let limits = model.limits(inputs.new_tokens, MAX_BATCH);
    let params = SampleParams::greedy();
    let node = engine.node("llama")?;
    let (finished, _) = scheduler::run(node, &stream, &arrivals, limits, params, |_| Ok(()))?;
    let node = engine.node("digits")?;
    let logits = (1..=inputs.most_images)
        .map(|batch_size| classify::classify(node, &stream, &inputs.images, batch_size))
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
