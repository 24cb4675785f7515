//! Asks every vector of a folder and reports.

use std::{
    any::Any,
    collections::BTreeMap,
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use serde_json::Value;

use crate::{
    answers,
    differences::{self, Difference},
    errors::same_error,
    setups::Setups,
    table::Table,
    vectors::{Problem, Vector, Want, read_folder},
};

/// What came of a folder of vectors.
#[derive(Debug, Default)]
pub struct Report {
    /// Vectors with the answer of the reference implementation.
    pub passed: usize,
    /// Vectors with graph-core's own answer, by the number of the difference.
    pub differ: BTreeMap<u8, usize>,
    /// What is wrong with the others.
    pub failures: Vec<String>,
    /// What is wrong with the folder, or with the counts.
    pub problems: Vec<Problem>,
}

/// What came of one vector.
enum Verdict {
    Passes,
    Differs(u8),
}

/// Asks every vector of a folder, prints a report to `out`, its last line the totals, and returns it. With a table, the
/// counts must be those of the table.
pub fn run(folder: &Path, table: Option<&Table>, out: &mut dyn Write) -> io::Result<Report> {
    let report = ask_all(folder, table);
    for problem in report.failures.iter().chain(&report.problems) {
        writeln!(out, "{problem}")?;
    }
    if !report.differ.is_empty() {
        writeln!(out, "difference  vectors")?;
    }
    for (number, count) in &report.differ {
        writeln!(out, "{number:>10}  {count:>7}")?;
    }
    writeln!(out, "{}", report.totals())?;
    out.flush()?;
    Ok(report)
}

impl Report {
    /// Whether every vector passes or differs on purpose, and there is one.
    pub fn is_good(&self) -> bool {
        self.failures.is_empty() && self.problems.is_empty()
    }

    /// The last line.
    pub fn totals(&self) -> String {
        let differ: usize = self.differ.values().sum();
        let (pass, fail) = (self.passed, self.failures.len());
        format!("{} vectors: {pass} pass, {differ} differ on purpose, {fail} fail", pass + differ + fail)
    }
}

fn ask_all(folder: &Path, table: Option<&Table>) -> Report {
    let mut report = Report::default();
    let files = match read_folder(folder) {
        Ok(files) => files,
        Err(problem) => {
            report.problems.push(problem);
            return report;
        }
    };
    for file in files {
        let file = match file {
            Ok(file) => file,
            Err(problem) => {
                report.failures.push(problem);
                continue;
            }
        };
        let setups = Setups::new(&file.setups);
        for (index, vector) in file.vectors.iter().enumerate() {
            let place = format!("{} #{index}", file.name);
            match vector {
                Err(problem) => report.failures.push(format!("{place}: {problem}")),
                Ok(vector) => match verdict(vector, &setups) {
                    Ok(Verdict::Passes) => report.passed += 1,
                    Ok(Verdict::Differs(number)) => *report.differ.entry(number).or_default() += 1,
                    Err(problem) => report.failures.push(failure(&place, vector, &problem)),
                },
            }
        }
        report.problems.extend(setups.check().into_iter().map(|problem| format!("{}: {problem}", file.name)));
    }
    if report.passed + report.differ.len() + report.failures.len() == 0 {
        report.problems.push(format!("there is no vector in {}", folder.display()));
    }
    if let Some(table) = table {
        check_counts(&mut report, table);
    }
    report
}

fn check_counts(report: &mut Report, table: &Table) {
    let numbers = table.counts.keys().chain(report.differ.keys()).copied();
    for number in numbers.collect::<std::collections::BTreeSet<u8>>() {
        let (got, want) = (report.differ.get(&number).copied().unwrap_or(0), table.counts.get(&number));
        if want != Some(&got) {
            report.problems.push(format!("difference {number}: {got} vectors, the table says {want:?}"));
        }
    }
    if report.totals() != table.totals {
        report.problems.push(format!("the table says: {}", table.totals));
    }
}

fn verdict(vector: &Vector, setups: &Setups<'_>) -> Result<Verdict, Problem> {
    let difference = differences::difference(vector, setups)?;
    let asked = catch_unwind(AssertUnwindSafe(|| answers::answer(vector, setups)));
    let answer = asked.unwrap_or_else(|panic| Err(format!("graph-core panics: {}", text(panic.as_ref()))))?;
    let same = match &vector.want {
        Want::Value(want) => answer == *want,
        Want::Raises(class) => same_error(&vector.function, class, &answer),
    };
    match (same, difference) {
        (true, None) => Ok(Verdict::Passes),
        (false, None) => Err(format!("got {}", short(&answer))),
        (true, Some(Difference { number, .. })) => Err(format!("passes, although difference {number} holds")),
        (false, Some(Difference { number, ours })) if answer == ours => Ok(Verdict::Differs(number)),
        (false, Some(Difference { number, ours })) => {
            Err(format!("got {}, difference {number} wants {}", short(&answer), short(&ours)))
        }
    }
}

fn failure(place: &str, vector: &Vector, problem: &str) -> String {
    let want = match &vector.want {
        Want::Value(value) => short(value),
        Want::Raises(class) => class.clone(),
    };
    format!("{place}: {}({}): want {want}, {problem}", vector.function, short(&vector.args))
}

fn short(value: &Value) -> String {
    const MOST: usize = 400;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)")
}
