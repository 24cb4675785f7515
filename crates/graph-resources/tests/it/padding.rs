//! Padding rows write to the padding page only; a step does the same captured and eager.

use graph_core::{Backend, CaptureOptions, ErrorKind, Options, RequestId};
use graph_host::Host;
use graph_resources::{PADDING_PAGE, PageOwner};

use crate::toy::{Built, Toy, Wild, build, build_with, sum_of, value};

fn ingest(built: &mut Built, requests: &[u64]) {
    for request in requests {
        built.node().ingest(RequestId(*request), &Options::default()).unwrap();
    }
}

#[test]
fn a_step_is_the_same_captured_and_eager() {
    let (mut captured, mut eager) = (build(Toy::default()), build(Toy::default()));
    eager.node().set_eager(true);
    let mut streams = [vec![3, 1, 4], vec![1, 5, 9, 2, 6], vec![5]];
    for built in [&mut captured, &mut eager] {
        ingest(built, &[1, 2, 3]);
        let rows: Vec<_> = streams.iter().enumerate().map(|(i, s)| (i as u64 + 1, s.as_slice())).collect();
        let stepped = built.step("prefill", None, 0, &rows).unwrap();
        assert_eq!(stepped.sums, streams.iter().map(|s| sum_of(s)).collect::<Vec<_>>());
    }
    let padding = captured.keys();
    Host::zero(&captured.stream, padding.view().buffer(), 0, 4).unwrap();
    for i in 0..12 {
        let tokens = [i + 1, 2 * i + 1, 40 - i];
        let rows: Vec<_> = (0..3).map(|r| (r as u64 + 1, &tokens[r..][..1])).collect();
        let a = captured.step("decode", None, i as usize, &rows).unwrap();
        let b = eager.step("decode", None, i as usize, &rows).unwrap();
        streams.iter_mut().zip(tokens).for_each(|(stream, token)| stream.push(token));
        assert!(a.replayed && !b.replayed);
        assert_eq!((&a.sums, &a.tokens), (&b.sums, &b.tokens));
        assert_eq!(a.sums, streams.iter().map(|s| sum_of(s)).collect::<Vec<_>>());
    }
    let (a, b) = (captured.page_bits(), eager.page_bits());
    assert_eq!(a[PADDING_PAGE + 1..], b[PADDING_PAGE + 1..]);
    assert_eq!(a[PADDING_PAGE][0], value(-1, 0).to_bits(), "the padding row was written to the padding page");
}

#[test]
fn padding_touches_no_page_of_a_live_request() {
    let mut built = build(Toy::default());
    let before = built.page_bits();
    assert!(before[1..].iter().flatten().all(|bits| *bits == 0), "captures wrote to the padding page only");
    ingest(&mut built, &[1, 2, 3]);
    built.step("prefill", None, 0, &[(1, &[1; 5]), (2, &[2; 6]), (3, &[3; 4])]).unwrap();
    for round in 0..6 {
        // A, B, C in the bucket of 4, then A alone in the same bucket (2 and 1 are held by nobody, but too small to
        // show): its three padding rows have what B and C left behind in the static buffers.
        built.step("decode", None, round, &[(1, &[7]), (2, &[8]), (3, &[9])]).unwrap();
        let before = built.page_bits();
        let stepped = built.step("prefill", None, round, &[(1, &[7])]).unwrap();
        assert!(stepped.replayed);
        let after = built.page_bits();
        for page in 0..after.len() {
            match built.kv().owner(page) {
                Some(PageOwner::Stream(RequestId(1), _) | PageOwner::Padding) => {}
                owner => assert_eq!(before[page], after[page], "page {page} of {owner:?}"),
            }
        }
        built.kv().assert_consistent();
    }
}

#[test]
fn a_step_that_fails_leaves_nothing_reserved() {
    use graph_host::{Call, codes};
    let mut built = build(Toy::default());
    ingest(&mut built, &[1]);
    built.step("prefill", None, 0, &[(1, &[1; 5])]).unwrap();
    let counts = built.kv().counts();
    for (walk, call) in [("prefill", Call::Launch), ("decode", Call::Launch)] {
        built.host.fail_next(call, codes::LAUNCH_FAILED);
        built.step(walk, None, 0, &[(1, &[1; 1])]).unwrap_err();
        assert_eq!(built.kv().counts().free, counts.free);
        assert_eq!(built.kv().stream_len(RequestId(1), graph_core::Label::MAIN), 5);
        built.kv().assert_consistent();
    }
    assert!(built.step("decode", None, 0, &[(1, &[2])]).unwrap().replayed);
}

#[test]
fn a_capture_that_writes_past_its_padding_rows_stops_the_engine() {
    for (wild, text) in [
        (Wild::Keys, "resource `kv`: the captures changed the keys of page 1, layer 0"),
        (Wild::Sampler, "resource `sampler`: the captures changed row 3"),
    ] {
        let error = build_with(Toy { wild, ..Toy::default() }, CaptureOptions::default()).err().unwrap();
        assert!(matches!(error.kind(), ErrorKind::StateChanged { .. }));
        assert!(error.to_string().contains(text), "{error}");
    }
}
