//! graph-core on this backend, from registration to replay; tests carry the numbers of the invariants.

mod calls;
mod common;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, atomic::Ordering},
};

use common::{Inputs, Rig, Script, Seen, y};
use graph_core::{
    Backend, CaptureOptions, Cx, Dims, ErrorKind, Miss, Mode, NodeCall, Result, Source, WholeOutcome,
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
fn replays_and_eager_calls_give_the_numbers_of_a_plain_loop() {
    let mut rig = Rig::new(CaptureOptions::default());
    assert_eq!(batch_sizes(&rig), [8, 4, 2, 1]);
    for n in [8, 1, 3, 7, 2, 5, 4, 6] {
        assert_eq!(rig.inputs.run(&mut rig.mix, n).unwrap().reason(), None);
        assert_eq!(rig.run(n), rig.inputs.want(n), "{n} requests");
    }
    rig.mix.set_eager(true);
    assert_eq!(rig.run(3), rig.inputs.want(3));
    assert_eq!(rig.mix.stats().eager, [("forced", 1)]);
}

#[test]
fn a_graph_is_head_body_tail() {
    let rig = Rig::new(CaptureOptions::default());
    // upload_block; pad_rows of x, m and z; sum, mix; signal
    assert!(rig.mix.stats().buckets.iter().all(|b| b.operations == 7));
    assert!(rig.mix.stats().failures.is_empty());
}

#[test]
fn invariant_01_padded_rows_hold_exactly_the_pad() {
    let mut rig = Rig::new(CaptureOptions::default());
    rig.script.look.store(true, Ordering::Relaxed);
    for (real, bucket) in [(8, 8), (3, 4), (5, 8), (1, 1), (6, 8), (3, 4), (2, 2), (7, 8)] {
        rig.run(real);
        let Inputs { ids, rope, scale, .. } = &rig.inputs;
        let pad = bucket - real;
        let padded = |mut real: Vec<f32>, pad: usize, value: f32| {
            real.extend(vec![value; pad]);
            real
        };
        let want = Seen {
            ids: [&ids[..real], &vec![ids[real - 1]; pad]].concat(),
            rope: rope[..3 * real].chunks(real).flat_map(|run| [run, &vec![-1; pad]].concat()).collect(),
            scale: padded(scale[..real].to_vec(), pad, 0.0),
            x: padded((0..2 * real).map(|i| 10.0 + i as f32).collect(), 2 * pad, 0.5),
            m: [(0..real as i32).map(|i| 1000 * i).collect(), vec![1000 * (real as i32 - 1); pad]].concat(),
            z: padded((0..real).map(|i| 0.25 + i as f32).collect(), pad, 0.0),
        };
        assert_eq!(*rig.script.seen.lock().unwrap(), want, "{real} real rows in {bucket}");
    }
}

#[test]
fn invariant_04_a_held_output_is_written_by_nobody() {
    let mut rig = Rig::new(CaptureOptions { slots: Some(2), ..CaptureOptions::default() });
    let stream = rig.stream();
    let held = rig.inputs.run(&mut rig.mix, 4).unwrap().hold();
    for _ in 0..2 {
        let again = rig.inputs.run(&mut rig.mix, 3).err().unwrap();
        assert!(matches!(again.kind(), ErrorKind::OutputHeld { output: "y", slot: 0, .. }), "{again}");
    }
    rig.mix.set_slot(1);
    assert_eq!(rig.run(8), rig.inputs.want(8), "the other slot is free");
    assert_eq!(y(held.into_out(), &stream).unwrap(), rig.inputs.want(4), "what is held is what it was");
    rig.mix.set_slot(0);
    assert_eq!(rig.run(3), rig.inputs.want(3), "dropped, it is free again");
}

#[test]
fn invariant_08_one_failed_capture_costs_one_bucket() {
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
        for n in [1, 2, 3, 4, 5, 8] {
            assert_eq!(
                rig.inputs.run(&mut rig.mix, n).unwrap().reason(),
                None,
                "3 and 4 fit the bucket of 8"
            );
            assert_eq!(rig.run(n), rig.inputs.want(n));
        }
        let host = rig.host.clone();
        drop(rig);
        assert_eq!(host.live(), Default::default(), "everything is returned");
    }
}

