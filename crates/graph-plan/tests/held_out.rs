//! Lists fitted to the first half of a workload hold on the second half.

mod workloads;

use graph_plan::{
    Constraints, Forecast, Histogram, LoadPrior, PaddedRows, PlanCommand, PlanError, Sizes, Trace, Waste,
    best_sizes,
};

const LARGEST: u32 = 256;

fn plan(seen: &Histogram, prior: LoadPrior, count: usize) -> Result<Vec<u32>, PlanError> {
    let expected = prior.expected(seen, LARGEST)?;
    best_sizes(&expected, &PaddedRows::default(), &Constraints::new().covering(LARGEST), count)
}

/// The command's own answer on the second half, and vLLM's list on it.
fn second_half(trace: &Trace, count: usize, plain: bool) -> (Waste, Waste) {
    let command = PlanCommand {
        sizes: count,
        max: Some(LARGEST),
        fit_fraction: 0.5,
        plain,
        compare: true,
        ..PlanCommand::default()
    };
    let outcome = command.plan(trace).unwrap();
    let held_out = outcome.held_out.unwrap();
    assert_eq!(held_out.eager_steps, 0.0);
    assert!(
        matches!(&outcome.sizes, Sizes::Decode(sizes) if sizes.len() <= count && sizes.contains(&LARGEST))
    );
    (held_out, outcome.presets["vllm"])
}

fn mean_and_worst(padding: &[f64]) -> (f64, f64) {
    (padding.iter().sum::<f64>() / padding.len() as f64, padding.iter().copied().fold(0.0, f64::max))
}

#[test]
fn with_32_sizes_the_second_half_pads_little_and_mostly_less_than_with_vllms_list() {
    let all = workloads::all();
    let counted: Vec<_> = all.iter().map(|(_, trace, _)| second_half(trace, 32, false)).collect();
    let (mean, worst) =
        mean_and_worst(&counted.iter().map(|(ours, _)| ours.padding_percent()).collect::<Vec<_>>());
    let fewer = counted.iter().filter(|(ours, vllm)| ours.padded_rows < vllm.padded_rows).count();
    assert!(mean <= 2.6, "mean padding {mean:.2} %");
    assert!(worst <= 7.0, "worst padding {worst:.2} %");
    assert!(fewer >= 8, "fewer padded rows than vLLM's list on {fewer} of 10");
}

#[test]
fn with_16_sizes_the_second_half_pads_little() {
    let padding =
        workloads::all().into_iter().map(|(_, trace, _)| second_half(&trace, 16, false).0.padding_percent());
    let (mean, _) = mean_and_worst(&padding.collect::<Vec<_>>());
    assert!(mean <= 7.0, "mean padding {mean:.2} %");
}

#[test]
fn a_plain_fit_does_not_hold() {
    let padding =
        workloads::all().into_iter().map(|(_, trace, _)| second_half(&trace, 32, true).0.padding_percent());
    let (mean, _) = mean_and_worst(&padding.collect::<Vec<_>>());
    assert!(mean > 10.0, "the prior is needless: a plain fit pads {mean:.2} %");
}

#[test]
fn the_prior_was_not_picked_for_this_split_or_these_constants() {
    let all = workloads::all();
    for fraction in [0.3, 0.4, 0.6, 0.7] {
        for (share, growth) in [(0.4, 1.5), (0.5, 1.25), (0.5, 1.5), (0.5, 2.0), (0.7, 1.5)] {
            let prior = LoadPrior::new(share, growth).unwrap();
            let padding = all.iter().map(|(_, trace, _)| {
                let (first, second) = trace.split(fraction).unwrap();
                let sizes = plan(&first.decode().unwrap(), prior, 32).unwrap();
                Waste::of(&sizes, &second.unwrap().decode().unwrap()).padding_percent()
            });
            let (mean, _) = mean_and_worst(&padding.collect::<Vec<_>>());
            assert!(
                mean <= 2.7,
                "cut at {fraction}, share {share}, growth {growth}: mean padding {mean:.2} %"
            );
        }
    }
}

#[test]
fn the_prior_moves_steps_but_makes_and_loses_none() {
    for (name, trace, _) in workloads::all() {
        let seen = trace.decode().unwrap();
        let expected = LoadPrior::decode().expected(&seen, LARGEST).unwrap();
        assert!((expected.steps() - seen.steps()).abs() < 1e-6 * seen.steps(), "{name}");
        assert!(expected.max() <= Some(LARGEST) && expected.max() >= seen.max(), "{name}");
        assert!((1..=seen.max().unwrap()).all(|size| expected.weight(size) > 0.0), "{name}");

        let pairs = trace.prefill().unwrap();
        let moved = LoadPrior::prefill().expected_pairs(&pairs, 8192).unwrap();
        assert!((moved.steps() - pairs.steps()).abs() < 1e-6 * pairs.steps(), "{name}");
        assert!(moved.iter().all(|((requests, tokens), _)| requests <= tokens && tokens <= 8192), "{name}");
        let none = LoadPrior::none();
        assert_eq!(none.expected(&seen, LARGEST).unwrap(), seen, "{name}");
        assert_eq!(none.expected_pairs(&pairs, 8192).unwrap(), pairs, "{name}");
    }
}

