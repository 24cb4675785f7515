//! Other ways to make a list hold on later traffic, counted the same way.

use graph_plan::{Forecast, Histogram, LoadPrior, PlanError, Trace};

use crate::{
    LARGEST, Workload,
    split::{cut, held_out, list_for, score, with},
};

type Fit = Box<dyn Fn(&Trace) -> Result<Histogram, PlanError>>;

pub(crate) fn print(workloads: &[Workload]) -> Result<(), PlanError> {
    println!(
        "
## What was tried

Each fitted on the first 30, 50 and 70 % of the steps and counted on the rest. Each cell: mean padding with 16 sizes / with 32 /
worst with 32 / workloads with fewer padded rows than vLLM's list.

| way of fitting | 30 % | 50 % | 70 % |
|---|--:|--:|--:|"
    );
    let fractions = [0.3, 0.5, 0.7];
    let cuts = fractions.iter().map(|&fraction| cut(workloads, fraction)).collect::<Result<Vec<_>, _>>()?;
    for (name, fit) in ways()? {
        print!("| {name} |");
        for cuts in &cuts {
            let (few, many) = (score(cuts, 16, &fit)?, score(cuts, 32, &fit)?);
            print!(" {:.1} / {:.2} / {:.1} / {} |", few.mean, many.mean, many.worst, many.fewer);
        }
        println!();
    }
    println!(
        "
What did not help: smoothing alone, which widens the peaks but puts nothing where the load moves to; a prior over all sizes
up to the maximum, of any slope, which spends sizes where the traffic never goes; a guard against the worst load (min-max), which
pays everywhere for the rarest case. Lighter loads alone are better where the load falls (the 70 % cut) and fail where it
grows. Recent steps alone do as well at two cuts and fail at the third. A share picked by rehearsal is better at no
cut: it follows whatever that past happened to do."
    );
    Ok(())
}

fn ways() -> Result<Vec<(&'static str, Fit)>, PlanError> {
    let log_uniform = power(1.0)?;
    let linear = power(0.0)?;
    let steep = power(2.0)?;
    let near = log_uniform.clone();
    Ok(vec![
        ("**the default**: half at other loads, growth 1.5", Box::new(with(LoadPrior::decode())) as Fit),
        ("plain: the past as it is", Box::new(with(LoadPrior::none()))),
        ("20 % log-uniform over 1 to 256", Box::new(move |trace| mixed(&trace.decode()?, &log_uniform, 0.2))),
        ("20 % uniform over 1 to 256", Box::new(move |trace| mixed(&trace.decode()?, &linear, 0.2))),
        ("20 % by 1/size² over 1 to 256", Box::new(move |trace| mixed(&trace.decode()?, &steep, 0.2))),
        ("smoothed by 10 % of the size", Box::new(|trace| smoothed(&trace.decode()?, 0.1))),
        (
            "smoothed by 10 %, 20 % log-uniform",
            Box::new(move |trace| mixed(&smoothed(&trace.decode()?, 0.1)?, &near, 0.2)),
        ),
        ("half at lighter loads only (growth 1)", Box::new(with(LoadPrior::new(0.5, 1.0)?))),
        ("default, on the later half of the past only", Box::new(|trace| recent(trace, 0.5))),
        ("default, on the last tenth of the past only", Box::new(|trace| recent(trace, 0.1))),
        ("the least worst over loads from 1/16 to 1.5 (min-max)", Box::new(least_worst)),
        ("share picked by rehearsal within the past, growth 1.5", Box::new(rehearsed)),
    ])
}

/// Steps by `size^-exponent` over all sizes, one step in all.
fn power(exponent: f64) -> Result<Histogram, PlanError> {
    let weight = |size: u32| f64::from(size).powf(-exponent);
    let total: f64 = (1..=LARGEST).map(weight).sum();
    let mut histogram = Histogram::new();
    for size in 1..=LARGEST {
        histogram.add(size, weight(size) / total)?;
    }
    Ok(histogram)
}

fn mixed(seen: &Histogram, prior: &Histogram, share: f64) -> Result<Histogram, PlanError> {
    let mut mixed = Histogram::new();
    mixed.add_scaled(seen, 1.0 - share)?;
    mixed.add_scaled(prior, share * seen.steps())?;
    Ok(mixed)
}

/// Each step spread over its neighbours: a normal distribution in the logarithm of the size.
fn smoothed(seen: &Histogram, width: f64) -> Result<Histogram, PlanError> {
    let mut smoothed = Histogram::new();
    for (size, weight) in seen.iter() {
        let density = |other: u32| {
            let distance = (f64::from(other) / f64::from(size)).ln() / width;
            (-0.5 * distance * distance).exp() / f64::from(other)
        };
        let total: f64 = (1..=LARGEST).map(density).sum();
        for other in 1..=LARGEST {
            smoothed.add(other, weight * density(other) / total)?;
        }
    }
    Ok(smoothed)
}

fn recent(trace: &Trace, share: f64) -> Result<Histogram, PlanError> {
    let (_, late) = trace.split(1.0 - share)?;
    with(LoadPrior::decode())(late.as_ref().unwrap_or(trace))
}

/// Weights over loads such that the list for the mixture has the least worst padding: each round, loads that padded more
/// weigh more.
fn least_worst(trace: &Trace) -> Result<Histogram, PlanError> {
    let seen = trace.decode()?;
    let loads = [0.0625, 0.125, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5];
    let scaled = loads.iter().map(|&load| seen.at_load(load, LARGEST)).collect::<Result<Vec<_>, _>>()?;
    let mut weights = vec![1.0; loads.len()];
    let mut average = Histogram::new();
    for _ in 0..40 {
        let mut mixture = Histogram::new();
        let total: f64 = weights.iter().sum();
        for (traffic, weight) in scaled.iter().zip(&weights) {
            // Rows of every load weigh the same, as padding is a share of rows.
            mixture.add_scaled(traffic, weight / total / traffic.rows())?;
        }
        let list = list_for(&mixture, 32)?;
        for (traffic, weight) in scaled.iter().zip(&mut weights) {
            *weight *= (graph_plan::Waste::of(&list, traffic).padding_percent() / 10.0).exp();
        }
        average.add_scaled(&mixture, 1.0)?;
    }
    Ok(average)
}

fn rehearsed(trace: &Trace) -> Result<Histogram, PlanError> {
    let mut best = (f64::INFINITY, 0.5);
    for share in [0.1, 0.3, 0.5, 0.7, 0.9] {
        let fit = with(LoadPrior::new(share, 1.5)?);
        let padding = Forecast::rehearse(trace, 5, |past, next| held_out(past, next, 32, &fit))?.mean();
        if padding < best.0 {
            best = (padding, share);
        }
    }
    with(LoadPrior::new(best.1, 1.5)?)(trace)
}
