//! Thousands of random schedules: arrivals, cancellations, preemptions, sampling, captured and eager. A request's text
//! never depends on any of it.

use std::collections::HashMap;

use engine::scheduler::Scheduler;
use graph_core::{Engine, RequestId};
use graph_host::Host;
use graph_resources::{SampleParams, philox4x32_10};
use llama_plugin::{LlamaOptions, Prefill};

use crate::{
    node::engine,
    schedule::{Prompt, Schedule},
    tiny::{VOCAB, tiny},
};

/// Schedules for each of the six ways to build the engine.
const SCHEDULES: u32 = 400;
const MAX_NEW: usize = 8;
/// Of a prompt.
const MAX_PROMPT: usize = 10;
const PROMPTS: u32 = 24;

/// Numbers that are the same in every run.
struct Random {
    stream: u32,
    drawn: u32,
}

impl Random {
    /// Below `most`.
    fn below(&mut self, most: usize) -> usize {
        self.drawn += 1;
        philox4x32_10([self.drawn, self.stream, 0, 0], [2026, 11])[0] as usize % most
    }
}

/// Prompt `p` of the pool, and how its tokens are drawn.
fn prompt(p: u32) -> (Vec<u32>, SampleParams) {
    let mut random = Random { stream: p + 1_000_000, drawn: 0 };
    let tokens = (0..1 + random.below(MAX_PROMPT)).map(|_| random.below(VOCAB) as u32).collect();
    let params = match p % 3 {
        0 => SampleParams::greedy(),
        1 => SampleParams::seeded(u64::from(p)).temperature(1.3),
        _ => SampleParams::seeded(u64::from(p)).temperature(0.9).top_k(6).top_p(0.9),
    };
    (tokens, params)
}

/// One schedule, with the numbers of its prompts in the pool.
fn schedule(number: u32) -> (Schedule, Vec<u32>) {
    let random = &mut Random { stream: number, drawn: 0 };
    // Most are small; some have 32 requests at a time.
    let count = if random.below(16) == 0 { 32 } else { 1 + random.below(9) };
    let spread = 1 + random.below(2 * count);
    let chosen: Vec<u32> = (0..count).map(|_| random.below(PROMPTS as usize) as u32).collect();
    let prompts = chosen.iter().map(|p| {
        let (tokens, params) = prompt(*p);
        let at_step = random.below(spread);
        let cancel_at = (random.below(5) == 0).then(|| at_step + random.below(12));
        Prompt { tokens, params, at_step, cancel_at }
    });
    let schedule = Schedule {
        prompts: prompts.collect(),
        max_new_tokens: 1 + random.below(MAX_NEW),
        max_batch: [32, 32, 3, 8][random.below(4)],
        prefill_budget: [1, 7, 16, 64][random.below(4)],
        alias: random.below(2) == 0,
    };
    (schedule, chosen)
}

/// The whole text of every prompt: alone, eager, with all the pages it wants.
fn texts(options: LlamaOptions) -> HashMap<u32, Vec<u32>> {
    let mut engine = engine(options);
    engine.node("llama").expect("there").set_eager(true);
    let text = |p| {
        let (tokens, params) = prompt(p);
        let alone = Prompt { tokens, params, at_step: 0, cancel_at: None };
        let schedule = Schedule {
            prompts: vec![alone],
            max_new_tokens: MAX_NEW,
            max_batch: 1,
            prefill_budget: 64,
            alias: false,
        };
        let served = schedule.serve(&mut engine, Prefill::Piecewise.walk(), false);
        (p, served.finished[0].as_ref().expect("not cancelled").tokens.clone())
    };
    (0..PROMPTS).map(text).collect()
}

/// What has to happen at least once.
#[derive(Debug, Default)]
struct Happened {
    preemptions: u64,
    cancelled: u64,
    slots: [u64; 2],
    alias_replays: u64,
    eager: u64,
    most_requests: usize,
}

#[test]
fn a_text_depends_on_nothing_but_its_prompt() {
    let dir = tiny();
    let base = LlamaOptions { dir: dir.path().into(), ..LlamaOptions::default() };
    let texts = texts(base.clone());
    let different: std::collections::HashSet<_> = texts.values().collect();
    assert!(different.len() > PROMPTS as usize / 2, "the model says the same to everything");
    let mut happened = Happened::default();
    let mut padded_rows = 0;
    let mut number = 0;
    for prefill in [Prefill::Piecewise, Prefill::BlockLoop] {
        // A request needs at most 17 tokens; the pages hold a few.
        for (page_size, pages) in [(1, 40), (4, 11), (16, 4)] {
            let mut engine = engine(LlamaOptions { page_size, pages: Some(pages), prefill, ..base.clone() });
            for _ in 0..SCHEDULES {
                number += 1;
                let eager = number.is_multiple_of(8);
                engine.node("llama").expect("there").set_eager(eager);
                one(&mut engine, prefill, number, eager, &texts, &mut happened);
            }
            let stats = engine.stats();
            let decode = stats.iter().find(|s| s.name == "decode").expect("captured");
            padded_rows += decode.buckets.iter().map(|b| b.padded_rows).sum::<u64>();
            assert!(stats.iter().all(|s| s.failures.is_empty()), "{stats:?}");
        }
    }
    println!("{happened:?}, {padded_rows} padded rows of decode");
    let Happened { preemptions, cancelled, slots, alias_replays, eager, most_requests } = happened;
    assert!(preemptions > 0 && cancelled > 0 && alias_replays > 0 && eager > 0 && padded_rows > 0);
    assert!(slots.iter().all(|calls| *calls > 0), "{slots:?}");
    assert!(most_requests >= 32, "{most_requests}");
}