#[test]
fn the_prior_spreads_each_step_evenly_over_the_logarithm_of_its_reach() {
    let seen = Histogram::from_sizes([4]).unwrap();
    let expected = LoadPrior::new(1.0, 1.5).unwrap().expected(&seen, 100).unwrap();
    let harmonic = 1.0 + 1.0 / 2.0 + 1.0 / 3.0 + 1.0 / 4.0 + 1.0 / 5.0 + 1.0 / 6.0;
    for size in 1..=6 {
        assert!((expected.weight(size) - 1.0 / (f64::from(size) * harmonic)).abs() < 1e-12, "{size}");
    }
    assert_eq!(expected.max(), Some(6));
}

#[test]
fn the_spread_that_is_printed_beforehand_holds_what_comes() {
    for count in [16, 32] {
        let (mut within, mut expected, mut came) = (0, 0.0, 0.0);
        for (_, trace, _) in workloads::all() {
            let (first, second) = trace.split(0.5).unwrap();
            let command = PlanCommand { sizes: count, max: Some(LARGEST), ..PlanCommand::default() };
            let outcome = command.plan(&first).unwrap();
            let forecast = outcome.forecast.unwrap();
            let padding = outcome.sizes.waste(&second.unwrap()).unwrap().padding_percent();
            within += usize::from((forecast.quantile(0.1)..=forecast.quantile(0.9)).contains(&padding));
            (expected, came) = (expected + forecast.mean() / 10.0, came + padding / 10.0);
        }
        assert!(within >= 8, "{count} sizes: within the spread on {within} of 10");
        assert!(
            (0.67..=1.5).contains(&(expected / came)),
            "{count} sizes: {expected:.2} % expected, {came:.2} % came"
        );
    }
}

#[test]
fn a_plain_list_is_not_praised() {
    let (_, trace, _) = workloads::all().remove(2);
    let expect = |plain| {
        let command =
            PlanCommand { sizes: 32, max: Some(LARGEST), fit_fraction: 0.5, plain, ..PlanCommand::default() };
        command.plan(&trace).unwrap().forecast.unwrap().mean()
    };
    assert!(expect(true) > 2.0 * expect(false), "{} and {}", expect(true), expect(false));
}

#[test]
fn a_forecast_weighs_loads_by_their_share_and_quantiles_by_rows() {
    let trace = Trace::parse(&format!("decode_bs,prefill_chunks\n{}", "9,\n".repeat(6))).unwrap();
    let rehearsed = Forecast::rehearse(&trace, 2, |_, next| Ok(Waste::of(&[10], &next.decode()?))).unwrap();
    assert_eq!((rehearsed.mean(), rehearsed.quantile(0.5)), (10.0, 10.0));
    // A step in a bucket of ten with one row padded at each load seen, and with five at the other.
    let other = Waste::of(&[10], &Histogram::from_sizes([5]).unwrap());
    let forecast = rehearsed.with_loads(0.25, vec![other]);
    assert!((forecast.mean() - (0.75 * 10.0 + 0.25 * 50.0)).abs() < 1e-9);
    assert_eq!((forecast.quantile(0.7), forecast.quantile(0.8)), (10.0, 50.0));
}

#[test]
fn traffic_at_another_load_keeps_its_steps_and_its_bounds() {
    let seen = Histogram::from_sizes([1, 10, 200]).unwrap();
    let sizes = |load| seen.at_load(load, 256).unwrap().iter().map(|step| step.0).collect::<Vec<_>>();
    assert_eq!(sizes(1.0), [1, 10, 200]);
    assert_eq!(sizes(0.25), [1, 3, 50]);
    assert_eq!(sizes(1.5), [2, 15, 256]);
    let loads = LoadPrior::decode().loads(100);
    assert_eq!(loads.len(), 16);
    assert!(loads[0] > 0.01 && loads[15] < 1.5);
    let even = (150.0f64).powf(1.0 / 16.0);
    assert!(loads.windows(2).all(|pair| (pair[1] / pair[0] - even).abs() < 1e-9));
    let mut pairs = graph_plan::PairHistogram::new();
    pairs.add(3, 100, 1.0).unwrap();
    let pair = |load| pairs.at_load(load, 120).unwrap().iter().next().unwrap().0;
    assert_eq!((pair(0.5), pair(0.001), pair(2.0)), ((3, 50), (3, 3), (3, 120)));
}

#[test]
fn a_rehearsal_sees_only_what_came_before() {
    let trace = workloads::all().into_iter().next().unwrap().1;
    let steps = trace.steps();
    let forecast = Forecast::rehearse(&trace, 5, |past, next| {
        let cut = past.steps().len();
        assert_eq!(past.steps(), &steps[..cut]);
        assert_eq!(next.steps(), &steps[cut..cut + next.steps().len()]);
        Ok(Waste::of(&[LARGEST], &next.decode()?))
    });
    let forecast = forecast.unwrap();
    let counted: f64 = forecast.rehearsed().iter().map(|part| part.steps).sum();
    let decoding = |steps: &[graph_plan::Step]| steps.iter().filter(|step| step.decode_bs > 0).count() as f64;
    assert_eq!(counted, decoding(&steps[steps.len() / 6..]));
    assert!(matches!(
        Forecast::rehearse(&Trace::new(steps[..3].to_vec()).unwrap(), 5, |_, _| Ok(Waste::default())),
        Err(PlanError::EmptyTrace)
    ));
}
