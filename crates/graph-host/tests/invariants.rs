//! graph-core on this backend, where its codes, hooks and counts are asked for; tests carry the numbers of the
//! invariants. What holds on every backend is in `backend-suite`.

mod common;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, atomic::Ordering},
};

use common::{Rig, Script, y};
use graph_core::{
    Backend, BatchedCudaGraphConfig, CaptureOptions, Cx, Dims, EngineBuilder, Error, ErrorKind, GraphBuffers,
    Miss, Mode, NodeInputs, PiecewiseBatchedConfig, Result,
};
use graph_host::{Call, Host, codes};

fn scripted(act: impl Fn(&mut Cx<'_, Host>) -> Result<()> + Send + Sync + 'static) -> Rig {
    let script = Script { act: Mutex::new(Some(Arc::new(act))), ..Script::default() };
    Rig::scripted(Host::new(), Arc::new(script), |b| b).unwrap()
}

fn batch_sizes(rig: &Rig) -> Vec<usize> {
    rig.mix.stats().buckets.iter().map(|b| b.dims.bs).collect()
}

#[test]
fn a_failed_capture_has_the_code_of_its_reason_and_leaves_nothing() {
    // What a forward may do wrong in a capture, and the code of the reason.
    type Wrong = fn(&mut Cx<'_, Host>) -> Result<()>;
    let wrong: [(Wrong, u32, &str); 5] = [
        (|cx| Host::synchronize(cx.stream()), codes::STREAM_CAPTURE_UNSUPPORTED, "capture"),
        (|cx| cx.device().alloc(8).map(drop), codes::STREAM_CAPTURE_UNSUPPORTED, "capture"),
        // The error is swallowed: the capture is broken all the same.
        (|cx| Host::synchronize(cx.stream()).or(Ok(())), codes::STREAM_CAPTURE_INVALIDATED, "capture"),
        (
            |cx| {
                let side = cx.device().stream()?;
                Host::wait_event(&side, &Host::record_event(cx.stream())?)?;
                side.callback("lost", || {})
            },
            codes::STREAM_CAPTURE_UNJOINED,
            "capture",
        ),
        (
            |cx| {
                cx.device().fail_next(Call::Instantiate, codes::OUT_OF_MEMORY);
                Ok(())
            },
            codes::OUT_OF_MEMORY,
            "instantiate",
        ),
    ];
    for (i, (act, want, at)) in wrong.into_iter().enumerate() {
        let mut rig = scripted(move |cx| match (cx.mode(), cx.dims().bs) {
            (Mode::Capture, 4) => act(cx),
            _ => Ok(()),
        });
        assert_eq!(batch_sizes(&rig), [8, 2, 1], "case {i}");
        let failures = rig.mix.stats().failures;
        let [failure] = &failures[..] else { panic!("case {i}: {} failures", failures.len()) };
        let ErrorKind::Capture { bs: 4, stage, cause, .. } = failure.kind() else { panic!("{failure}") };
        assert!(
            matches!(cause.kind(), ErrorKind::Driver { code, .. } if *code == want),
            "case {i}: {failure}"
        );
        assert_eq!(*stage, at);
        assert!(!Host::is_capturing(&rig.stream()));
        assert_eq!(rig.host.live().graphs, 3 + 2, "case {i}");
        assert_eq!(rig.run(4), rig.inputs.want(4));
        let host = rig.host.clone();
        drop(rig);
        assert_eq!(host.live(), Default::default(), "everything is returned");
    }
}

#[test]
fn invariant_09_a_panic_in_a_replayed_kernel_is_an_error_of_that_run() {
    let script = Arc::<Script>::default();
    let mut rig = Rig::scripted(Host::new(), script.clone(), |b| b).unwrap();
    script.panic_at.store(3, Ordering::Relaxed);
    let ran = catch_unwind(AssertUnwindSafe(|| rig.inputs.run(&mut rig.mix, 4).map(drop)));
    let error = ran.expect("no panic leaves the backend").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Panicked(text) if text == "in `sum`: met id 3"), "{error}");
    assert_eq!(rig.run(2), rig.inputs.want(2), "no id 3 here");
    script.panic_at.store(0, Ordering::Relaxed);
    assert_eq!(rig.run(4), rig.inputs.want(4));
}

#[test]
fn invariant_14_a_graph_dropped_inside_a_forward_outlives_the_capture() {
    let host = Host::new();
    let stream = host.stream().unwrap();
    let buffer = host.alloc(64).unwrap();
    Host::begin_capture(&stream).unwrap();
    Host::zero(&stream, &buffer, 0, 64).unwrap();
    let graph = host.instantiate(Host::end_capture(&stream).unwrap()).unwrap();
    let old = Mutex::new(Some((graph, buffer)));
    let (device, noted) = (host.clone(), Arc::new(Mutex::new(Vec::new())));
    let notes = noted.clone();
    let act = move |cx: &mut Cx<'_, Host>| {
        if cx.mode() == Mode::Capture
            && let Some(old) = old.lock().unwrap().take()
        {
            let before = device.live();
            drop(old);
            notes.lock().unwrap().push((before, device.live()));
        }
        Ok(())
    };
    let script = Script { act: Mutex::new(Some(Arc::new(act))), ..Script::default() };
    let mut rig = Rig::scripted(host.clone(), Arc::new(script), |b| b).unwrap();
    let (before, after) = noted.lock().unwrap()[0];
    assert_eq!((after.graphs, after.buffers), (before.graphs, before.buffers), "not inside the capture");
    assert_eq!(after.put_aside, 1);
    let live = host.live();
    assert_eq!((live.graphs, live.put_aside, live.put_aside_ever), (4 + 2, 0, 1), "but right after it");
    assert!(rig.mix.stats().failures.is_empty());
    assert_eq!(rig.run(8), rig.inputs.want(8));
}

