//! Sampling through the engine, and its distribution.

use graph_core::{Dims, Label, Options, RequestId, Resource, Row, StepContext, Steps};
use graph_host::Host;
use graph_resources::{SampleParams, Sampler, SamplerRow, sample_row, sample_rows};

use crate::toy::{Built, Toy, build};

/// Generates for several requests at once, `prompt` and then `n` tokens each.
fn generate(built: &mut Built, requests: &[(u64, SampleParams)], n: usize) -> Vec<Vec<i32>> {
    let mut texts = vec![vec![]; requests.len()];
    for (id, params) in requests {
        built.node().ingest(RequestId(*id), &Options::default().with(*params)).unwrap();
    }
    let mut next: Vec<Vec<i32>> = requests.iter().map(|(id, _)| vec![*id as i32, 2, 1]).collect();
    for i in 0..n {
        let rows: Vec<_> = requests.iter().zip(&next).map(|((id, _), t)| (*id, t.as_slice())).collect();
        let walk = if i == 0 { "prefill" } else { "decode" };
        let drawn = built.step(walk, None, i, &rows).unwrap().tokens;
        for ((text, next), token) in texts.iter_mut().zip(&mut next).zip(drawn) {
            text.push(token);
            *next = vec![token];
        }
    }
    requests.iter().for_each(|(id, _)| built.node().remove(RequestId(*id)));
    texts
}

#[test]
fn a_preempted_request_ends_with_the_same_text() {
    let (mut built, request) = (build(Toy::default()), (3, SampleParams::seeded(11)));
    let whole = generate(&mut built, &[request], 20).remove(0);
    for at in [1, 7, 12] {
        let (id, params) = request;
        built.node().ingest(RequestId(id), &Options::default().with(params)).unwrap();
        let mut text = Vec::new();
        let mut next = vec![id as i32, 2, 1];
        for i in 0..20 {
            if i == at {
                let counter = built.node().steps().get::<Sampler<Host>>().unwrap().counter(RequestId(id));
                assert_eq!(counter, Some(at as u64));
                built.node().remove(RequestId(id));
                let again = params.counter(counter.unwrap());
                built.node().ingest(RequestId(id), &Options::default().with(again)).unwrap();
                next = [&[id as i32, 2, 1], &text[..]].concat();
            }
            let walk = if next.len() > 1 { "prefill" } else { "decode" };
            let token = built.step(walk, None, i, &[(id, &next)]).unwrap().tokens[0];
            text.push(token);
            next = vec![token];
        }
        assert_eq!(text, whole, "preempted after {at} tokens");
        built.node().remove(RequestId(id));
    }
}

#[test]
fn a_row_that_there_is_not_is_the_sink() {
    let mut state = SamplerRow::new(&SampleParams::seeded(1)).to_words();
    let mut tokens = [9; 3];
    sample_rows(&[0.0, 1.0, 2.0, 0.0, 0.0, 5.0], &[-1, 7, 0], &mut state, &mut tokens);
    assert_eq!(tokens, [1, 0, 1], "two logits per row, greedy where there is no state");
    assert_eq!(SamplerRow::from_words(state).counter, 1);
}

const LOGITS: [f32; 12] = [0.0, 1.5, -2.0, 1.5, 0.25, -0.5, 2.0, -7.0, 1.0, f32::NEG_INFINITY, 0.75, -1.0];

/// The probabilities by definition: sort, cut, normalise, in f64.
fn probabilities(params: &SampleParams) -> Vec<f64> {
    let mut order: Vec<usize> = (0..LOGITS.len()).collect();
    order.sort_by(|a, b| LOGITS[*b].total_cmp(&LOGITS[*a]).then(a.cmp(b)));
    if params.top_k > 0 {
        order.truncate(params.top_k as usize);
    }
    let weight = |i: usize| (f64::from(LOGITS[i]) / f64::from(params.temperature)).exp();
    let total: f64 = order.iter().map(|i| weight(*i)).sum();
    let (mut reached, mut keep) = (0.0, 0);
    while keep < order.len() && (keep == 0 || reached < f64::from(params.top_p) * total) {
        reached += weight(order[keep]);
        keep += 1;
    }
    order.truncate(keep);
    let total: f64 = order.iter().map(|i| weight(*i)).sum();
    (0..LOGITS.len()).map(|i| if order.contains(&i) { weight(i) / total } else { 0.0 }).collect()
}

/// Draws per case.
const DRAWS: u64 = 40_000;

/// Pearson's statistic over the tokens with a probability, and the value that it exceeds in one of 10,000 cases
/// (Wilson and Hilferty's approximation). A token without a probability that is drawn all the same: infinite.
fn chi_square(params: &SampleParams, draw: impl Fn(&mut SamplerRow) -> usize) -> (f64, f64) {
    let wanted = probabilities(params);
    let mut counts = vec![0_u64; wanted.len()];
    let mut row = SamplerRow::new(params);
    (0..DRAWS).for_each(|_| counts[draw(&mut row)] += 1);
    let (mut statistic, mut freedom) = (0.0, -1.0);
    for (count, p) in counts.into_iter().zip(wanted) {
        let expected = p * DRAWS as f64;
        statistic += match p > 0.0 {
            true => (count as f64 - expected).powi(2) / expected,
            false if count > 0 => f64::INFINITY,
            false => 0.0,
        };
        freedom += f64::from(u8::from(p > 0.0));
    }
    let spread = 2.0 / (9.0 * freedom);
    (statistic, freedom * (1.0 - spread + 3.719 * spread.sqrt()).powi(3))
}

