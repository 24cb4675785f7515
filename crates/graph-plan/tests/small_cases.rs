//! On small random cases the planner agrees with trying everything.

use graph_plan::{
    Constraints, CostModel, Histogram, PaddedRows, PairCost, PairHistogram, PairRules, PlanError, SizeCurve,
    best_grid, best_pairs, best_sizes,
};
use proptest::{collection::vec, prelude::*};

/// Costs by size, in no order at all.
#[derive(Debug)]
struct Table(Vec<u32>);

impl CostModel for Table {
    fn step_cost(&self, size: u32) -> f64 {
        f64::from(self.0[size as usize - 1])
    }
}

fn histogram(weights: &[u32]) -> Histogram {
    let mut seen = Histogram::new();
    for (size, &weight) in (1..).zip(weights) {
        seen.add(size, f64::from(weight)).unwrap();
    }
    seen
}

/// What a list wastes, step by step.
fn waste(list: &[u32], seen: &Histogram, cost: &dyn CostModel) -> f64 {
    let bucket = |size| *list.iter().find(|&&bucket| bucket >= size).expect("covered");
    seen.iter().map(|(size, weight)| weight * (cost.step_cost(bucket(size)) - cost.step_cost(size))).sum()
}

/// The least waste of any list of at most `count` sizes that the rules allow.
fn try_all(
    seen: &Histogram,
    cost: &dyn CostModel,
    rules: &Constraints,
    top: u32,
    count: usize,
) -> Option<f64> {
    let lists =
        (0u32..1 << top).map(|set| (1..=top).filter(|size| set >> (size - 1) & 1 == 1).collect::<Vec<_>>());
    let allowed = lists.filter(|list| {
        let forced = (1..=top).filter(|&size| rules.forces(size));
        let holds = |size: u32| list.contains(&size);
        list.len() <= count
            && holds(top)
            && forced.into_iter().all(holds)
            && list.iter().all(|&size| rules.permits(size))
    });
    let within = Histogram::from_sizes([]).map(|mut within| {
        seen.iter().filter(|step| step.0 <= top).for_each(|(size, weight)| within.add(size, weight).unwrap());
        within
    });
    let within = within.unwrap();
    allowed.map(|list| waste(&list, &within, cost)).reduce(f64::min)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_best_list_is_the_best_of_all_lists(
        weights in vec(0u32..20, 1..10),
        costs in vec(1u32..50, 10),
        rising in any::<bool>(),
        forced in vec(1u32..10, 0..3),
        align in prop::sample::select(vec![1u32, 1, 2, 4]),
        multiple in prop::sample::select(vec![1u32, 1, 1, 2, 3]),
        max in prop::option::of(1u32..10),
        count in 1usize..6,
    ) {
        let seen = histogram(&weights);
        let mut costs = costs;
        if rising {
            costs.sort_unstable();
        }
        let cost = Table(costs);
        let mut rules = Constraints::new().forcing(forced).aligned_to(align).multiples_of(multiple);
        if let Some(max) = max {
            rules = rules.covering(max);
        }
        let top = match rules.top(&seen) {
            Ok(top) if top <= 10 => top,
            _ => return Ok(()),
        };
        let expected = try_all(&seen, &cost, &rules, top, count);
        match (SizeCurve::fit(&seen, &cost, &rules, count), expected) {
            (Ok(curve), Some(expected)) => {
                prop_assert_eq!(curve.waste(count), expected);
                let list = curve.sizes(count);
                let within = histogram(&weights[..weights.len().min(top as usize)]);
                prop_assert_eq!(waste(&list, &within, &cost), expected);
                prop_assert!(list.is_sorted() && list.len() <= count);
                prop_assert!(list.iter().all(|&size| rules.permits(size)));
                prop_assert!((1..=top).filter(|&size| rules.forces(size)).all(|size| list.contains(&size)));
            }
            (Err(PlanError::TooFewSizes { asked, needed }), None) => prop_assert!(asked < needed),
            (ours, theirs) => prop_assert!(false, "{ours:?} against {theirs:?}"),
        }
    }

    #[test]
    fn pairs_are_no_worse_than_the_grid_and_no_better_than_their_bound(
        steps in vec(((1u32..4, 1u32..6), 1u32..9), 1..8),
        token_costs in vec(1u32..50, 5),
        rising in any::<bool>(),
        count in 1usize..5,
    ) {
        let mut seen = PairHistogram::new();
        for &((requests, tokens), weight) in &steps {
            seen.add(requests, tokens, f64::from(weight)).unwrap();
        }
        let mut token_costs = token_costs;
        if rising {
            token_costs.sort_unstable();
        }
        let (tokens, rows) = (Table(token_costs), PaddedRows::weighing(3.0).unwrap());
        let cost = PairCost { requests: &rows, tokens: &tokens };
        let plan = best_pairs(&seen, &cost, &PairRules::default(), count).unwrap();
        prop_assert!(plan.pairs.len() <= count);
        prop_assert_eq!(pair_waste(&plan.pairs, &seen, &cost), Some(plan.waste));

        let top = (seen.requests().max().unwrap(), seen.tokens().max().unwrap());
        let best = every_pair_list(top, count).iter().filter_map(|list| pair_waste(list, &seen, &cost)).reduce(f64::min);
        prop_assert!(plan.lower_bound <= best.unwrap(), "bound {} above {best:?}", plan.lower_bound);
        prop_assert!(best.unwrap() <= plan.waste);

        let grid = best_grid(&seen, &cost, &PairRules::default(), count).unwrap();
        let product = grid.tokens.iter().flat_map(|&t| grid.requests.iter().map(move |&r| (r, t))).collect::<Vec<_>>();
        prop_assert!(product.len() <= count);
        prop_assert_eq!(pair_waste(&product, &seen, &cost), Some(grid.waste));
        let grids = every_grid(top, count);
        let best_grid = grids.iter().filter_map(|list| pair_waste(list, &seen, &cost)).reduce(f64::min);
        prop_assert_eq!(Some(grid.waste), best_grid);
    }

    #[test]
    fn one_more_size_never_wastes_more_and_the_price_decides_how_many(
        weights in vec(0u32..20, 1..40),
        price in 0.0f64..60.0,
    ) {
        let seen = histogram(&weights);
        prop_assume!(!seen.is_empty());
        let curve = SizeCurve::fit(&seen, &PaddedRows::default(), &Constraints::new(), 40).unwrap();
        let count = curve.count_at_price(price).unwrap();
        let total = |count: usize| curve.waste(count) + price * count as f64;
        for other in 1..=40 {
            prop_assert!(total(count) <= total(other), "{count} costs more than {other}");
            prop_assert!(curve.waste(other + 1) <= curve.waste(other));
        }
        prop_assert_eq!(best_sizes(&seen, &PaddedRows::default(), &Constraints::new(), count).unwrap().len(), count);
    }
}

