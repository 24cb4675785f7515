//! What a forward must not do while it is captured, and what it may.

use std::sync::OnceLock;

use graph_core::{Cx, Miss, Mode, Result};

use crate::{Bench, SuiteOps, toys::Rig};

/// The failures of a region whose forward does something wrong while it is captured: one per bucket, as text.
fn failures<B: SuiteOps>(
    bench: &Bench<B>,
    act: impl Fn(&mut Cx<'_, B>) -> Result<()> + Send + Sync + 'static,
) -> Result<Vec<String>> {
    let mut rig = Rig::acting(bench, act)?;
    let failures = rig.failures();
    assert_eq!(failures.len(), 4, "no bucket is there: {failures:?}");
    assert_eq!(rig.inputs.run(&mut rig.mix, 3)?.reason(), Some(Miss::CaptureFailed { buckets: 4 }));
    assert_eq!(rig.run(3)?, rig.inputs.want(3), "eager");
    Ok(failures)
}

pub(crate) fn pitfall_17_a_launch_on_another_stream_is_found_at_capture<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let side = OnceLock::new();
    let failures = failures(bench, move |cx| {
        if side.get().is_none() {
            let _ = side.set((cx.device().stream()?, cx.device().alloc(4)?));
        }
        let (stream, buffer) = side.get().expect("set in the first warm-up");
        B::zero(stream, buffer, 0, 4)
    })?;
    assert!(failures[0].contains("toy.mix"), "{}", failures[0]);
    assert!(failures[0].contains("issued 3 operation(s), the graph recorded 2"), "{}", failures[0]);
    Ok(())
}

pub(crate) fn pitfall_19_work_of_another_thread_does_not_break_the_capture<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let mut rig = Rig::acting(bench, |cx| {
        if cx.mode() == Mode::Capture {
            let device = cx.device().clone();
            let other = std::thread::spawn(move || {
                let (stream, buffer) = (device.stream()?, device.alloc(64)?);
                B::zero(&stream, &buffer, 0, 64)?;
                B::synchronize(&stream)
            });
            other.join().expect("no panic")?;
        }
        Ok(())
    })?;
    assert_eq!(rig.failures(), [""; 0]);
    assert_eq!(rig.run(4)?, rig.inputs.want(4));
    Ok(())
}

pub(crate) fn pitfall_20_what_a_region_may_not_do_is_named_with_the_region<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    type Act<B> = fn(&mut Cx<'_, B>) -> Result<()>;
    let forbidden: [(&str, Act<B>); 4] = [
        ("synchronize", |cx| B::synchronize(cx.stream())),
        ("alloc", |cx| cx.device().alloc(8).map(drop)),
        ("download", |cx| {
            let scratch = cx.scratch::<u8, 1>([4])?;
            scratch.to_vec(cx.stream()).map(drop)
        }),
        ("upload", |cx| {
            let scratch = cx.scratch::<u8, 1>([4])?;
            B::upload(cx.stream(), &[1; 4], scratch.view().buffer(), scratch.view().offset())
        }),
    ];
    for (name, act) in forbidden {
        let failures = failures(bench, move |cx| match cx.mode() {
            Mode::Capture => act(cx),
            // Scratch memory is measured in the warm-up.
            _ => cx.scratch::<u8, 1>([4]).map(drop),
        })?;
        assert!(failures[0].contains("toy.mix") && failures[0].contains(name), "{}", failures[0]);
    }
    Ok(())
}