#[test]
fn corrupting_one_recorded_operation_makes_the_comparison_fail() {
    let host = Host::new();
    host.corrupt_operation("sum", 0);
    let mut rig = Rig::scripted(host, Arc::default(), |b| b).unwrap();
    assert!(rig.mix.stats().failures.is_empty(), "it is still listed");
    assert_ne!(rig.run(8), rig.inputs.want(8), "the first graph that has it is the largest bucket's");
    assert_eq!(rig.run(4), rig.inputs.want(4), "and no other");
}

/// Invariant 13 as far as this backend goes: every call of a build and a few runs fails once.
#[test]
fn whatever_single_call_fails_nothing_leaks_and_nothing_wrong_is_returned() {
    let (mut refused, mut dropped, mut at) = (0, 0, 0);
    loop {
        let host = Host::new();
        host.fail_after(at, codes::OUT_OF_MEMORY);
        match Rig::scripted(host.clone(), Arc::default(), |b| b) {
            Err(_) => refused += 1,
            Ok(mut rig) => {
                let all = rig.engine.stats();
                dropped += all.iter().map(|s| s.failures.len()).sum::<usize>();
                let stream = rig.stream();
                for n in [3, 8, 9] {
                    let mut run = || rig.inputs.run(&mut rig.mix, n).and_then(|o| y(o.into_out(), &stream));
                    let got = run().or_else(|_| run()).expect("the next call works");
                    assert_eq!(got, rig.inputs.want(n), "call {at}");
                }
            }
        }
        assert_eq!(host.live(), Default::default(), "call {at}");
        if host.disarm() == 1 {
            break;
        }
        at += 1;
    }
    assert!(at > 150 && refused > 10 && dropped > 100, "{at} calls: {refused} refused, {dropped} dropped");
}

#[test]
fn a_configuration_for_a_name_of_another_kind() {
    let with = |change: fn(EngineBuilder<'static, Host>) -> EngineBuilder<'static, Host>| {
        Rig::scripted(Host::new(), Arc::default(), change).err().unwrap().to_string()
    };
    let walk = with(|b| b.region_config("toy.decode", PiecewiseBatchedConfig::new(1)));
    assert_eq!(walk, "region_config: there is no region `toy.decode`; known: toy.mix");
    let region =
        with(|b| b.forward_config("toy.mix", BatchedCudaGraphConfig::new("decode", NodeInputs::new(1))));
    assert_eq!(region, "forward_config: there is no captured walk `toy.mix`; known: toy.decode");
}

/// What `main` and `unwrap` print is the message.
#[test]
fn an_error_prints_its_message_either_way() {
    let error: Error = ErrorKind::EmptyBatch { owner: "toy.mix".into() }.into();
    assert_eq!(format!("{error:?}"), error.to_string());
    assert!(format!("{:?}", error.kind()).starts_with("EmptyBatch"));
}

#[test]
fn pitfall_08_a_buffer_that_graphs_record_does_not_grow() {
    let host = Host::new();
    let mut buffers = GraphBuffers::<Host>::new("toy");
    buffers.claim::<f32>("partials", 8).unwrap();
    buffers.allocate(&host, 1).unwrap();
    buffers.claim::<f32>("partials", 8).unwrap();
    let error = buffers.claim::<f32>("partials", 9).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ClaimsClosed { name: "partials", .. }), "{error}");
    assert!(buffers.get::<f32, 1>("partials", 0, [9]).is_err());
}

#[test]
fn pitfall_26_a_budget_is_compared_before_anything_is_allocated_or_captured() {
    let needs = Rig::new(CaptureOptions::default()).engine.ledger().clone();
    let with = |memory_budget| {
        let host = Host::new();
        let mut captured = 0;
        let options = CaptureOptions { memory_budget: Some(memory_budget), ..CaptureOptions::default() };
        let rig = Rig::scripted(host.clone(), Arc::default(), |b| {
            b.capture_options(options).progress(|p| captured += usize::from(p.failure.is_none()))
        });
        (rig.map(|rig| rig.engine.ledger().clone()), host.live(), captured)
    };
    let (enough, _, captured) = with(needs.total());
    assert_eq!((enough.unwrap(), captured), (needs.clone(), 6));

    // Scratch memory is known when the warm-up has measured it: the largest bucket of the region does without.
    let (tight, _, captured) = with(needs.total() - 1);
    assert_eq!(
        (tight.unwrap().scratch, captured),
        (0, 2),
        "the region has scratch, the whole forward has none"
    );

    let (refused, live, captured) = with(needs.total() - needs.scratch - 1);
    let refused = refused.unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::OverBudget { .. }), "{refused}");
    assert_eq!((live, captured), (Default::default(), 0));
    assert_eq!(
        refused.to_string(),
        format!(
            "{0} bytes on the device are needed and the budget is {1}: static buffers of toy {2}, blocks of host-side \
             inputs {3}, scratch 0, resources 0 (bytes); capture smaller buckets or fewer slots, or give resources less",
            needs.total() - needs.scratch,
            needs.total() - needs.scratch - 1,
            needs.arena["toy"],
            needs.blocks
        )
    );
}

#[test]
fn pitfall_27_ten_thousand_sizes_make_no_graph() {
    let mut rig = Rig::new(CaptureOptions::default());
    let live = rig.host.live();
    for bs in 9..10_009_usize {
        let miss = rig.mix.bucket_for(Dims { bs, tokens: bs }).unwrap_err();
        assert!(matches!(miss, Miss::TooManyRequests { largest: 8, .. }));
    }
    for _ in 0..100 {
        rig.run(10);
    }
    assert_eq!(rig.host.live(), live);
}