#[test]
fn the_pair_search_nearly_always_finds_the_best_list() {
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % below) as u32
    };
    let (tokens, rows) = (PaddedRows::default(), PaddedRows::weighing(1.5).unwrap());
    let cost = PairCost { requests: &rows, tokens: &tokens };
    let (mut found, cases) = (0, 300);
    let (mut sum, mut best_sum) = (0.0, 0.0);
    for _ in 0..cases {
        let mut seen = PairHistogram::new();
        for _ in 0..12 {
            seen.add(1 + random(3), 1 + random(5), f64::from(1 + random(9))).unwrap();
        }
        let top = (seen.requests().max().unwrap(), seen.tokens().max().unwrap());
        let lists = every_pair_list(top, 5);
        let best = lists.iter().filter_map(|list| pair_waste(list, &seen, &cost)).reduce(f64::min).unwrap();
        let plan = best_pairs(&seen, &cost, &PairRules::default(), 5).unwrap();
        assert!(best <= plan.waste, "{} below the best, {best}", plan.waste);
        sum += plan.waste;
        best_sum += best;
        found += u32::from(plan.waste == best);
    }
    println!("the best list in {found} of {cases} cases, {sum} wasted where {best_sum} is the least");
    assert!(found * 100 >= cases * 97, "the best list in {found} of {cases} cases only");
    assert!(sum <= 1.003 * best_sum, "{sum} wasted where {best_sum} is the least");
}

/// What a list of pairs wastes under the rule of the fewest tokens, then the fewest requests; `None` if a step does
/// not fit.
fn pair_waste(list: &[(u32, u32)], seen: &PairHistogram, cost: &PairCost<'_>) -> Option<f64> {
    let price = |(requests, tokens)| cost.requests.step_cost(requests) + cost.tokens.step_cost(tokens);
    let mut total = 0.0;
    for (step, weight) in seen.iter() {
        let fits = list.iter().filter(|bucket| bucket.0 >= step.0 && bucket.1 >= step.1);
        let bucket = fits.min_by_key(|bucket| (bucket.1, bucket.0))?;
        total += weight * (price(*bucket) - price(step));
    }
    Some(total)
}

fn every_pair_list(top: (u32, u32), count: usize) -> Vec<Vec<(u32, u32)>> {
    let cells: Vec<_> =
        (1..=top.0).flat_map(|r| (1..=top.1).map(move |t| (r, t))).filter(|&cell| cell != top).collect();
    let mut lists = vec![vec![top]];
    for cell in cells {
        let longer = lists.iter().filter(|list| list.len() < count);
        let longer: Vec<_> = longer.map(|list| [list.as_slice(), &[cell]].concat()).collect();
        lists.extend(longer);
    }
    lists
}

fn every_grid(top: (u32, u32), count: usize) -> Vec<Vec<(u32, u32)>> {
    let axis = |top: u32| {
        (0u32..1 << (top - 1))
            .map(move |set| {
                (1..=top).filter(|&size| size == top || set >> (size - 1) & 1 == 1).collect::<Vec<_>>()
            })
            .collect::<Vec<_>>()
    };
    let (rows, tokens) = (axis(top.0), axis(top.1));
    let grids = rows.iter().flat_map(|rows| {
        tokens
            .iter()
            .map(move |tokens| tokens.iter().flat_map(|&t| rows.iter().map(move |&r| (r, t))).collect())
    });
    grids.filter(|grid: &Vec<(u32, u32)>| grid.len() <= count).collect()
}
