//! Every number in the kernels' sources, changed one at a time: do the kernels' cases notice?

mod attempt;
mod listed;
mod literal;
mod source;

use std::{collections::BTreeMap, error::Error, process::ExitCode, thread::sleep};

use attempt::{Attempt, Outcome, PAUSE};
use listed::LISTED;
use source::{Change, File};

/// The first argument of a process that tries one change.
const ONE: &str = "--one";
/// The argument of a process that tries none.
const NONE: &str = "--none";

/// Sweeps the files that are named, or all; see the program `constants`.
///
/// # Errors
/// A file that there is not; a process that cannot be started.
pub fn sweep(arguments: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let files = source::files();
    if let [one, file, index] = arguments
        && one == ONE
    {
        let file = find(&files, file)?;
        let change = file.changes().into_iter().nth(index.parse()?).ok_or("there is no such number")?;
        return Ok(attempt::try_here(Some(&change)));
    }
    if arguments == [NONE] {
        return Ok(attempt::try_here(None));
    }
    let chosen = match arguments {
        [] => files.clone(),
        named => named.iter().map(|name| find(&files, name)).collect::<Result<_, _>>()?,
    };
    // A case that fails as it is would notice everything.
    if let Outcome::Noticed(how) = Attempt::start(&[NONE.to_owned()])?.wait()? {
        return Err(format!("the cases fail without a change: {how}").into());
    }
    let mut unnoticed = 0;
    for file in &chosen {
        unnoticed += sweep_file(*file)?;
    }
    let all: Vec<Change> = chosen.iter().flat_map(|file| file.changes()).collect();
    let stale =
        LISTED.iter().filter(|listed| arguments.is_empty() && !all.iter().any(|change| listed.is(change)));
    let stale = stale.inspect(|listed| println!("listed, but not there: {}", listed.place())).count();
    println!("{} number(s), {unnoticed} of them changed without notice", all.len());
    Ok(if unnoticed + stale == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn find(files: &[File], name: &str) -> Result<File, String> {
    let known = || files.iter().map(|file| file.name).collect::<Vec<_>>().join(", ");
    files
        .iter()
        .find(|file| file.name == name)
        .copied()
        .ok_or_else(|| format!("no file {name}; there are {}", known()))
}

/// How many changes of a file nothing notices.
fn sweep_file(file: File) -> Result<usize, Box<dyn Error>> {
    let mut numbers: Vec<(usize, Change)> = file.changes().into_iter().enumerate().collect();
    let total = numbers.len();
    let is_listed = |change: &Change| LISTED.iter().find(|listed| listed.is(change));
    let listed: Vec<_> = numbers
        .iter()
        .filter_map(|(_, change)| Some((change.literal.line, change.number(), is_listed(change)?.reason)))
        .collect();
    numbers.retain(|(_, change)| is_listed(change).is_none());
    let outcomes = try_all(file, &numbers)?;

    let mut by: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, outcome) in &outcomes {
        if let Outcome::Noticed(how) = outcome {
            *by.entry(how.split_once(": ").map_or(how.as_str(), |(kernel, _)| kernel)).or_default() += 1;
        }
    }
    let unnoticed = outcomes.iter().filter(|(_, outcome)| *outcome == Outcome::Unnoticed);
    let noticed = outcomes.len() - unnoticed.clone().count();
    println!("{}: {total} number(s): {noticed} noticed, {} listed", file.name, listed.len());
    by.iter().for_each(|(kernel, count)| println!("  noticed by {kernel}: {count}"));
    listed.iter().for_each(|(line, number, reason)| println!("  listed: line {line}, {number}: {reason}"));
    for (change, _) in unnoticed {
        let Change { literal, .. } = change;
        println!(
            "  NOT NOTICED: line {}, {}: {}",
            literal.line,
            change.number(),
            file.line(literal.line).trim()
        );
    }
    Ok(outcomes.len() - noticed)
}

/// Tries changes, as many at a time as there are processors; the results are in order.
fn try_all(file: File, numbers: &[(usize, Change)]) -> Result<Vec<(&Change, Outcome)>, Box<dyn Error>> {
    let most = std::thread::available_parallelism()?.get();
    let mut outcomes: Vec<Option<Outcome>> = vec![None; numbers.len()];
    let mut running: Vec<(usize, Attempt)> = Vec::new();
    let mut next = 0;
    while next < numbers.len() || !running.is_empty() {
        while next < numbers.len() && running.len() < most {
            let arguments = [ONE.to_owned(), file.name.to_owned(), numbers[next].0.to_string()];
            running.push((next, Attempt::start(&arguments)?));
            next += 1;
        }
        for (at, mut attempt) in std::mem::take(&mut running) {
            match attempt.poll()? {
                None => running.push((at, attempt)),
                Some(outcome) => {
                    let change = &numbers[at].1;
                    eprintln!("{}:{} {}: {outcome:?}", file.name, change.literal.line, change.number());
                    outcomes[at] = Some(outcome);
                }
            }
        }
        sleep(PAUSE);
    }
    Ok(numbers.iter().zip(outcomes).filter_map(|((_, change), outcome)| Some((change, outcome?))).collect())
}
