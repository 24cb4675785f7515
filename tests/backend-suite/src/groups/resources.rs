//! Pages, plans, positions and a sampler under captured steps.

use graph_core::{
    AdmitOutcome, Dims, ErrorKind, Label, Options, RequestId, Resource, Resources, Result, StepContext,
    SubmoduleStep,
};
use graph_resources::{
    KvOptions, PADDING_PAGE, PageOwner, Positions, SampleParams, Sampler, SamplerRow, SamplerState,
};

use super::refused;
use crate::{
    Bench, SuiteOps,
    toys::{PagedToy, Toy, sum_of, value},
};

pub(crate) fn a_step_is_the_same_captured_and_eager<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let (mut captured, mut eager) =
        (PagedToy::new(bench, Toy::default())?, PagedToy::new(bench, Toy::default())?);
    eager.node()?.set_eager(true);
    let mut streams = [vec![3, 1, 4], vec![1, 5, 9, 2, 6], vec![5]];
    for toy in [&mut captured, &mut eager] {
        toy.ingest(&[1, 2, 3])?;
        let rows: Vec<_> = streams.iter().enumerate().map(|(i, s)| (i as u64 + 1, s.as_slice())).collect();
        assert_eq!(toy.step("prefill", 0, &rows)?.sums, streams.each_ref().map(|s| sum_of(s)));
    }
    let padding = captured.keys()?;
    B::zero(&captured.stream, padding.view().buffer(), padding.view().offset(), 4)?;
    for i in 0..12 {
        let tokens = [i + 1, 2 * i + 1, 40 - i];
        let rows: Vec<_> = (0..3).map(|r| (r as u64 + 1, &tokens[r..][..1])).collect();
        let (a, b) = (captured.step("decode", i as usize, &rows)?, eager.step("decode", i as usize, &rows)?);
        streams.iter_mut().zip(tokens).for_each(|(stream, token)| stream.push(token));
        assert!(a.replayed && !b.replayed);
        assert_eq!((&a.sums, &a.tokens), (&b.sums, &b.tokens));
        assert_eq!(a.sums, streams.each_ref().map(|s| sum_of(s)));
    }
    let (a, b) = (captured.page_bits()?, eager.page_bits()?);
    assert_eq!(a[PADDING_PAGE + 1..], b[PADDING_PAGE + 1..]);
    assert_eq!(a[PADDING_PAGE][0], value(-1, 0).to_bits(), "the padding row was written to the padding page");
    Ok(())
}

pub(crate) fn padding_touches_no_page_of_a_live_request<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let mut toy = PagedToy::new(bench, Toy::default())?;
    let before = toy.page_bits()?;
    assert!(before[1..].iter().flatten().all(|bits| *bits == 0), "captures wrote to the padding page only");
    toy.ingest(&[1, 2, 3])?;
    toy.step("prefill", 0, &[(1, &[1; 5]), (2, &[2; 6]), (3, &[3; 4])])?;
    for round in 0..6 {
        // Three in the bucket of four, then one of them alone in the prefill's of eight tokens, whose seven padding rows
        // have what the others left behind in the static buffers.
        let alone = 1 + round as u64 % 3;
        toy.step("decode", round, &[(1, &[7]), (2, &[8]), (3, &[9])])?;
        let before = toy.page_bits()?;
        assert!(toy.step("prefill", round, &[(alone, &[7])])?.replayed);
        let after = toy.page_bits()?;
        for page in 0..after.len() {
            match toy.kv().owner(page) {
                Some(PageOwner::Padding) => {}
                Some(PageOwner::Stream(RequestId(request), _)) if request == alone => {}
                owner => assert_eq!(before[page], after[page], "page {page} of {owner:?}"),
            }
        }
        toy.kv().assert_consistent();
    }
    Ok(())
}

