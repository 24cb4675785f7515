//! Every driver call of a scenario fails once, with each of three codes: a clear error or an eager fallback, right
//! numbers afterwards, nothing left, and the next run works. `--nocapture` shows the calls by function.

mod support;
#[path = "support/toy.rs"]
mod toy;

use graph_core::{Backend, ErrorKind, Result};
use graph_cuda::{Cuda, codes, lost};
use stand_in_driver::Session;

const CODES: [u32; 3] = [1, 2, 801];
/// All sizes, most with padding, one beyond the largest bucket.
const ROWS: [usize; 21] = [1, 2, 3, 4, 5, 6, 7, 8, 5, 1, 7, 3, 9, 5, 7, 2, 8, 6, 5, 7, 1];

/// What a run has seen.
#[derive(Default)]
struct Seen {
    errors: Vec<String>,
    eager: usize,
    replays: usize,
}

type Open = fn() -> Result<Cuda>;

/// Dropped memory is kept, which is the default.
fn keeping() -> Result<Cuda> {
    Cuda::with_options(0, support::options().keep_memory(1 << 20))
}

/// Start, capture 6 buckets, 20 replays, most with padding, one call without a bucket, shutdown. A call that fails is
/// repeated once: the failure was a single one.
fn scenario(open: Open, seen: &mut Seen) -> Result<()> {
    let (engine, mut runner) = toy::build(open()?)?;
    for failure in &engine.stats()[0].failures {
        seen.errors.push(failure.to_string());
    }
    let mut other = None;
    for (i, rows) in ROWS.into_iter().enumerate() {
        let mut call = || -> Result<(bool, Vec<f32>)> {
            let done = toy::run(&engine, &mut runner, rows)?;
            // The second half has a second stream, without which dropped memory is kept.
            if i >= ROWS.len() / 2 {
                let other = match &mut other {
                    Some(other) => other,
                    none => none.insert(engine.device().stream()?),
                };
                Cuda::wait_event(other, &Cuda::record_event(engine.stream())?)?;
            }
            Ok(done)
        };
        let (replayed, numbers) = match call() {
            Ok(done) => done,
            Err(error) => {
                assert!(seen.errors.is_empty(), "a second error: {error} after {:?}", seen.errors);
                seen.errors.push(error.to_string());
                call()?
            }
        };
        assert_eq!(numbers, toy::expected(rows), "{rows} rows");
        match replayed {
            true => seen.replays += 1,
            false => seen.eager += 1,
        }
    }
    Ok(())
}

/// One clean run: right numbers, everything replayed that has a bucket, nothing left.
fn clean(session: &Session<'_>, open: Open, after: &str) {
    session.reset();
    let mut seen = Seen::default();
    scenario(open, &mut seen).unwrap_or_else(|error| panic!("the run after {after}: {error}"));
    assert_eq!((seen.errors.len(), seen.replays, seen.eager), (0, 20, 1), "after {after}: {:?}", seen.errors);
    assert!(session.live().is_zero(), "after {after}: {:?}", session.live());
}

#[test]
fn invariant_13_whatever_call_fails_once() {
    let Some(session) = support::session("invariant_13_whatever_call_fails_once") else { return };
    for (memory, open) in [("freed", support::open as Open), ("kept", keeping)] {
        println!("dropped memory is {memory}:");
        sweep(&session, open);
    }
}

fn sweep(session: &Session<'_>, open: Open) {
    clean(session, open, "nothing");
    let calls = session.total_calls();
    let by_function: Vec<_> = session.counts().into_iter().filter(|(_, n)| *n > 0).collect();
    let (mut runs, mut refused, mut dropped, mut repeated, mut unseen) = (0, 0, 0, 0, 0);
    for call in 1..=calls {
        for code in CODES {
            session.reset();
            session.fail_call(call, code as i32);
            let mut seen = Seen::default();
            let outcome = scenario(open, &mut seen);
            runs += 1;
            let fired = session.fired();
            assert_eq!(fired.len(), 1, "call {call} of {calls} did not come");
            let here = format!("call {call} ({}) failed with {code}", fired[0].function);
            // What was said about it names the code, and the driver's call or the operation.
            let told = outcome.as_ref().err().map(ToString::to_string).into_iter().chain(seen.errors.clone());
            for error in told {
                let clear = error.contains(&format!("{} ({code})", codes::name(code)));
                assert!(clear, "{here}: unclear: {error}");
            }
            match &outcome {
                Err(error) => {
                    assert!(!matches!(error.kind(), ErrorKind::Panicked(_)), "{here}: {error}");
                    refused += 1;
                }
                Ok(()) if seen.eager > 1 => dropped += 1,
                Ok(()) if !seen.errors.is_empty() => repeated += 1,
                Ok(()) => unseen += 1,
            }
            let left = session.live();
            // A free that fails once is tried again, so not even the ledger has an entry.
            assert!(left.is_zero() && lost().is_empty(), "{here}: left {left:?}, lost {:?}", lost());
            clean(session, open, &here);
        }
    }
    println!("{calls} driver calls in the scenario, by function:");
    by_function.iter().for_each(|(function, n)| println!("  {n:5} {function}"));
    println!("{runs} runs with one failure (codes {CODES:?}), each followed by one without:");
    println!("  {refused:5} ended with an error at the start, after which nothing was left");
    println!("  {dropped:5} went on with a bucket less: eager, or in a larger bucket");
    println!(
        "  {repeated:5} returned an error from one call, or lost a bucket that no call chose; the same call again worked"
    );
    println!("  {unseen:5} were made good without the caller's notice (a second try at a free, say)");
    println!("in the end: no live handle or byte, no entry in the ledger of what is lost");
}
