//! Bucket choice and registry checks.
//!
//! `cargo bench -p graph-core --bench tables`

use std::hint::black_box;

use divan::Bencher;
use graph_core::{BucketTable, Dims, Location, RegionEntry, Registry, Schema};

fn main() {
    divan::main();
}

/// What mstar does: scan all buckets. The baseline of the choice benches.
fn scan(buckets: &[Dims], d: Dims) -> Option<usize> {
    let fits = buckets.iter().enumerate().filter(|(_, b)| b.bs >= d.bs && b.tokens >= d.tokens);
    fits.min_by_key(|(_, b)| (b.tokens, b.bs)).map(|(i, _)| i)
}

/// `n` buckets as a packed configuration makes them: sizes times totals.
fn grid(n: usize) -> Vec<Dims> {
    let side = (n as f64).sqrt() as usize;
    (0..n).map(|i| Dims { bs: 1 + i % side, tokens: 16 * (1 + i / side) }).collect()
}

/// `n` buckets as a batched configuration makes them: tokens rise with bs.
fn rising(n: usize) -> Vec<Dims> {
    (1..=n).map(|bs| Dims { bs, tokens: bs }).collect()
}

/// Queries that a branch predictor cannot learn.
fn queries(buckets: &[Dims]) -> Vec<Dims> {
    let (bs, tokens) = (buckets.iter().map(|b| b.bs).max(), buckets.iter().map(|b| b.tokens).max());
    let (bs, tokens) = (bs.unwrap_or(1), tokens.unwrap_or(1));
    let mut seed = 1_u64;
    let mut next = |most: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        1 + (seed >> 33) as usize % most
    };
    (0..1024).map(|_| Dims { bs: next(bs), tokens: next(tokens) }).collect()
}

const SIZES: [usize; 3] = [5, 50, 10_000];

#[divan::bench(args = SIZES)]
fn choose_among_packed(bencher: Bencher<'_, '_>, n: usize) {
    let buckets = grid(n);
    let table = BucketTable::new(buckets.iter().map(|d| (*d, false)));
    let queries = queries(&buckets);
    bencher.counter(queries.len()).bench_local(|| {
        for d in &queries {
            let _ = black_box(table.choose(black_box(*d)));
        }
    });
}

#[divan::bench(args = SIZES)]
fn choose_among_batched(bencher: Bencher<'_, '_>, n: usize) {
    let buckets = rising(n);
    let table = BucketTable::new(buckets.iter().map(|d| (*d, true)));
    let queries = queries(&buckets);
    bencher.counter(queries.len()).bench_local(|| {
        for d in &queries {
            let _ = black_box(table.choose(black_box(*d)));
        }
    });
}

#[divan::bench(args = [5, 50])]
fn baseline_scan(bencher: Bencher<'_, '_>, n: usize) {
    let buckets = grid(n);
    let queries = queries(&buckets);
    bencher.counter(queries.len()).bench_local(|| {
        for d in &queries {
            let _ = black_box(scan(black_box(&buckets), *d));
        }
    });
}

#[divan::bench]
fn sort_and_check_10_000_entries(bencher: Bencher<'_, '_>) {
    let entry = |i: usize| -> &'static RegionEntry {
        // A fixed shuffle: 7919 is a prime that does not divide 10,000.
        let name: &'static str = Box::leak(format!("region{:05}", i * 7919 % 10_000).into_boxed_str());
        let schema = Box::leak(Box::new(Schema::new("node", name, "", &[], &[])));
        let at = Location { krate: "plugin", file: "src/lib.rs", line: i as u32 };
        Box::leak(Box::new(RegionEntry { schema, at, on: &[] }))
    };
    let entries: Vec<_> = (0..10_000).map(entry).collect();
    bencher.with_inputs(|| entries.clone()).bench_local_values(|entries| {
        Registry::from_entries(entries, vec![], vec![]).map(|r| r.regions().len())
    });
}