fn one(
    engine: &mut Engine<Host>,
    prefill: Prefill,
    number: u32,
    eager: bool,
    texts: &HashMap<u32, Vec<u32>>,
    happened: &mut Happened,
) {
    let (schedule, chosen) = schedule(number);
    let served = schedule.serve(engine, prefill.walk(), number.is_multiple_of(4));
    for (i, finished) in served.finished.iter().enumerate() {
        let Some(f) = finished else {
            assert!(schedule.prompts[i].cancel_at.is_some(), "request {i} of schedule {number} is lost");
            happened.cancelled += 1;
            continue;
        };
        let want = &texts[&chosen[i]][..schedule.prompts[i].tokens.len() + schedule.max_new_tokens];
        assert_eq!(f.tokens, want, "request {i} of schedule {number}: {schedule:?}");
    }
    happened.preemptions += served.counts.preemptions;
    happened.slots.iter_mut().zip(&served.counts.slots).for_each(|(all, calls)| *all += calls);
    if schedule.alias && !eager {
        happened.alias_replays += served.counts.replayed;
    }
    happened.eager += u64::from(eager);
    happened.most_requests = happened.most_requests.max(schedule.prompts.len().min(schedule.max_batch));
}

#[test]
fn a_request_that_never_fits_is_refused_and_the_rest_go_on() {
    let dir = tiny();
    let base = LlamaOptions { dir: dir.path().into(), ..LlamaOptions::default() };
    let mut engine = engine(LlamaOptions { page_size: 4, pages: Some(3), ..base });
    let stream = engine.stream().clone();
    let node = engine.node("llama").expect("there");
    let limits = crate::schedule::limits(MAX_NEW, 4, 16, Prefill::Piecewise.walk(), "decode");
    let mut scheduler = Scheduler::new(node, &stream, limits).expect("limits");
    let greedy = SampleParams::greedy();
    let text = scheduler.submit(RequestId(1), vec![1; 6], greedy).expect_err("four pages").to_string();
    assert!(text.contains("request 1 needs 4 page(s) for its 13 token(s), all requests share 3"), "{text}");
    let text = scheduler.submit(RequestId(1), vec![1; 25], greedy).expect_err("too long").to_string();
    assert!(text.contains("request 1 has 25 tokens, the context holds 24"), "{text}");
    let text = scheduler.submit(RequestId(1), vec![], greedy).expect_err("empty").to_string();
    assert!(text.contains("request 1 has no token"), "{text}");
    scheduler.submit(RequestId(2), vec![1; 5], greedy).expect("three pages");
    let text = scheduler.submit(RequestId(2), vec![1; 5], greedy).expect_err("twice").to_string();
    assert!(text.contains("request 2 is being served already"), "{text}");
    while !scheduler.is_idle() {
        scheduler.step(|_| Ok(())).expect("a step");
    }
    assert_eq!(scheduler.take_finished()[0].new_tokens, MAX_NEW);
    assert!(!scheduler.cancel(RequestId(2)), "it has ended");
}

#[test]
fn cancelling_frees_pages_at_once() {
    let dir = tiny();
    let base = LlamaOptions { dir: dir.path().into(), ..LlamaOptions::default() };
    let mut engine = engine(LlamaOptions { page_size: 4, pages: Some(8), ..base });
    let stream = engine.stream().clone();
    let node = engine.node("llama").expect("there");
    let limits = crate::schedule::limits(MAX_NEW, 4, 64, Prefill::Piecewise.walk(), "decode");
    let mut scheduler = Scheduler::new(node, &stream, limits).expect("limits");
    for request in 1..=2 {
        scheduler.submit(RequestId(request), vec![3; 9], SampleParams::greedy()).expect("it fits");
    }
    scheduler.step(|_| Ok(())).expect("a step");
    assert_eq!(scheduler.pages().free, 2);
    assert!(scheduler.cancel(RequestId(1)));
    assert_eq!(scheduler.pages().free, 5);
    assert!(!scheduler.cancel(RequestId(1)), "it is gone");
    drop(scheduler);
    crate::audit::Audit::nothing_left(engine.node("llama").expect("there"));
}
