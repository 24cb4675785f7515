use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::{Histogram, MAX_SIZE, PairHistogram, PlanError};

const HEADER: &str = "decode_bs,prefill_chunks";

/// One step of a server: what its batch held.
///
/// As a line of JSON: `{"decode_bs": 12, "prefill_chunks": [512, 60]}`. A field that is missing is empty; others
/// are ignored.
///
/// ```
/// use graph_plan::Step;
///
/// let step = Step { decode_bs: 12, prefill_chunks: vec![512, 60] };
/// assert_eq!(step.prefill_tokens(), 572);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Requests that decoded one token.
    #[serde(default)]
    pub decode_bs: u32,
    /// Tokens of each request in the packed prefill batch.
    #[serde(default)]
    pub prefill_chunks: Vec<u32>,
}

impl Step {
    /// Tokens of the packed prefill batch.
    pub fn prefill_tokens(&self) -> u64 {
        self.prefill_chunks.iter().map(|&chunk| u64::from(chunk)).sum()
    }
}

/// The steps a server ran, in order.
///
/// ```
/// use graph_plan::Trace;
///
/// let csv = Trace::parse("decode_bs,prefill_chunks\n12,512 60\n13,\n")?;
/// let json = Trace::parse("{\"decode_bs\":12,\"prefill_chunks\":[512,60]}\n{\"decode_bs\":13}\n")?;
/// assert_eq!(csv, json);
/// assert_eq!(csv.decode()?.weight(13), 1.0);
/// # Ok::<(), graph_plan::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    steps: Vec<Step>,
}

impl Trace {
    /// Reads a trace file, see [`Trace::parse`].
    ///
    /// # Errors
    /// A file that cannot be read or is not UTF-8, and what `parse` refuses.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, PlanError> {
        let path = path.as_ref();
        let text =
            fs::read_to_string(path).map_err(|source| PlanError::Read { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Reads one step per line: JSON objects, or CSV with the header `decode_bs,prefill_chunks` and the chunks
    /// separated by spaces.
    ///
    /// # Errors
    /// [`PlanError::BadLine`] for the first line that is not a step, blank ones included;
    /// [`PlanError::EmptyTrace`] without steps.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line)).peekable();
        let json = lines.peek().is_some_and(|(_, line)| line.trim_start().starts_with('{'));
        if !json {
            match lines.next() {
                None => return Err(PlanError::EmptyTrace),
                Some((_, header)) if header.trim() == HEADER => {}
                Some((line, other)) => {
                    let problem =
                        format!("neither a JSON object nor the CSV header `{HEADER}`: `{}`", excerpt(other));
                    return Err(PlanError::BadLine { line, problem });
                }
            }
        }
        let read = if json { json_step } else { csv_step };
        let steps = lines
            .map(|(line, text)| read(text).map_err(|problem| PlanError::BadLine { line, problem }))
            .collect::<Result<Vec<_>, _>>()?;
        Self::new(steps)
    }

    /// A trace of these steps.
    ///
    /// # Errors
    /// [`PlanError::EmptyTrace`] without steps.
    pub fn new(steps: Vec<Step>) -> Result<Self, PlanError> {
        if steps.is_empty() { Err(PlanError::EmptyTrace) } else { Ok(Self { steps }) }
    }

    /// The steps, first to last.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Cuts the trace in time: the first `fraction` of the steps, rounded down but at least one step, and the
    /// rest, which is `None` if nothing is left.
    ///
    /// # Errors
    /// A fraction outside (0, 1].
    pub fn split(&self, fraction: f64) -> Result<(Trace, Option<Trace>), PlanError> {
        if !(fraction > 0.0 && fraction <= 1.0) {
            return Err(PlanError::BadFraction { fraction });
        }
        let count = ((self.steps.len() as f64 * fraction) as usize).max(1);
        let (first, rest) = self.steps.split_at(count);
        Ok((Self { steps: first.to_vec() }, Self::new(rest.to_vec()).ok()))
    }

    /// Steps by their decode batch; steps without one are left out.
    ///
    /// # Errors
    /// A size above [`MAX_SIZE`](crate::MAX_SIZE).
    pub fn decode(&self) -> Result<Histogram, PlanError> {
        Histogram::from_sizes(self.steps.iter().map(|step| step.decode_bs).filter(|&size| size > 0))
    }

    /// Steps by the tokens of their prefill batch; steps without one are left out.
    ///
    /// # Errors
    /// A size above [`MAX_SIZE`](crate::MAX_SIZE).
    pub fn prefill_tokens(&self) -> Result<Histogram, PlanError> {
        Ok(self.prefill()?.tokens())
    }

    /// Steps by the requests and tokens of their prefill batch; steps without one are left out.
    ///
    /// # Errors
    /// A size above [`MAX_SIZE`](crate::MAX_SIZE).
    pub fn prefill(&self) -> Result<PairHistogram, PlanError> {
        let mut histogram = PairHistogram::new();
        for step in self.steps.iter().filter(|step| !step.prefill_chunks.is_empty()) {
            let requests = u32::try_from(step.prefill_chunks.len()).unwrap_or(u32::MAX);
            let tokens = u32::try_from(step.prefill_tokens()).unwrap_or(u32::MAX);
            histogram.add(requests, tokens, 1.0)?;
        }
        Ok(histogram)
    }
}

fn json_step(line: &str) -> Result<Step, String> {
    let step: Step = serde_json::from_str(line).map_err(|error| error.to_string())?;
    check(step)
}

fn csv_step(line: &str) -> Result<Step, String> {
    let (decode, chunks) =
        line.split_once(',').ok_or_else(|| format!("no comma, expected `{HEADER}`: `{}`", excerpt(line)))?;
    let decode_bs = whole("decode_bs", decode)?;
    let prefill_chunks =
        chunks.split_whitespace().map(|chunk| whole("prefill_chunks", chunk)).collect::<Result<_, _>>()?;
    check(Step { decode_bs, prefill_chunks })
}

fn check(step: Step) -> Result<Step, String> {
    if step.prefill_chunks.contains(&0) {
        return Err("a prefill chunk has no tokens".to_owned());
    }
    let largest = step.prefill_tokens().max(u64::from(step.decode_bs));
    if largest > u64::from(MAX_SIZE) {
        return Err(format!(
            "{largest} rows are more than the largest batch that can be planned, {MAX_SIZE}"
        ));
    }
    Ok(step)
}

fn whole(field: &str, text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| format!("{field} is not a whole number: `{}`", excerpt(text)))
}

/// The start of a line, so that a message about a binary file stays short.
fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}
