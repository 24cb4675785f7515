//! The order of a capture, what it changes, and what a failure in it costs.

use std::{
    cell::RefCell,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use graph_core::{
    CallInputs, CaptureOptions, Cx, Dims, Elem, ErrorKind, IoSchema, Mode, NamedArgs, Pad, Result, Schema,
    Shape, Source, Statics, Tensor,
};

use crate::{
    Bench, SuiteOps,
    toys::{ByHand, Rig, Script, Toys, one_region},
};

pub(crate) fn invariant_15_largest_first_region_before_whole_the_same_every_time<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let order = || -> Result<Vec<_>> {
        let order = RefCell::new(Vec::new());
        Rig::on(bench.device()?, Script::default(), |b| {
            b.progress(|p| {
                assert!(p.failure.is_none(), "{:?}", p.failure);
                order.borrow_mut().push((p.owner.to_string(), p.dims, p.done, p.total));
            })
        })?;
        Ok(order.into_inner())
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
    assert_eq!(order()?, want);
    assert_eq!(order()?, want);
    Ok(())
}

static COUNT: Schema = Schema::new(
    "pages",
    "count",
    "batch_sizes = [4]",
    &[IoSchema::host("page", Elem::I32, 1, "[bs]").pad(Pad::i32(0))],
    &[IoSchema::device("now", Elem::I32, 1, "[bs]")],
);

/// A region that counts its rows in pages, of which page 0 is for padding, and the counts.
fn counting<B: SuiteOps>(bench: &Bench<B>, options: CaptureOptions) -> Result<(Toys<B>, Tensor<B, i32, 1>)> {
    let device = bench.device()?;
    let stream = device.stream()?;
    let counts = Tensor::<B, i32, 1>::zeros(&device, &stream, [5])?;
    B::synchronize(&stream)?;
    let statics = |shape: &Shape, s: &mut Statics| {
        s.input("page", [shape.bs]).output("now", [shape.bs]);
    };
    let kept = counts.clone();
    let forward = move |cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>| {
        B::count(cx.stream(), call.inputs.get("page")?, kept.view_mut(), call.outputs.get("now")?)
    };
    Ok((one_region(device, &COUNT, &[4], options, statics, forward)?, counts))
}

fn count<B: SuiteOps>(runner: &mut ByHand<B>, rows: &[i32]) -> Result<()> {
    let outcome = runner.run(NamedArgs(&[("page", Source::slice(rows))]), &[1; 4][..rows.len()])?;
    assert_eq!(outcome.reason(), None);
    Ok(())
}

pub(crate) fn nothing_runs_during_a_capture<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    for warm_ups in [1, 3] {
        let options = CaptureOptions { warm_ups, ..CaptureOptions::default() };
        let (toys, counts) = counting(bench, options)?;
        let counted = counts.to_vec(toys.engine.stream())?;
        assert_eq!(counted, [4 * warm_ups as i32, 0, 0, 0, 0], "the warm-ups' padding, and nothing else");
    }
    Ok(())
}

pub(crate) fn pitfalls_07_and_15_padding_touches_no_live_page_and_captures_change_no_state<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let (mut toys, counts) = counting(bench, CaptureOptions::default())?;
    let stream = toys.engine.stream().clone();
    assert_eq!(counts.to_vec(&stream)?[1..], [0; 4], "two warm-ups and a capture");
    count(&mut toys.runner, &[1, 2, 3])?;
    count(&mut toys.runner, &[1])?;
    assert_eq!(counts.to_vec(&stream)?[1..], [2, 1, 1, 0], "2 and 3 are left alone");
    Ok(())
}

pub(crate) fn a_graph_is_head_body_tail<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let rig = Rig::new(bench, CaptureOptions::default())?;
    // upload_block; pad_rows of x, m and z; add_up, spread; signal
    assert!(rig.mix.stats().buckets.iter().all(|b| b.operations == 7), "{:?}", rig.mix.stats().buckets);
    assert_eq!(rig.failures(), [""; 0]);
    Ok(())
}

pub(crate) fn invariant_03_a_graph_keeps_the_memory_that_it_recorded<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let device = bench.device()?;
    let stream = device.stream()?;
    let total = Tensor::<B, f32, 1>::zeros(&device, &stream, [2])?;
    let graph = {
        let x = Tensor::<B, f32, 1>::from_slice(&device, &stream, &[2.0, 3.0], [2])?;
        B::begin_capture(&stream)?;
        let recorded = total.view_mut().copy_from(&stream, x.view());
        let captured = B::end_capture(&stream);
        recorded?;
        device.instantiate(captured?)?
    };
    // Whoever gets memory now does not get what the graph reads.
    let others = (0..64).map(|_| Tensor::<B, f32, 1>::from_slice(&device, &stream, &[9.0; 2], [2]));
    let others = others.collect::<Result<Vec<_>>>()?;
    B::launch(&graph, &stream)?;
    assert_eq!(total.to_vec(&stream)?, [2.0, 3.0]);
    drop((graph, others));
    Ok(())
}