#[test]
fn invariant_09_a_panic_is_an_error_of_its_bucket() {
    for mode in [Mode::WarmUp, Mode::Capture] {
        let mut rig = scripted(move |cx| {
            assert!(!(cx.mode() == mode && cx.dims().bs == 2), "at two");
            Ok(())
        });
        assert_eq!(batch_sizes(&rig), [8, 4, 1]);
        let failures = rig.mix.stats().failures;
        let ErrorKind::Capture { bs: 2, cause, .. } = failures[0].kind() else { panic!("{}", failures[0]) };
        assert!(matches!(cause.kind(), ErrorKind::Panicked(text) if text == "at two"), "{cause}");
        assert!(!Host::is_capturing(&rig.stream()));
        assert_eq!(rig.run(2), rig.inputs.want(2));
    }
}

#[test]
fn invariant_09_a_panic_in_a_replayed_kernel_is_an_error_of_that_run() {
    let mut rig = Rig::new(CaptureOptions::default());
    rig.script.panic_at.store(3, Ordering::Relaxed);
    let ran = catch_unwind(AssertUnwindSafe(|| rig.inputs.run(&mut rig.mix, 4).map(drop)));
    let error = ran.expect("no panic leaves the backend").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Panicked(text) if text == "in `sum`: met id 3"), "{error}");
    assert_eq!(rig.run(2), rig.inputs.want(2), "no id 3 here");
    rig.script.panic_at.store(0, Ordering::Relaxed);
    assert_eq!(rig.run(4), rig.inputs.want(4));
}

#[test]
fn invariant_10_no_fit_is_a_typed_reason_and_counted() {
    let mut rig = Rig::new(CaptureOptions::default());
    let graphs = rig.host.live().graphs;
    let reason = rig.inputs.run(&mut rig.mix, 9).unwrap().reason();
    assert_eq!(reason, Some(Miss::TooManyRequests { bs: 9, largest: 8 }));
    assert_eq!(rig.run(9), rig.inputs.want(9), "eager");
    assert_eq!(rig.mix.stats().eager, [("too_many_requests", 2)]);
    assert_eq!(rig.host.live().graphs, graphs, "a request captures nothing (invariant 15)");

    let mut strict = Rig::new(CaptureOptions { strict: true, ..CaptureOptions::default() });
    let error = strict.inputs.run(&mut strict.mix, 9).err().unwrap();
    let miss = Miss::TooManyRequests { bs: 9, largest: 8 };
    assert!(matches!(error.kind(), ErrorKind::Strict { owner, miss: m } if owner == "toy.mix" && *m == miss));
    assert_eq!(strict.run(8), strict.inputs.want(8));
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
fn invariant_15_largest_first_region_before_whole_the_same_every_time() {
    let order = || {
        let mut order = Vec::new();
        let (host, script) = (Host::new(), Arc::default());
        let rig = Rig::scripted(host, script, |b| {
            b.progress(|p| {
                assert!(p.failure.is_none());
                order.push((p.owner.to_string(), p.dims, p.done, p.total));
            })
        });
        drop(rig.unwrap());
        order
    };
    let entry = |(i, (owner, bs)): (usize, (&str, usize))| (owner.into(), Dims { bs, tokens: bs }, i + 1, 6);
    let all = [
        ("toy.mix", 8),
        ("toy.mix", 4),
        ("toy.mix", 2),
        ("toy.mix", 1),
        ("toy.decode", 4),
        ("toy.decode", 2),
    ];
    let want: Vec<_> = all.into_iter().enumerate().map(entry).collect();
    assert_eq!(order(), want);
    assert_eq!(order(), want);
}

#[test]
fn a_whole_forward_replays_and_falls_back() {
    let mut rig = Rig::new(CaptureOptions::default());
    let stream = rig.stream();
    let node = rig.engine.node("toy").unwrap();
    let ids = [3, 4, 5, 6, 7];
    for (n, eager) in [(2, false), (3, false), (1, false), (5, true)] {
        let slice = &ids[..n];
        let inputs = [("ids", Source::host(&slice))];
        let call = NodeCall { requests: &[], seq_lens: &[1; 5][..n], inputs: &inputs, slot: 0 };
        let outcome = node.run("decode", &call).unwrap();
        assert_eq!(matches!(outcome, WholeOutcome::Eager { .. }), eager);
        let got = outcome.into_out().take::<i32, 1>("square").unwrap().to_vec(&stream).unwrap();
        assert_eq!(got, ids[..n].iter().map(|i| i * i).collect::<Vec<_>>());
    }
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
