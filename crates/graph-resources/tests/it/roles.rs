//! The roles of a resource, in the order in which the engine plays them; what a failure leaves behind.

use graph_core::{
    AdmitOutcome, Engine, ErrorKind, NodeCall, Options, RequestId, Resource, Result, Shape, Source,
};
use graph_host::{Call, Host, codes};

use crate::probe::{Probe, Told, build};

fn run(engine: &mut Engine<Host>, walk: &str, requests: &[u64], x: &[i32], slot: usize) -> Result<Vec<i32>> {
    let stream = engine.stream().clone();
    let ids: Vec<RequestId> = requests.iter().map(|r| RequestId(*r)).collect();
    let (lens, inputs) = (vec![1; ids.len()], [("x", Source::host(&x))]);
    let call = NodeCall { requests: &ids, seq_lens: &lens, inputs: &inputs, slot };
    engine.node("probe")?.run(walk, &call)?.into_out().take::<i32, 1>("y")?.to_vec(&stream)
}

fn ingest(engine: &mut Engine<Host>, requests: &[u64]) {
    let node = engine.node("probe").unwrap();
    requests.iter().for_each(|r| node.ingest(RequestId(*r), &Options::default().with("hello")).unwrap());
}

#[test]
fn the_roles_in_their_order() {
    let told = Told { preplan: true, ..Told::default() };
    let (mut engine, _) = build(&told, None).unwrap();
    // Everybody claims before anything is allocated, and that before anything is captured; `share` is between.
    assert_eq!(told.heard(), ["claim 2", "claim 4", "claim 1", "allocate 2", "share", "validate"]);
    assert_eq!(engine.ledger().resources, 2 * 4 * 2 * 4, "the largest claim, for two slots");
    ingest(&mut engine, &[1, 2]);
    assert_eq!(told.heard(), ["ingest 1 Some(\"hello\")", "ingest 2 Some(\"hello\")"]);
    assert_eq!(run(&mut engine, "add", &[1, 2], &[5, 6], 1).unwrap(), [15, 26]);
    let reset = "reset [Padding { slot: 1, row: 2 }, Padding { slot: 1, row: 3 }]";
    assert_eq!(told.heard(), ["admit 2", "plan slot 1 of 4 rows, 2 real", "commit", reset]);
    engine.node("probe").unwrap().set_eager(true);
    assert_eq!(run(&mut engine, "add", &[1, 2], &[5, 6], 1).unwrap(), [15, 26]);
    assert_eq!(told.heard(), ["admit 2", "plan slot 0 of 2 rows, 2 real", "commit", "reset []"]);
    engine.node("probe").unwrap().remove(RequestId(1));
    assert_eq!(told.heard(), ["remove 1"]);
    // After the allocation a larger claim is refused.
    let probe = engine.node("probe").unwrap().steps().get_mut::<Probe>().unwrap();
    probe.claim(&Shape::batched(4, 1)).unwrap();
    let closed = probe.claim(&Shape::batched(5, 1)).unwrap_err();
    assert!(matches!(closed.kind(), ErrorKind::ClaimsClosed { owner: "probe", .. }), "{closed}");
}

#[test]
fn a_resource_that_cannot_plan_ahead_gets_one_slot() {
    let told = Told::default();
    let (mut engine, _) = build(&told, None).unwrap();
    assert!(told.heard().contains(&"allocate 1".to_string()));
    assert_eq!(engine.node("probe").unwrap().slots(), 1);
    ingest(&mut engine, &[1]);
    for slot in 0..4 {
        assert_eq!(run(&mut engine, "add", &[1], &[5], slot).unwrap(), [15]);
    }
    assert!(told.heard().iter().all(|said| !said.starts_with("plan slot 1")));
}