pub(crate) fn a_step_short_of_pages_is_refused_and_reserves_nothing<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    // One page for padding, four of four tokens.
    let kv = KvOptions::new(5, 4).max_tokens(16);
    let mut toy = PagedToy::new(bench, Toy { kv, ..Toy::default() })?;
    toy.ingest(&[1, 2])?;
    toy.step("prefill", 0, &[(1, &[1; 5]), (2, &[2; 4])])?;
    let before = (toy.kv().counts().free, toy.page_bits()?);
    assert_eq!(before.0, 1);
    let short = AdmitOutcome::PagesShort { pages: 1, request: RequestId(2), label: Label::MAIN };
    let is = |kind: &ErrorKind| matches!(kind, ErrorKind::Refused { resource: "kv", outcome, .. } if *outcome == short);
    refused(toy.step("prefill", 0, &[(1, &[1; 4]), (2, &[2; 1])]), is);
    assert_eq!((toy.kv().counts().free, toy.page_bits()?), before, "nothing is reserved or written");
    let lengths = [1, 2].map(|r| toy.kv().stream_len(RequestId(r), Label::MAIN));
    assert_eq!(lengths, [5, 4]);
    let one = toy.step("decode", 0, &[(1, &[3])])?;
    assert_eq!((one.sums, one.replayed), (vec![sum_of(&[1, 1, 1, 1, 1, 3])], true));
    // Pages of a request that ends are the others' to have.
    toy.node()?.remove(RequestId(1));
    assert_eq!(toy.step("prefill", 0, &[(2, &[2; 8])])?.sums, [sum_of(&[2; 12])]);
    toy.kv().assert_consistent();
    Ok(())
}

pub(crate) fn a_step_that_is_dropped_is_rolled_back<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let mut toy = PagedToy::new(bench, Toy::default())?;
    toy.ingest(&[1])?;
    toy.step("prefill", 0, &[(1, &[1; 5])])?;
    let counts = toy.kv().counts().free;
    let steps = toy.node()?.steps();
    let declare = |step: &mut SubmoduleStep| {
        for resource in ["kv", "attention", "positions", "sampler"] {
            step.resource(resource).segment(RequestId(1), Label::MAIN, 9);
        }
        Ok(())
    };
    let padded = Dims { bs: 1, tokens: 9 };
    let context = StepContext { slot: 0, rows: &[], real_bs: 1, padded, captured: false };
    drop(steps.declare(declare)?);
    drop(steps.declare(declare)?.admit()?);
    drop(steps.declare(declare)?.admit()?.plan(&context)?);
    let positions = steps.get::<Positions>().expect("the toy has positions");
    assert_eq!(positions.stream_len(RequestId(1), Label::MAIN), 5);
    assert_eq!(steps.get::<Sampler<B>>().and_then(|s| s.counter(RequestId(1))), Some(0));
    assert_eq!((toy.kv().counts().free, toy.kv().stream_len(RequestId(1), Label::MAIN)), (counts, 5));
    toy.kv().assert_consistent();
    assert_eq!(toy.step("decode", 0, &[(1, &[2])])?.sums, [sum_of(&[1, 1, 1, 1, 1, 2])]);
    Ok(())
}

pub(crate) fn a_capture_that_writes_past_its_padding_rows_stops_the_engine<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let changed = |kind: &ErrorKind| matches!(kind, ErrorKind::StateChanged { .. });
    let text = refused(PagedToy::new(bench, Toy { wild: true, ..Toy::default() }), changed);
    assert!(text.contains("resource `kv`: the captures changed the keys of page 1, layer 0"), "{text}");
    Ok(())
}

