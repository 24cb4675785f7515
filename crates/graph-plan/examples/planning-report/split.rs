//! The time split: fit on the first half of the steps, count on the second.

use graph_plan::{
    Constraints, Histogram, LoadPrior, PaddedRows, PlanCommand, PlanError, Preset, SizeCurve, Trace, Waste,
    best_sizes,
};

use crate::{LARGEST, Workload};

/// The best list for a histogram with the largest batch among its sizes.
pub(crate) fn list_for(expected: &Histogram, count: usize) -> Result<Vec<u32>, PlanError> {
    best_sizes(expected, &PaddedRows::default(), &Constraints::new().covering(LARGEST), count)
}

/// What a list that `fit` makes of the past does to what comes next.
pub(crate) fn held_out(
    past: &Trace,
    next: &Trace,
    count: usize,
    fit: impl Fn(&Trace) -> Result<Histogram, PlanError>,
) -> Result<Waste, PlanError> {
    Ok(Waste::of(&list_for(&fit(past)?, count)?, &next.decode()?))
}

pub(crate) fn with(prior: LoadPrior) -> impl Fn(&Trace) -> Result<Histogram, PlanError> {
    move |trace| prior.expected(&trace.decode()?, LARGEST)
}

/// Past and future of every workload, cut at a fraction of the steps.
pub(crate) fn cut(workloads: &[Workload], fraction: f64) -> Result<Vec<(Trace, Trace)>, PlanError> {
    let cut = |workload: &Workload| {
        let (past, next) = workload.trace.split(fraction)?;
        Ok((past, next.ok_or(PlanError::EmptyTrace)?))
    };
    workloads.iter().map(cut).collect()
}

/// How a way of fitting does on all workloads: mean and worst padding, and on how many it pads fewer rows than vLLM's
/// list.
#[derive(Clone, Copy)]
pub(crate) struct Score {
    pub(crate) mean: f64,
    pub(crate) worst: f64,
    /// Which workload is the worst.
    pub(crate) worst_at: usize,
    pub(crate) fewer: usize,
}

pub(crate) fn score(
    cuts: &[(Trace, Trace)],
    count: usize,
    fit: impl Fn(&Trace) -> Result<Histogram, PlanError>,
) -> Result<Score, PlanError> {
    let mut score = Score { mean: 0.0, worst: 0.0, worst_at: 0, fewer: 0 };
    for (index, (past, next)) in cuts.iter().enumerate() {
        let waste = held_out(past, next, count, &fit)?;
        score.mean += waste.padding_percent() / cuts.len() as f64;
        if waste.padding_percent() > score.worst {
            (score.worst, score.worst_at) = (waste.padding_percent(), index);
        }
        score.fewer +=
            usize::from(waste.padded_rows < Preset::vllm(LARGEST).waste(&next.decode()?).padded_rows);
    }
    Ok(score)
}

pub(crate) fn print(workloads: &[Workload]) -> Result<(), PlanError> {
    println!(
        "
## Time split

Fitted on the first half of the steps, counted on the second. *Plain* fits the first half as it is; *best possible* is fitted
to the second half itself, which nobody can do in time. *Expected* is what the command said beforehand from the first half:
planning rehearsed on its later stretches, and the list counted at other loads, weighed as in the prior; the spread is
where four rows in five lie.

| workload | vLLM, 51 sizes | plain, 32 | planned, 16 | **planned, 32** | best possible, 32 | expected, 32: mean (spread) |
|---|--:|--:|--:|--:|--:|--:|"
    );
    let cuts = cut(workloads, 0.5)?;
    let mut columns = vec![vec![]; 6];
    let mut within = 0;
    for (workload, (past, next)) in workloads.iter().zip(&cuts) {
        let planned = with(LoadPrior::decode());
        let command = PlanCommand { sizes: 32, max: Some(LARGEST), ..PlanCommand::default() };
        let forecast = command.plan(past)?.forecast.ok_or(PlanError::EmptyTrace)?;
        let row = [
            Preset::vllm(LARGEST).waste(&next.decode()?),
            held_out(past, next, 32, with(LoadPrior::none()))?,
            held_out(past, next, 16, &planned)?,
            held_out(past, next, 32, &planned)?,
            held_out(next, next, 32, with(LoadPrior::none()))?,
        ];
        print!("| {} |", workload.name);
        for (index, waste) in row.iter().enumerate() {
            columns[index].push(waste.padding_percent());
            let bold = if index == 3 { "**" } else { "" };
            print!(" {bold}{:.1}{bold} |", waste.padding_percent());
        }
        columns[5].push(forecast.mean());
        let (low, high) = (forecast.quantile(0.1), forecast.quantile(0.9));
        println!(" {:.1} ({low:.1} to {high:.1}) |", forecast.mean());
        within += usize::from((low..=high).contains(&row[3].padding_percent()));
    }
    for (name, of) in [("mean", mean as fn(&[f64]) -> f64), ("worst", worst)] {
        print!("| {name} |");
        for column in &columns {
            print!(" {:.2} |", of(column));
        }
        println!();
    }
    let planned = score(&cuts, 32, with(LoadPrior::decode()))?;
    println!(
        "\nWith 32 sizes the planned list pads fewer rows than vLLM's 51 on {} of {} workloads. What came lay within the spread on
{within}.",
        planned.fewer,
        workloads.len()
    );
    print_worth(workloads)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn worst(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn print_worth(workloads: &[Workload]) -> Result<(), PlanError> {
    println!(
        "
## How many sizes

`SizeCurve::count_at_price`: sizes worth having when one more must save this share of all rows, on the whole workload with the
prior.

| workload | 1 % | 0.3 % | 0.1 % | 0.03 % |
|---|--:|--:|--:|--:|"
    );
    for workload in workloads {
        let expected = with(LoadPrior::decode())(&workload.trace)?;
        let rules = Constraints::new().covering(LARGEST);
        let curve = SizeCurve::fit(&expected, &PaddedRows::default(), &rules, LARGEST as usize)?;
        print!("| {} |", workload.name);
        for share in [0.01, 0.003, 0.001, 0.0003] {
            print!(" {} |", curve.count_at_price(share * expected.rows())?);
        }
        println!();
    }
    Ok(())
}