#[test]
fn whatever_fails_is_rolled_back() {
    let told = Told::default();
    let (mut engine, host) = build(&told, None).unwrap();
    ingest(&mut engine, &[1, 2, 13]);
    told.heard();
    for (eager, plan) in [(false, "plan slot 0 of 4 rows, 2 real"), (true, "plan slot 0 of 2 rows, 2 real")] {
        engine.node("probe").unwrap().set_eager(eager);
        // Not ready: nothing to roll back.
        let refused = run(&mut engine, "add", &[1, 13], &[5, 6], 0).unwrap_err();
        assert!(matches!(
            refused.kind(),
            ErrorKind::Refused { outcome: AdmitOutcome::NotReady { request: RequestId(13) }, .. }
        ));
        assert_eq!(told.heard(), ["admit 2"]);
        // A plan that fails.
        *told.fail_plan.lock().unwrap() = true;
        assert_eq!(run(&mut engine, "add", &[1, 2], &[5, 6], 0).unwrap_err().to_string(), "no plan");
        assert_eq!(told.heard(), ["admit 2", plan, "rollback"]);
        // An input of a wrong size: found when it is staged.
        let error = run(&mut engine, "add", &[1, 2], &[5], 0).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::WrongSize { .. }), "{error}");
        assert_eq!(told.heard(), ["admit 2", plan, "rollback"]);
        // A launch that fails.
        host.fail_next(if eager { Call::Kernel } else { Call::Launch }, codes::LAUNCH_FAILED);
        assert!(run(&mut engine, "add", &[1, 2], &[5, 6], 0).is_err());
        assert_eq!(told.heard(), ["admit 2", plan, "rollback"]);
        assert_eq!(run(&mut engine, "add", &[1, 2], &[5, 6], 0).unwrap(), [15, 26], "the next step works");
        told.heard();
    }
}

#[test]
fn a_failed_capture_costs_its_bucket_and_no_resource() {
    let told = Told { panics_at: Some(4), ..Told::default() };
    let (mut engine, host) = build(&told, None).unwrap();
    let heard = told.heard();
    assert!(heard.iter().all(|said| !said.starts_with("admit")), "a capture opens no step: {heard:?}");
    assert_eq!(heard.last().unwrap(), "validate", "what is left is validated");
    let stats = engine.stats();
    let whole = stats.iter().find(|s| s.walk.is_some()).unwrap();
    assert_eq!((whole.buckets.len(), whole.failures.len()), (1, 1));
    let node = engine.node("probe").unwrap();
    assert_eq!(node.whole().max_batch_size_for("add"), Some(1), "the batch cap is lower");
    // Two requests run eagerly now, one is replayed; both on the same resource, with everything it had.
    ingest(&mut engine, &[1, 2]);
    assert_eq!(run(&mut engine, "add", &[1, 2], &[5, 6], 0).unwrap(), [15, 26]);
    assert_eq!(run(&mut engine, "add", &[2], &[6], 0).unwrap(), [26]);
    let (buffers, graphs) = (host.live().buffers, host.live().graphs);
    assert!(buffers > 0 && graphs == 2, "the region's and one bucket");
    drop(engine);
    assert_eq!(host.live().graphs, 0);
    assert_eq!(host.live().buffers, 0, "of {buffers}");
}

#[test]
fn a_resource_can_stop_the_engine_after_the_captures() {
    let told = Told { fail_validate: true, ..Told::default() };
    let error = build(&told, None).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::StateChanged { resource: "probe", .. }), "{error}");
}

#[test]
fn a_region_brings_its_own_step_inside_a_node() {
    let told = Told::default();
    let (mut engine, _) = build(&told, None).unwrap();
    ingest(&mut engine, &[1, 2, 3]);
    told.heard();
    // The outer step leaves the resource to the region: replayed at two, eager at three.
    assert_eq!(run(&mut engine, "outer", &[1], &[5], 0).unwrap(), [15]);
    let reset = "reset [Padding { slot: 0, row: 1 }]";
    assert_eq!(told.heard(), ["admit 1", "plan slot 0 of 2 rows, 1 real", "commit", reset, "replayed"]);
    assert_eq!(run(&mut engine, "outer", &[1, 2, 3], &[5, 6, 7], 0).unwrap(), [15, 26, 37]);
    assert_eq!(told.heard(), ["admit 3", "plan slot 0 of 3 rows, 3 real", "commit", "reset []", "eager"]);
}

#[test]
fn two_open_steps_on_one_resource_are_an_error_and_both_are_rolled_back() {
    let told = Told { outer_declares: true, ..Told::default() };
    let (mut engine, _) = build(&told, None).unwrap();
    ingest(&mut engine, &[1]);
    told.heard();
    let error = run(&mut engine, "outer", &[1], &[5], 0).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ResourceInStep { resource: "probe", .. }), "{error}");
    assert_eq!(told.heard(), ["admit 1", "plan slot 0 of 1 rows, 1 real", "rollback"]);
    // The region's slot, which was leased before its step, is free again.
    assert_eq!(run(&mut engine, "add", &[1], &[5], 0).unwrap(), [15]);
}
