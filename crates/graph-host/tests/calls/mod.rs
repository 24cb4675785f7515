//! Calls that a runner must refuse or run eagerly, and the reasons it gives.

use std::sync::Arc;

use crate::common::Rig;
use graph_core::{
    BatchedCudaGraphConfig, CaptureOptions, Error, ErrorKind, Miss, NodeCall, NodeInputs,
    PiecewiseBatchedConfig, Source, WholeOutcome,
};
use graph_host::Host;

/// A batched graph has its requests' length in it; another length is not that graph's call.
#[test]
fn a_batched_forward_replays_its_own_lengths_only() {
    let decode = BatchedCudaGraphConfig::new("decode", NodeInputs::new(2)).capture_batch_sizes([4]);
    let change = |b: graph_core::EngineBuilder<'static, Host>| b.forward_config("toy.decode", decode);
    let mut rig = Rig::scripted(Host::new(), Arc::default(), change).unwrap();
    let stream = rig.stream();
    let node = rig.engine.node("toy").unwrap();
    let ids: &[i32] = &[3, 4, 5];
    let inputs = [("ids", Source::host(&ids))];
    for (seq_lens, miss) in [
        ([2, 2, 2], None),
        ([1, 2, 3], Some(Miss::OtherLengths { got: 1, want: 2 })),
        ([2, 2, 1], Some(Miss::OtherLengths { got: 1, want: 2 })),
    ] {
        let call = NodeCall { requests: &[], seq_lens: &seq_lens, inputs: &inputs, slot: 0 };
        let outcome = node.run("decode", &call).unwrap();
        assert_eq!(outcome.reason(), miss, "{seq_lens:?}");
        let square = outcome.into_out().take::<i32, 1>("square").unwrap().to_vec(&stream).unwrap();
        assert_eq!(square, [9, 16, 25]);
    }
}

#[test]
fn an_input_given_twice() {
    let mut rig = Rig::new(CaptureOptions::default());
    let ids: &[i32] = &[3];
    let inputs = [("ids", Source::host(&ids)), ("ids", Source::host(&ids))];
    let call = NodeCall { requests: &[], seq_lens: &[1], inputs: &inputs, slot: 0 };
    let error = rig.engine.node("toy").unwrap().run("decode", &call).err().unwrap();
    assert_eq!(error.to_string(), "toy.forward_batched: input `ids` is given twice");
}

/// A walk that is captured but that no forward lists as its own still has the captured forward to fall back to.
#[test]
fn a_captured_walk_that_no_forward_names_runs_eagerly_too() {
    let decode = BatchedCudaGraphConfig::new("decode", NodeInputs::new(1))
        .replay_graph_walks(["decode", "speculative"])
        .capture_batch_sizes([2]);
    let change = |b: graph_core::EngineBuilder<'static, Host>| b.forward_config("toy.decode", decode);
    let mut rig = Rig::scripted(Host::new(), Arc::default(), change).unwrap();
    let node = rig.engine.node("toy").unwrap();
    let ids: &[i32] = &[1, 2, 3];
    for n in [2, 3] {
        let slice = &ids[..n];
        let inputs = [("ids", Source::host(&slice))];
        let call = NodeCall { requests: &[], seq_lens: &[1; 3][..n], inputs: &inputs, slot: 0 };
        let outcome = node.run("speculative", &call).unwrap();
        assert_eq!(matches!(outcome, WholeOutcome::Eager { .. }), n == 3);
    }
}

#[test]
fn a_configuration_for_a_name_of_another_kind() {
    let with =
        |change: fn(graph_core::EngineBuilder<'static, Host>) -> graph_core::EngineBuilder<'static, Host>| {
            Rig::scripted(Host::new(), Arc::default(), change).err().unwrap().to_string()
        };
    let walk = with(|b| b.region_config("toy.decode", PiecewiseBatchedConfig::new(1)));
    assert_eq!(walk, "region_config: there is no region `toy.decode`; known: toy.mix");
    let region =
        with(|b| b.forward_config("toy.mix", BatchedCudaGraphConfig::new("decode", NodeInputs::new(1))));
    assert_eq!(region, "forward_config: there is no captured walk `toy.mix`; known: toy.decode");
}

#[test]
fn when_every_capture_failed_the_reason_says_so() {
    let mut rig = crate::scripted(|cx| match cx.mode() {
        graph_core::Mode::Capture => Err(Error::plugin("not today")),
        _ => Ok(()),
    });
    let outcome = rig.inputs.run(&mut rig.mix, 3).unwrap();
    assert_eq!(outcome.reason(), Some(Miss::CaptureFailed { buckets: 4 }));
    drop(outcome);
    let stats = rig.mix.stats();
    assert_eq!(stats.eager, [("capture_failed", 1)]);
    assert!(stats.failures[0].to_string().contains("not today"), "{}", stats.failures[0]);
}

/// What `main` and `unwrap` print is the message.
#[test]
fn an_error_prints_its_message_either_way() {
    let error: Error = ErrorKind::EmptyBatch { owner: "toy.mix".into() }.into();
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(format!("{:?}", error.kind()).starts_with("EmptyBatch"));
}
