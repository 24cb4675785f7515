//! A step that fails, and a capture that goes wild.

use graph_core::{CaptureOptions, ErrorKind, Options, RequestId};

use crate::toy::{Built, Toy, Wild, build, build_with};

fn ingest(built: &mut Built, requests: &[u64]) {
    for request in requests {
        built.node().ingest(RequestId(*request), &Options::default()).unwrap();
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
