//! Does the result depend on the two constants, or on where the trace was cut?

use graph_plan::{LoadPrior, PlanError, Trace};

use crate::{
    Workload,
    split::{cut, held_out, score, with},
};

const SHARES: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
const GROWTHS: [f64; 6] = [1.0, 1.1, 1.25, 1.5, 2.0, 3.0];

pub(crate) fn print(workloads: &[Workload]) -> Result<(), PlanError> {
    print_flatness(workloads)?;
    print_cuts(workloads)?;
    print_left_out(workloads)
}

fn print_flatness(workloads: &[Workload]) -> Result<(), PlanError> {
    let cuts = cut(workloads, 0.5)?;
    println!(
        "
## Is the choice of constants flat?

Same split, other constants. Each cell: mean padding with 32 sizes / worst / mean with 16 sizes / workloads with fewer padded
rows than vLLM's list (32 sizes). The default is share 0.5, growth 1.5. What matters is that the load may grow at all
(growth 1 is the exception); by how much, and the share from 0.3 to 0.8, hardly do.
"
    );
    print!("| share |");
    GROWTHS.iter().for_each(|growth| print!(" growth {growth} |"));
    println!("\n|--:|{}", "--:|".repeat(GROWTHS.len()));
    for share in SHARES {
        print!("| {share} |");
        for growth in GROWTHS {
            let fit = with(LoadPrior::new(share, growth)?);
            let (most, fewer) = (score(&cuts, 32, &fit)?, score(&cuts, 16, &fit)?);
            print!(" {:.2} / {:.1} / {:.1} / {} |", most.mean, most.worst, fewer.mean, most.fewer);
        }
        println!();
    }
    Ok(())
}

fn print_cuts(workloads: &[Workload]) -> Result<(), PlanError> {
    println!(
        "
Other cuts in time, default constants. A list fitted to more of the trace is not better by itself, because what is left to
count on is another, shorter stretch of traffic. At the late cuts a workload whose load falls off for the rest of the trace
decides the worst, and 16 sizes are too few to have some in store for that.

| fitted on the first | planned, 16: mean / worst | planned, 32: mean / worst | the worst is | fewer rows than vLLM, 32 | plain, 32: mean / worst |
|--:|--:|--:|---|--:|--:|"
    );
    for percent in [10, 20, 30, 40, 50, 60, 70, 80, 90] {
        let cuts = cut(workloads, f64::from(percent) / 100.0)?;
        let planned = with(LoadPrior::decode());
        let (few, many) = (score(&cuts, 16, &planned)?, score(&cuts, 32, &planned)?);
        let plain = score(&cuts, 32, with(LoadPrior::none()))?;
        println!(
            "| {percent} % | {:.1} / {:.1} | {:.2} / {:.1} | {} | {} | {:.1} / {:.1} |",
            few.mean,
            few.worst,
            many.mean,
            many.worst,
            workloads[many.worst_at].name,
            many.fewer,
            plain.mean,
            plain.worst
        );
    }
    Ok(())
}

/// Padding of every workload for every pair of constants.
struct Grid {
    constants: Vec<(f64, f64)>,
    padding: Vec<Vec<f64>>,
}

impl Grid {
    fn new(cuts: &[(Trace, Trace)], count: usize) -> Result<Self, PlanError> {
        let constants: Vec<_> = SHARES.iter().flat_map(|&s| GROWTHS.map(|g| (s, g))).collect();
        let row = |&(share, growth): &(f64, f64)| {
            let fit = with(LoadPrior::new(share, growth)?);
            let padding =
                |(past, next): &(Trace, Trace)| Ok(held_out(past, next, count, &fit)?.padding_percent());
            cuts.iter().map(padding).collect::<Result<Vec<_>, PlanError>>()
        };
        let padding = constants.iter().map(row).collect::<Result<_, _>>()?;
        Ok(Self { constants, padding })
    }

    /// The constants with the least mean padding on the workloads that `keep` keeps.
    fn best(&self, keep: impl Fn(usize) -> bool) -> usize {
        let total = |at: usize| -> f64 {
            self.padding[at]
                .iter()
                .enumerate()
                .filter(|(index, _)| keep(*index))
                .map(|(_, padding)| padding)
                .sum()
        };
        (0..self.constants.len()).min_by(|&a, &b| total(a).total_cmp(&total(b))).unwrap_or(0)
    }
}

fn print_left_out(workloads: &[Workload]) -> Result<(), PlanError> {
    let cuts = cut(workloads, 0.5)?;
    let grid = Grid::new(&cuts, 32)?;
    let source = |index: usize| workloads[index].name.split("_b").next().unwrap_or_default().to_owned();
    let default = grid.constants.iter().position(|&pair| pair == (0.5, 1.5)).unwrap_or(0);
    println!(
        "
Constants picked on other workloads, of the {} pairs above, by mean padding with 32 sizes on the second halves; then counted
on the workload that was left out. Were the result owed to constants fitted to these files, constants picked without them would
do clearly worse than the default.

| workload left out | default | picked on the other nine: share, growth | padding | picked without its source: share, growth | padding |
|---|--:|--:|--:|--:|--:|",
        grid.constants.len()
    );
    let mut sums = [0.0; 3];
    for (index, workload) in workloads.iter().enumerate() {
        let one = grid.best(|other| other != index);
        let all = grid.best(|other| source(other) != source(index));
        let padding = [default, one, all].map(|at| grid.padding[at][index]);
        for (sum, padding) in sums.iter_mut().zip(padding) {
            *sum += padding / workloads.len() as f64;
        }
        let (one, all) = (grid.constants[one], grid.constants[all]);
        println!(
            "| {} | {:.2} | {}, {} | {:.2} | {}, {} | {:.2} |",
            workload.name, padding[0], one.0, one.1, padding[1], all.0, all.1, padding[2]
        );
    }
    println!("| mean | {:.2} | | {:.2} | | {:.2} |", sums[0], sums[1], sums[2]);
    Ok(())
}
