//! What a declared step costs on the host: 15 requests that decode one token each, in a bucket of 16.

use divan::Bencher;
use graph_core::{Dims, Label, Options, RequestId, Resource, Row, StepContext, Steps, SubmoduleStep};
use graph_host::Host;
use graph_resources::{
    AttentionPlan, KvOptions, PagedKv, Positions, SampleParams, Sampler, SamplerRow, sample_row,
};

fn main() {
    divan::main();
}

const REQUESTS: u64 = 15;

fn steps() -> Steps<Host> {
    let options = KvOptions::new(1 << 12, 16).max_tokens(4096);
    let resources: Vec<Box<dyn Resource<Host>>> = vec![
        Box::new(PagedKv::new(options).expect("sizes")),
        Box::new(AttentionPlan::new(&options)),
        Box::new(Positions::new()),
        Box::new(Sampler::<Host>::new(64).expect("rows")),
    ];
    let mut steps = Steps::new("node", resources).expect("order");
    for request in 0..REQUESTS {
        steps.ingest(RequestId(request), &Options::default()).expect("ingested");
    }
    steps
}

/// One step over these resources, committed where `commit` says so.
fn step(steps: &mut Steps<Host>, resources: &[&'static str], tokens: usize, commit: bool) {
    let rows: [Row; 16] = std::array::from_fn(|row| match row {
        15 => Row::Padding { slot: 0, row },
        _ => Row::Request(RequestId(row as u64)),
    });
    let padded = Dims { bs: 16, tokens: 16 * tokens };
    let cx = StepContext { slot: 0, rows: &rows, real_bs: 15, padded, captured: true };
    let declare = |step: &mut SubmoduleStep| {
        for resource in resources {
            let mut part = step.resource(resource);
            (0..REQUESTS).for_each(|r| _ = part.segment(RequestId(r), Label::MAIN, tokens));
        }
        Ok(())
    };
    let planned = steps.declare(declare).and_then(|step| step.admit()).and_then(|step| step.plan(&cx));
    let planned = planned.expect("pages");
    if commit {
        planned.commit(&rows[15..]);
    }
}

/// Declared, admitted, planned, and rolled back, with contexts of about 1,000 tokens.
#[divan::bench(args = [&["kv"][..], &["positions", "sampler"], &["kv", "attention"], &["kv", "attention", "sampler"]])]
fn declared_and_rolled_back(bencher: Bencher<'_, '_>, resources: &[&'static str]) {
    let mut steps = steps();
    step(&mut steps, &["kv", "attention"], 1000, true);
    bencher.bench_local(|| step(&mut steps, resources, 1, false));
}

/// Declared, admitted, planned, and committed, of resources that take nothing.
#[divan::bench]
fn committed(bencher: Bencher<'_, '_>) {
    let mut steps = steps();
    bencher.bench_local(|| step(&mut steps, &["positions", "sampler"], 1, true));
}

/// One draw from 32,000 logits.
#[divan::bench(args = ["greedy", "softmax", "top_k", "top_k, top_p"])]
fn draw(bencher: Bencher<'_, '_>, how: &str) {
    let logits: Vec<f32> = (0..32_000).map(|i| ((i * 7919) % 1000) as f32 / 80.0).collect();
    let params = match how {
        "greedy" => SampleParams::greedy(),
        "softmax" => SampleParams::seeded(1),
        "top_k" => SampleParams::seeded(1).top_k(40),
        _ => SampleParams::seeded(1).top_k(40).top_p(0.9),
    };
    let row = SamplerRow::new(&params);
    bencher.bench_local(|| sample_row(divan::black_box(&logits), &row));
}
