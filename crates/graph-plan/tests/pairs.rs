//! Buckets of (requests, tokens) on the ten workloads.

mod workloads;

use graph_plan::{
    Constraints, PaddedRows, PairCost, PairHistogram, PairRules, PlanError, Waste, best_grid, best_pairs,
};

const ROW: f64 = 16.0;

/// Padded tokens plus 16 times padded requests, counted step by step.
fn counted(pairs: &[(u32, u32)], seen: &PairHistogram) -> f64 {
    let cost = |((requests, tokens), weight): ((u32, u32), f64)| {
        let fits = pairs.iter().filter(|pair| pair.0 >= requests && pair.1 >= tokens);
        let bucket = fits.min_by_key(|pair| (pair.1, pair.0)).expect("covered");
        weight * (f64::from(bucket.1 - tokens) + ROW * f64::from(bucket.0 - requests))
    };
    seen.iter().map(cost).sum()
}

#[test]
fn pairs_waste_far_less_than_the_best_product_grid() {
    let (tokens, rows) = (PaddedRows::default(), PaddedRows::weighing(ROW).unwrap());
    let cost = PairCost { requests: &rows, tokens: &tokens };
    // With 16 pairs, 0.69 is what was asked for; the limits are just above what is measured, so that a weaker search
    // fails.
    for (count, most) in [(8, 0.70), (16, 0.62)] {
        let mut ratios = vec![];
        for (name, trace, found) in workloads::all() {
            let seen = trace.prefill().unwrap();
            let plan = best_pairs(&seen, &cost, &PairRules::default(), count).unwrap();
            assert!(plan.pairs.len() <= count, "{name}");
            assert_eq!(plan.waste, counted(&plan.pairs, &seen), "{name}");
            assert_eq!(Waste::of_pairs(&plan.pairs, &seen).eager_steps, 0.0, "{name}");

            let found = &found["pairs"][count.to_string()];
            let number = |key: &str| found[key].as_f64().unwrap();
            let grid = best_grid(&seen, &cost, &PairRules::default(), count).unwrap();
            assert_eq!(grid.waste, number("grid"), "{name}: the best product grid");
            assert_eq!(plan.lower_bound, number("bound"), "{name}: the lower bound");
            assert!(plan.lower_bound <= plan.waste && plan.waste <= grid.waste, "{name}");
            println!(
                "{name:<28} {count:>2} pairs: {:>9} padded, grid {:>9}, bound {:>9}, another program's {:>9}",
                plan.waste,
                grid.waste,
                plan.lower_bound,
                number("free")
            );
            ratios.push(plan.waste / grid.waste);
        }
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        assert_eq!(ratios.len(), 10);
        assert!(mean <= most, "{count} pairs waste {mean:.3} of the best product grid");
    }
}

#[test]
fn rules_hold_on_both_axes() {
    let seen = workloads::all().remove(0).1.prefill().unwrap();
    let (tokens, rows) = (PaddedRows::default(), PaddedRows::weighing(ROW).unwrap());
    let cost = PairCost { requests: &rows, tokens: &tokens };
    let rules = PairRules {
        requests: Constraints::new().covering(32).forcing([1]),
        tokens: Constraints::new().covering(4096).forcing([128]).aligned_to(64),
    };
    let plan = best_pairs(&seen, &cost, &rules, 12).unwrap();
    for mandatory in [(32, 4096), (1, 4096), (32, 128)] {
        assert!(plan.pairs.contains(&mandatory), "{mandatory:?} of {:?}", plan.pairs);
    }
    assert!(
        plan.pairs.iter().all(|&(_, tokens)| tokens % 64 == 0 || (tokens < 64 && tokens.is_power_of_two()))
    );
    assert_eq!(plan.waste, counted(&plan.pairs, &seen));
    assert!(matches!(
        best_pairs(&seen, &cost, &rules, 2),
        Err(PlanError::TooFewSizes { asked: 2, needed: 3 })
    ));
}