pub(crate) fn invariant_08_one_failed_capture_costs_one_bucket<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    type Wrong<B> = fn(&mut Cx<'_, B>) -> Result<()>;
    let wrong: [Wrong<B>; 3] = [
        |cx| B::synchronize(cx.stream()),
        |cx| cx.device().alloc(8).map(drop),
        // The error is swallowed: the capture is broken all the same.
        |cx| B::synchronize(cx.stream()).or(Ok(())),
    ];
    for (i, act) in wrong.into_iter().enumerate() {
        let mut rig = Rig::acting(bench, move |cx| match (cx.mode(), cx.dims().bs) {
            (Mode::Capture, 4) => act(cx),
            _ => Ok(()),
        })?;
        assert_eq!(rig.batch_sizes(), [8, 2, 1], "case {i}");
        let failures = rig.mix.stats().failures;
        let [failure] = &failures[..] else { panic!("case {i}: {} failures", failures.len()) };
        let ErrorKind::Capture { bs: 4, stage: "capture", cause, .. } = failure.kind() else {
            panic!("case {i}: {failure}")
        };
        assert!(matches!(cause.kind(), ErrorKind::Driver { .. }), "case {i}: {failure}");
        assert!(!B::is_capturing(rig.engine.stream()));
        for n in [1, 2, 3, 4, 5, 8] {
            assert_eq!(rig.inputs.run(&mut rig.mix, n)?.reason(), None, "3 and 4 fit the bucket of 8");
            assert_eq!(rig.run(n)?, rig.inputs.want(n));
        }
    }
    Ok(())
}

pub(crate) fn invariant_09_a_panic_is_an_error_of_its_bucket<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    for mode in [Mode::WarmUp, Mode::Capture] {
        let mut rig = Rig::acting(bench, move |cx| {
            assert!(!(cx.mode() == mode && cx.dims().bs == 2), "at two");
            Ok(())
        })?;
        assert_eq!(rig.batch_sizes(), [8, 4, 1]);
        let failures = rig.mix.stats().failures;
        let ErrorKind::Capture { bs: 2, cause, .. } = failures[0].kind() else { panic!("{}", failures[0]) };
        assert!(matches!(cause.kind(), ErrorKind::Panicked(text) if text == "at two"), "{cause}");
        assert!(!B::is_capturing(rig.engine.stream()));
        assert_eq!(rig.run(2)?, rig.inputs.want(2));
    }
    Ok(())
}

/// A panic that panics again when it is cleaned up.
struct Bomb;
impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("again");
    }
}

pub(crate) fn invariant_09_a_panic_whose_payload_panics_is_an_error_too<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let mut rig = Rig::acting(bench, |cx| match (cx.mode(), cx.dims().bs) {
        (Mode::Capture, 2) => std::panic::panic_any(Bomb),
        _ => Ok(()),
    })?;
    assert!(!B::is_capturing(rig.engine.stream()));
    let failures = rig.failures();
    assert!(failures.len() == 1 && failures[0].contains("the forward panicked"), "{failures:?}");
    assert_eq!(rig.run(2)?, rig.inputs.want(2));
    Ok(())
}

pub(crate) fn pitfall_21_first_use_work_happens_in_the_warm_up<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let loaded = AtomicBool::new(false);
    let mut rig = Rig::acting(bench, move |cx| match loaded.swap(true, Ordering::Relaxed) {
        true => Ok(()),
        false => cx.device().alloc(1024).map(drop), // as a module that is loaded: forbidden in a capture
    })?;
    assert_eq!(rig.failures(), [""; 0]);
    assert_eq!(rig.run(8)?, rig.inputs.want(8));
    Ok(())
}

pub(crate) fn pitfall_23_a_destructor_in_a_capture_does_not_break_it<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let kept = Mutex::new(Vec::new());
    let mut rig = Rig::acting(bench, move |cx| {
        let mut kept = kept.lock().expect("no panic");
        match cx.mode() {
            Mode::Capture => kept.clear(),
            _ => kept.push(Tensor::<B, f32, 1>::alloc(cx.device(), [64])?),
        }
        Ok(())
    })?;
    assert_eq!(rig.failures(), [""; 0]);
    assert_eq!(rig.run(8)?, rig.inputs.want(8));
    Ok(())
}

pub(crate) fn invariant_14_a_graph_dropped_inside_a_forward_does_not_break_its_capture<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let device = bench.device()?;
    let stream = device.stream()?;
    let buffer = device.alloc(64)?;
    B::begin_capture(&stream)?;
    let recorded = B::zero(&stream, &buffer, 0, 64);
    let captured = B::end_capture(&stream);
    recorded?;
    let old = Mutex::new(Some((device.instantiate(captured?)?, buffer)));
    let act = move |cx: &mut Cx<'_, B>| {
        if cx.mode() == Mode::Capture {
            drop(old.lock().expect("no panic").take());
        }
        Ok(())
    };
    let script = Script { act: Some(Arc::new(act)), ..Script::default() };
    let mut rig = Rig::on(device, script, |b| b)?;
    assert_eq!(rig.failures(), [""; 0]);
    assert_eq!(rig.run(8)?, rig.inputs.want(8));
    Ok(())
}

pub(crate) fn pitfall_26_the_ledger_has_the_largest_bucket_once<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let one = Rig::new(bench, CaptureOptions::default())?;
    let two = Rig::new(bench, CaptureOptions { slots: Some(2), ..CaptureOptions::default() })?;
    let (one, two) = (one.engine.ledger(), two.engine.ledger());
    assert_eq!(two.arena["toy"], 2 * one.arena["toy"]);
    // x, m, z and y of the region and `y` of the whole forward, each in 256 bytes: four buckets take no more.
    assert_eq!(one.arena["toy"], 5 * 256);
    assert!(one.total() >= one.arena["toy"] + one.blocks + one.scratch);
    Ok(())
}
