//! Buckets of (requests, tokens).

use graph_plan::{
    Constraints, LoadPrior, PaddedRows, PairCost, PairHistogram, PairPlan, PairRules, PlanError, Waste,
    best_grid, best_pairs,
};

use crate::{Workload, split::cut};

const REQUEST_WEIGHT: f64 = 16.0;

fn pairs(seen: &PairHistogram, rules: &PairRules, count: usize) -> Result<(PairPlan, f64), PlanError> {
    let (tokens, rows) = (PaddedRows::default(), PaddedRows::weighing(REQUEST_WEIGHT)?);
    let cost = PairCost { requests: &rows, tokens: &tokens };
    Ok((best_pairs(seen, &cost, rules, count)?, best_grid(seen, &cost, rules, count)?.waste))
}

pub(crate) fn print(workloads: &[Workload]) -> Result<(), PlanError> {
    println!(
        "
## Prefill: (requests, tokens)

The waste of a list is padded tokens plus {REQUEST_WEIGHT} times padded request rows, on the whole workload. *Grid* is the best product of
a list per axis (exact), *pairs* our search (not proven best), *bound* what no list of as many pairs can go below: the sum of
what the best 16 sizes waste on each axis alone.

| workload | grid, 16 | pairs, 16 | bound, 16 | pairs / grid | pairs / bound |
|---|--:|--:|--:|--:|--:|"
    );
    let mut sums = (0.0, 0.0);
    for workload in workloads {
        let (plan, grid) = pairs(&workload.trace.prefill()?, &PairRules::default(), 16)?;
        let (ratio, distance) = (plan.waste / grid, plan.waste / plan.lower_bound);
        sums = (sums.0 + ratio / workloads.len() as f64, sums.1 + distance / workloads.len() as f64);
        println!(
            "| {} | {grid} | {} | {} | {ratio:.3} | {distance:.2} |",
            workload.name, plan.waste, plan.lower_bound
        );
    }
    println!("| mean | | | | **{:.3}** | {:.2} |", sums.0, sums.1);
    for count in [8, 32] {
        let mut mean = 0.0;
        for workload in workloads {
            let (plan, grid) = pairs(&workload.trace.prefill()?, &PairRules::default(), count)?;
            mean += plan.waste / grid / workloads.len() as f64;
        }
        println!("\nWith {count} pairs the mean of pairs / grid is {mean:.3}.");
    }
    print_split(workloads)
}

fn print_split(workloads: &[Workload]) -> Result<(), PlanError> {
    println!(
        "
The time split for prefill, 16 pairs, the largest pair being the token budget and the most requests of the whole workload. A
budget fills up at any load, so a plain fit holds nearly as well as one with a prior, and a large share costs more than it
saves: hence a share of 0.1. Each cell: mean token padding / worst / mean waste per token of work, in percent.

| fitted on the first | plain | share 0.05 | **share 0.1** | share 0.2 | share 0.3 | share 0.5 |
|--:|--:|--:|--:|--:|--:|--:|"
    );
    for percent in [30, 50, 70] {
        print!("| {percent} % |");
        for share in [0.0, 0.05, 0.1, 0.2, 0.3, 0.5] {
            let prior = LoadPrior::new(share, 1.5)?;
            let (mut mean, mut worst, mut waste) = (0.0, 0.0f64, 0.0);
            let cuts = cut(workloads, f64::from(percent) / 100.0)?;
            for (workload, (past, next)) in workloads.iter().zip(&cuts) {
                let budget = if workload.name.contains("b8192") { 8192 } else { 2048 };
                let most = workload.trace.prefill()?.requests().max().unwrap_or(1);
                let rules = PairRules {
                    requests: Constraints::new().covering(most),
                    tokens: Constraints::new().covering(budget),
                };
                let (plan, _) = pairs(&prior.expected_pairs(&past.prefill()?, budget)?, &rules, 16)?;
                let seen = next.prefill()?;
                let padding = Waste::of_pairs(&plan.pairs, &seen).padding_percent();
                mean += padding / workloads.len() as f64;
                worst = worst.max(padding);
                waste += 100.0 * wasted(&plan.pairs, &seen) / seen.tokens().rows() / workloads.len() as f64;
            }
            print!(" {mean:.2} / {worst:.1} / {waste:.2} |");
        }
        println!();
    }
    Ok(())
}

/// Padded tokens plus weighed padded requests.
fn wasted(pairs: &[(u32, u32)], seen: &PairHistogram) -> f64 {
    let cost = |((requests, tokens), weight): ((u32, u32), f64)| {
        let bucket = pairs.iter().find(|pair| pair.0 >= requests && pair.1 >= tokens);
        bucket.map_or(0.0, |pair| {
            weight * (f64::from(pair.1 - tokens) + REQUEST_WEIGHT * f64::from(pair.0 - requests))
        })
    };
    seen.iter().map(cost).sum()
}