fn cases() -> Vec<SampleParams> {
    let seeded = SampleParams::seeded;
    vec![
        seeded(1),
        seeded(2).temperature(0.6),
        seeded(3).temperature(1.7),
        seeded(4).top_k(3),
        seeded(5).top_k(5).top_p(0.9),
        seeded(6).top_p(0.5),
        seeded(7).temperature(1.3).top_k(9).top_p(0.97),
    ]
}

#[test]
fn the_distribution_is_the_softmax() {
    for params in cases() {
        let (statistic, critical) = chi_square(&params, |row| {
            let sample = sample_row(&LOGITS, row);
            row.counter = sample.counter;
            sample.token as usize
        });
        assert!(statistic < critical, "{params:?}: {statistic} of {critical}");
    }
}

#[test]
fn the_same_test_finds_a_biased_sampler() {
    // A fifth more logit for one token; and a counter that advances once in 512 times.
    let heavier: [f32; 12] = std::array::from_fn(|i| LOGITS[i] + if i == 1 { 0.2 } else { 0.0 });
    for params in cases() {
        let (statistic, critical) = chi_square(&params, |row| {
            let sample = sample_row(&heavier, row);
            row.counter = sample.counter;
            sample.token as usize
        });
        assert!(statistic > critical, "{params:?}: {statistic} of {critical}");
        let (statistic, critical) = chi_square(&params, |row| {
            let sample = sample_row(&LOGITS, &SamplerRow { counter: row.counter / 512, ..*row });
            row.counter += 1;
            sample.token as usize
        });
        assert!(statistic > critical, "{params:?}: {statistic} of {critical}");
    }
}

#[test]
fn order_of_filters_and_ties() {
    let at = |params: SampleParams, logits: &[f32]| {
        let mut row = SamplerRow::new(&params);
        let mut seen: Vec<u32> = (0..400)
            .map(|_| {
                let sample = sample_row(logits, &row);
                row.counter = sample.counter;
                sample.token
            })
            .collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    };
    let hot = SampleParams::seeded(3).temperature(100.0);
    assert_eq!(at(hot.top_k(2), &[1.0, 4.0, 4.0, 4.0]), [1, 2], "of equals the lowest ids");
    assert_eq!(at(hot.top_p(0.5), &[1.0, 1.0, 1.0, 1.0]), [0, 1]);
    assert_eq!(at(hot.top_p(0.0), &[1.0, 1.0, 2.0, 1.0]), [2], "one at the least");
    assert_eq!(at(hot.top_k(1), &[1.0, 3.0, 3.0]), [1]);
    // Top-p counts what top-k has left: to reach half of three equal tokens takes two, of five three.
    assert_eq!(at(hot.top_k(3).top_p(0.5), &[1.0; 5]), [0, 1]);
    assert_eq!(at(hot.top_p(0.5), &[1.0; 5]), [0, 1, 2]);
    assert_eq!(at(hot.top_k(99), &[1.0; 3]), [0, 1, 2]);
    let greedy = |logits: &[f32]| sample_row(logits, &SamplerRow::SINK).token;
    assert_eq!(greedy(&[f32::NAN, -1.0, 5.0, 5.0]), 2);
    assert_eq!(greedy(&[f32::NAN, f32::NAN]), 0);
    assert_eq!(greedy(&[]), 0);
    assert_eq!(sample_row(&[f32::NAN; 3], &SamplerRow::new(&hot)).token, 0);
    assert_eq!(sample_row(&[f32::NEG_INFINITY, 0.0], &SamplerRow::new(&hot)).token, 1);
    assert_eq!(sample_row(&[0.0, f32::INFINITY], &SamplerRow::new(&hot)).token, 1);
}

#[test]
fn a_segment_without_tokens_draws_nothing() {
    let mut steps = Steps::<Host>::new("node", vec![Box::new(Sampler::<Host>::new(4).unwrap())]).unwrap();
    for request in 1..=3 {
        let params = SampleParams::seeded(request);
        steps.ingest(RequestId(request), &Options::default().with(params)).unwrap();
    }
    let declared = steps.declare(|step| {
        let mut part = step.resource("sampler");
        [1, 0, 1].iter().zip(1..).for_each(|(n, r)| _ = part.segment(RequestId(r), Label::MAIN, *n));
        Ok(())
    });
    let (rows, padded) = ([Row::Padding { slot: 1, row: 3 }], Dims { bs: 4, tokens: 4 });
    let cx = StepContext { slot: 1, rows: &rows, real_bs: 3, padded, captured: true };
    let mut step = declared.unwrap().admit().unwrap().plan(&cx).unwrap();
    let sampler = step.inside().get::<Sampler<Host>>().unwrap();
    assert_eq!(
        sampler.planned(1, 0).values::<i32>().unwrap(),
        [1, 0, 3],
        "the one in the middle has the sink"
    );
    step.commit(&rows);
    let sampler = steps.get::<Sampler<Host>>().unwrap();
    assert_eq!([1, 2, 3].map(|r| sampler.counter(RequestId(r)).unwrap()), [1, 0, 1]);
}
