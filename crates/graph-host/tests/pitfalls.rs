//! The faults that users of CUDA graphs report again and again, by their number in the design: what keeps each from
//! happening here, with kernels that compute real numbers.

mod common;

use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use common::{Rig, Script};
use graph_core::{
    Backend, CallInputs, CaptureOptions, Cx, Elem, Engine, ErrorKind, GraphBuffers, HandWritten,
    HandWrittenTable, IoSchema, Location, Miss, Mode, NamedArgs, On, Pad, PiecewiseBatchedConfig,
    RegionEntry, Registry, Result, Runner, Schema, Shape, Source, Statics, Tensor,
};
use graph_host::Host;

fn scripted(act: impl Fn(&mut Cx<'_, Host>) -> Result<()> + Send + Sync + 'static) -> Rig {
    let script = Script { act: Mutex::new(Some(Arc::new(act))), ..Script::default() };
    Rig::scripted(Host::new(), Arc::new(script), |b| b).unwrap()
}

/// The failures of a region whose forward does something wrong while it is captured: one per bucket, as text.
fn failures(act: impl Fn(&mut Cx<'_, Host>) -> Result<()> + Send + Sync + 'static) -> Vec<String> {
    let mut rig = scripted(act);
    let failures = rig.mix.stats().failures.iter().map(|f| f.to_string()).collect::<Vec<_>>();
    assert_eq!(failures.len(), 4, "no bucket is there: {failures:?}");
    assert_eq!(rig.inputs.run(&mut rig.mix, 3).unwrap().reason(), Some(Miss::CaptureFailed { buckets: 4 }));
    assert_eq!(rig.run(3), rig.inputs.want(3), "eager");
    failures
}

#[test]
fn pitfall_01_rows_of_an_earlier_larger_batch_do_not_stay_in_the_tail() {
    let mut rig = Rig::new(CaptureOptions::default());
    rig.script.look.store(true, Ordering::Relaxed);
    rig.run(8);
    rig.run(5);
    let seen = rig.script.seen.lock().unwrap().clone();
    assert_eq!(seen.ids, [1, 2, 3, 4, 5, 5, 5, 5], "repeat_last");
    assert_eq!(seen.scale[5..], [0.0; 3], "zero");
    assert_eq!(seen.x[10..], [0.5; 6], "a value");
}

/// Pages that a region counts its rows in: page 0 is for padding.
struct Pages(Tensor<Host, i32, 1>);

static COUNT: Schema = Schema::new(
    "pages",
    "count",
    "batch_sizes = [4]",
    &[IoSchema::host("page", Elem::I32, 1, "[bs]").pad(Pad::i32(0))],
    &[IoSchema::device("now", Elem::I32, 1, "[bs]")],
);
static COUNTS: HandWrittenTable<Host> = HandWrittenTable(|_| {
    let config = PiecewiseBatchedConfig::new(1).capture_batch_sizes([4]);
    let statics = |shape: &Shape, s: &mut Statics| {
        s.input("page", [shape.bs]).output("now", [shape.bs]);
    };
    Ok(vec![HandWritten::new(
        &COUNT,
        config,
        statics,
        |cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>| {
            let page = call.inputs.get::<i32, 1>("page")?;
            let writes = (cx.resource::<Pages>()?.0.view_mut(), call.outputs.get::<i32, 1>("now")?);
            cx.stream().kernel("count", (page,), writes, |(page,), (pages, now)| {
                for (now, page) in now.iter_mut().zip(page) {
                    pages[*page as usize] += 1;
                    *now = pages[*page as usize];
                }
            })
        },
    )])
});

#[test]
fn pitfalls_07_and_15_padding_touches_no_live_page_and_captures_change_no_state() {
    static ON: [On; 1] = [On::hand_written(&COUNTS)];
    static AT: Location = Location { krate: "pages", file: "pages.rs", line: 1 };
    static ENTRY: RegionEntry = RegionEntry { schema: &COUNT, at: AT, on: &ON };
    let host = Host::new();
    let stream = host.stream().unwrap();
    let pages = Tensor::<Host, i32, 1>::zeros(&host, &stream, [5]).unwrap();
    let registry = Registry::from_entries(vec![&ENTRY], vec![], vec![]).unwrap();
    let mut engine = Engine::builder(host).resource(Pages(pages.clone())).build(&registry).unwrap();
    let mut count = engine.runners().take_named::<HandWritten<Host>>("pages.count").unwrap().remove(0);
    assert_eq!(pages.to_vec(&stream).unwrap()[1..], [0; 4], "two warm-ups and a capture");
    let run = |count: &mut Runner<HandWritten<Host>>, rows: &[i32]| {
        let outcome = count.run(NamedArgs(&[("page", Source::slice(rows))]), &[1; 4][..rows.len()]).unwrap();
        assert_eq!(outcome.reason(), None);
    };
    run(&mut count, &[1, 2, 3]);
    run(&mut count, &[1]);
    assert_eq!(pages.to_vec(&stream).unwrap()[1..], [2, 1, 1, 0], "2 and 3 are left alone");
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
fn pitfall_10_a_held_output_is_not_overwritten_by_the_next_replay() {
    let mut rig = Rig::new(CaptureOptions { slots: Some(2), ..CaptureOptions::default() });
    let stream = rig.stream();
    let held = rig.inputs.run(&mut rig.mix, 2).unwrap().hold().into_out().take::<f32, 2>("y").unwrap();
    let error = rig.inputs.run(&mut rig.mix, 4).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::OutputHeld { output: "y", .. }), "{error}");
    rig.mix.set_slot(1);
    assert_eq!(rig.run(4), rig.inputs.want(4));
    assert_eq!(held.to_vec(&stream).unwrap(), rig.inputs.want(2));
}

#[test]
fn pitfall_17_a_launch_on_another_stream_is_found_at_capture() {
    let side = OnceLock::new();
    let failures = failures(move |cx| {
        let side = side.get_or_init(|| cx.device().stream().unwrap());
        side.callback("elsewhere", || {})
    });
    assert!(failures[0].contains("toy.mix"), "{}", failures[0]);
    assert!(failures[0].contains("issued 3 operation(s), the graph recorded 2"), "{}", failures[0]);
}

#[test]
fn pitfall_19_work_of_another_thread_does_not_break_the_capture() {
    let mut rig = scripted(|cx| {
        if cx.mode() == Mode::Capture {
            let device = cx.device().clone();
            let other = std::thread::spawn(move || {
                let (stream, buffer) = (device.stream()?, device.alloc(64)?);
                Host::zero(&stream, &buffer, 0, 64)?;
                Host::synchronize(&stream)
            });
            other.join().expect("no panic")?;
        }
        Ok(())
    });
    assert!(rig.mix.stats().failures.is_empty(), "{}", rig.mix.stats().failures[0]);
    assert_eq!(rig.run(4), rig.inputs.want(4));
}

#[test]
fn pitfall_20_what_a_region_may_not_do_is_named_with_the_region() {
    type Act = fn(&mut Cx<'_, Host>) -> Result<()>;
    let forbidden: [(&str, Act); 3] = [
        ("synchronize", |cx| Host::synchronize(cx.stream())),
        ("alloc", |cx| cx.device().alloc(8).map(drop)),
        ("download", |cx| {
            let scratch = cx.scratch::<u8, 1>([4])?;
            scratch.to_vec(cx.stream()).map(drop)
        }),
    ];
    for (name, act) in forbidden {
        let failures = failures(move |cx| if cx.mode() == Mode::Capture { act(cx) } else { Ok(()) });
        assert!(failures[0].contains("toy.mix") && failures[0].contains(name), "{}", failures[0]);
    }
}

#[test]
fn pitfall_21_first_use_work_happens_in_the_warm_up() {
    let loaded = AtomicBool::new(false);
    let mut rig = scripted(move |cx| match loaded.swap(true, Ordering::Relaxed) {
        true => Ok(()),
        false => cx.device().alloc(1024).map(drop), // as a module that is loaded: forbidden in a capture
    });
    assert!(rig.mix.stats().failures.is_empty(), "{}", rig.mix.stats().failures[0]);
    assert_eq!(rig.run(8), rig.inputs.want(8));
}

#[test]
fn pitfall_23_a_destructor_in_a_capture_does_not_break_it() {
    let kept = Mutex::new(Vec::new());
    let mut rig = scripted(move |cx| {
        let mut kept = kept.lock().unwrap();
        match cx.mode() {
            Mode::Capture => kept.clear(),
            _ => kept.push(Tensor::<Host, f32, 1>::alloc(cx.device(), [64])?),
        }
        Ok(())
    });
    assert!(rig.mix.stats().failures.is_empty(), "{}", rig.mix.stats().failures[0]);
    assert!(rig.host.live().put_aside_ever > 0 && rig.host.live().put_aside == 0);
    assert_eq!(rig.run(8), rig.inputs.want(8));
}

#[test]
fn pitfall_26_the_ledger_has_the_largest_bucket_once() {
    let one = Rig::new(CaptureOptions::default());
    let two = Rig::new(CaptureOptions { slots: Some(2), ..CaptureOptions::default() });
    let (one, two) = (one.engine.ledger().clone(), two.engine.ledger().clone());
    assert_eq!(two.arena["toy"], 2 * one.arena["toy"]);
    // x, m, z and y of the region and `square` of the whole forward, each in 256 bytes: four buckets take no more.
    assert_eq!(one.arena["toy"], 5 * 256);
    assert!(one.total() >= one.arena["toy"] + one.blocks + one.scratch);
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
        let miss = rig.mix.bucket_for(graph_core::Dims { bs, tokens: bs }).unwrap_err();
        assert!(matches!(miss, Miss::TooManyRequests { largest: 8, .. }));
    }
    for _ in 0..100 {
        rig.run(10);
    }
    assert_eq!(rig.host.live(), live);
}

#[test]
fn pitfall_29_a_missing_bucket_is_told_counted_and_refused_in_strict_mode() {
    let mut rig = Rig::new(CaptureOptions::default());
    let want = Miss::TooManyRequests { bs: 9, largest: 8 };
    assert_eq!(rig.inputs.run(&mut rig.mix, 9).unwrap().reason(), Some(want));
    assert_eq!(rig.mix.stats().eager, [("too_many_requests", 1)]);
    let mut strict = Rig::new(CaptureOptions { strict: true, ..CaptureOptions::default() });
    let error = strict.inputs.run(&mut strict.mix, 9).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::Strict { miss, .. } if *miss == want), "{error}");
}