/// Generates for several requests at once, `prompt` and then `n` tokens each.
fn generate<B: SuiteOps>(
    toy: &mut PagedToy<B>,
    requests: &[(u64, SampleParams)],
    n: usize,
) -> Result<Vec<Vec<i32>>> {
    let mut texts = vec![vec![]; requests.len()];
    for (id, params) in requests {
        toy.node()?.ingest(RequestId(*id), &Options::default().with(*params))?;
    }
    let mut next: Vec<Vec<i32>> = requests.iter().map(|(id, _)| vec![*id as i32, 2, 1]).collect();
    for i in 0..n {
        let rows: Vec<_> = requests.iter().zip(&next).map(|((id, _), t)| (*id, t.as_slice())).collect();
        let drawn = toy.step(if i == 0 { "prefill" } else { "decode" }, i, &rows)?.tokens;
        for ((text, next), token) in texts.iter_mut().zip(&mut next).zip(drawn) {
            text.push(token);
            *next = vec![token];
        }
    }
    requests.iter().try_for_each(|(id, _)| toy.node().map(|node| node.remove(RequestId(*id))))?;
    Ok(texts)
}

pub(crate) fn the_same_seed_gives_the_same_text_alone_and_batched_captured_and_eager<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let requests = [
        (3, SampleParams::seeded(11)),
        (5, SampleParams::seeded(12).temperature(0.7).top_k(4)),
        (6, SampleParams::greedy()),
        (9, SampleParams::seeded(1 << 40).temperature(2.0).top_p(0.8)),
    ];
    let mut toy = PagedToy::new(bench, Toy::default())?;
    let batched = generate(&mut toy, &requests, 20)?;
    for (request, text) in requests.iter().zip(&batched) {
        assert_eq!(generate(&mut toy, &[*request], 20)?[0], *text, "alone, {request:?}");
    }
    assert_eq!(generate(&mut toy, &requests[..3], 20)?, batched[..3], "three of a bucket of four");
    toy.node()?.set_eager(true);
    assert_eq!(generate(&mut toy, &requests, 20)?, batched, "eager");
    let other = generate(&mut toy, &[(3, SampleParams::seeded(13))], 20)?;
    assert_ne!(other[0], batched[0], "another seed, another text");
    Ok(())
}

pub(crate) fn two_replays_draw_different_numbers_and_padding_draws_none<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let mut toy = PagedToy::new(bench, Toy::default())?;
    let stream = toy.stream.clone();
    let hot = SampleParams::seeded(5).temperature(1000.0);
    toy.node()?.ingest(RequestId(1), &Options::default().with(hot))?;
    toy.ingest(&[2, 3])?;
    let mut drawn = Vec::new();
    for slot in 0..30 {
        // Tokens of value 0: the logits stay as they are. Three requests are padded to four.
        let stepped = toy.step("decode", slot, &[(1, &[0]), (2, &[0]), (3, &[0])])?;
        assert!(stepped.replayed && stepped.tokens[1..] == [3, 3], "greedy is greedy");
        drawn.push(stepped.tokens[0]);
    }
    let mut different = drawn.clone();
    different.sort_unstable();
    different.dedup();
    assert!(different.len() > 5, "{drawn:?}");
    let sampler = toy.node()?.steps().get::<Sampler<B>>().expect("the toy has a sampler");
    assert_eq!([1, 2].map(|r| sampler.counter(RequestId(r))), [Some(30), Some(0)]);
    let row = sampler.row(RequestId(1)).expect("it is there");
    let mut shared = Resources::default();
    sampler.share(&mut shared);
    let words = shared.get::<SamplerState<B>>()?.words().to_vec(&stream)?;
    let rows = words.as_chunks::<{ SamplerRow::WORDS }>().0;
    assert_eq!(SamplerRow::from_words(rows[0]), SamplerRow::SINK, "padding draws nothing");
    assert_eq!(SamplerRow::from_words(rows[row]).counter, 30, "the device has counted as the host has");
    // Again from the start, alone: the same numbers.
    toy.node()?.remove(RequestId(1));
    toy.node()?.ingest(RequestId(1), &Options::default().with(hot))?;
    let again: Result<Vec<_>> =
        (0..30).map(|slot| Ok(toy.step("decode", slot, &[(1, &[0])])?.tokens[0])).collect();
    assert_eq!(again?, drawn);
    Ok(())
}
