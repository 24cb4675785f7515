//! `engine classify`: images through the digits node.

use std::io::Write;

use anyhow::Result;
use graph_core::{
    Backend, BucketLists, CaptureOptions, Engine, HostTensor, NodeCall, NodeRunner, Options, Registry, Source,
};
use serde_json::json;

use digits_plugin::{DigitsOptions, Images, PATCH, Pixels, TOKENS};

use crate::{cli::ClassifyArgs, progress, report};

pub(crate) fn run<B: Backend>(
    args: &ClassifyArgs,
    device: &B,
    name: &str,
    out: &mut impl Write,
) -> Result<()> {
    let Images { images, .. } = Images::read(&args.images)?;
    let mut options = Options::default();
    if let Some(dir) = &args.model {
        options = options.with(DigitsOptions { dir: dir.clone(), ..DigitsOptions::default() });
    }
    let lists = args.buckets.as_ref().map(BucketLists::from_file).transpose()?.unwrap_or_default();
    let capture = CaptureOptions { strict: args.strict, ..CaptureOptions::default() };
    let mut engine = Engine::builder(device.clone())
        .nodes(["digits"])
        .options(options)
        .bucket_lists(lists)
        .capture_options(capture)
        .progress(progress::report())
        .build(&Registry::collect()?)?;
    let stream = engine.stream().clone();
    let node = engine.node("digits")?;
    node.set_eager(args.eager);
    let logits = classify(node, &stream, &images, args.batch_size)?;
    let predictions: Vec<usize> = logits.iter().map(|row| best(row)).collect();
    if args.json {
        writeln!(out, "{}", json!({ "device": name, "predictions": predictions }))?;
    } else {
        writeln!(out, "{}", predictions.iter().map(usize::to_string).collect::<Vec<_>>().join(" "))?;
        writeln!(out, "\n{}", report::buckets(&engine.stats()))?;
    }
    Ok(())
}

/// The logits of every image, in calls of `batch_size`.
pub(crate) fn classify<B: Backend>(
    node: &mut NodeRunner<B>,
    stream: &B::Stream,
    images: &[Pixels],
    batch_size: usize,
) -> Result<Vec<Vec<f32>>> {
    let mut all = Vec::new();
    for batch in images.chunks(batch_size) {
        let pixels: Vec<f32> = batch.iter().flat_map(Pixels::tokens).collect();
        let patches = HostTensor::new(&pixels, [batch.len() * TOKENS, PATCH])?;
        let seq_lens = vec![TOKENS; batch.len()];
        let inputs = [("patches", Source::host::<f32, 2>(&patches))];
        let call = NodeCall { requests: &[], seq_lens: &seq_lens, inputs: &inputs, slot: 0 };
        let logits = node.run("classify", &call)?.into_out().take::<f32, 2>("logits")?;
        let classes = logits.dims()[1];
        all.extend(logits.to_vec(stream)?.chunks(classes).map(<[f32]>::to_vec));
    }
    Ok(all)
}

/// The position of the first of the largest logits.
pub(crate) fn best(logits: &[f32]) -> usize {
    let better = |best: usize, i: usize| if logits[i] > logits[best] { i } else { best };
    (0..logits.len()).reduce(better).unwrap_or(0)
}
