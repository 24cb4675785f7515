//! Invariant 4: what somebody holds is written by nobody.

use graph_core::{CaptureOptions, Dims, ErrorKind, NamedArgs, Result, Shape, Source, StepContext, Tensor};

use super::refused;
use crate::{
    Bench, SuiteOps,
    toys::{Rig, chain, layers, run_layer},
};

fn slots(n: usize) -> CaptureOptions {
    CaptureOptions { slots: Some(n), ..CaptureOptions::default() }
}

fn output_held(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::OutputHeld { output: "y" | "h", slot: 0, .. })
}

pub(crate) fn invariant_04_a_held_output_is_written_by_nobody<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let mut rig = Rig::new(bench, slots(2))?;
    let stream = rig.stream();
    let held = rig.inputs.run(&mut rig.mix, 4)?.hold();
    for _ in 0..2 {
        let text = refused(rig.inputs.run(&mut rig.mix, 3), output_held);
        assert!(text.contains("toy.mix") && text.contains("`y`"), "{text}");
    }
    rig.mix.set_slot(1);
    assert_eq!(rig.run(8)?, rig.inputs.want(8), "the other slot is free");
    let y = held.into_out().take::<f32, 2>("y")?;
    assert_eq!(y.to_vec(&stream)?, rig.inputs.want(4), "what is held is what it was");
    drop(y);
    rig.mix.set_slot(0);
    assert_eq!(rig.run(3)?, rig.inputs.want(3), "dropped, it is free again");
    Ok(())
}

pub(crate) fn pitfall_10_a_held_output_is_not_overwritten_by_the_next_replay<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let mut rig = Rig::new(bench, slots(2))?;
    let stream = rig.stream();
    let held = rig.inputs.run(&mut rig.mix, 2)?.hold().into_out().take::<f32, 2>("y")?;
    refused(rig.inputs.run(&mut rig.mix, 4), output_held);
    rig.mix.set_slot(1);
    assert_eq!(rig.run(4)?, rig.inputs.want(4));
    assert_eq!(held.to_vec(&stream)?, rig.inputs.want(2));
    Ok(())
}

pub(crate) fn results_that_are_dropped_untaken_are_free<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let mut rig = Rig::new(bench, slots(1))?;
    drop(rig.inputs.run(&mut rig.mix, 4)?.hold());
    for _ in 0..3 {
        drop(rig.inputs.run(&mut rig.mix, 4)?);
        // An eager call has memory of its own, whatever is held.
        let held = rig.inputs.run(&mut rig.mix, 2)?.hold();
        rig.mix.set_eager(true);
        assert_eq!(rig.run(4)?, rig.inputs.want(4));
        rig.mix.set_eager(false);
        drop(held);
    }
    Ok(())
}

pub(crate) fn a_detached_output_is_a_copy<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let mut rig = Rig::new(bench, slots(1))?;
    let (device, stream) = (rig.engine.device().clone(), rig.stream());
    let y = rig.inputs.run(&mut rig.mix, 4)?.into_out().take::<f32, 2>("y")?;
    let copy = y.detach(&device, &stream)?;
    drop(y);
    rig.inputs.ids.fill(77);
    assert_eq!(rig.run(4)?, rig.inputs.want(4), "the slot is free");
    rig.inputs.ids = (1..=10).collect();
    assert_eq!(copy.to_vec(&stream)?, rig.inputs.want(4));
    Ok(())
}

pub(crate) fn invariant_04_wires_carry_outputs_without_a_copy_and_hold_them<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let (engine, mut layers) = layers(bench)?;
    let (device, stream) = (engine.device().clone(), engine.stream().clone());
    let [first, second] = &mut layers[..] else { panic!("two layers") };
    let x = Tensor::<B, f32, 1>::from_slice(&device, &stream, &[1.0, 2.0, 3.0], [3])?;

    let middle = run_layer(first, &x, 3)?.hold();
    let last = run_layer(second, &middle, 3)?.hold();
    assert_eq!(middle.to_vec(&stream)?, [10.0, 20.0, 30.0]);
    assert_eq!(last.to_vec(&stream)?, [101.0, 201.0, 301.0]);

    refused(run_layer(first, x.view().rows(0..2)?, 2), output_held);
    drop(middle);
    // `last` lies on the wire that the first layer reads: staging `x` there would overwrite it.
    let input_held = |kind: &ErrorKind| matches!(kind, ErrorKind::InputHeld { input: "h", .. });
    refused(run_layer(first, x.view().rows(0..2)?, 2), input_held);
    assert_eq!(last.to_vec(&stream)?, [101.0, 201.0, 301.0]);
    let third = run_layer(first, &last, 3)?;
    assert_eq!(third.to_vec(&stream)?, [1010.0, 2010.0, 3010.0], "but it may be passed on");
    Ok(())
}

pub(crate) fn invariant_04_a_staged_step_holds_the_output_that_it_reads_in_place<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let (mut engine, mut region) = chain(bench, CaptureOptions::default())?;
    let stream = engine.stream().clone();
    let shape = Shape::batched(4, 1);
    let (x, other) = ([1.0_f32, 2.0, 3.0, 4.0], [9.0_f32; 4]);
    let (x, other) = ([("x", Source::slice(&x[..]))], [("x", Source::slice(&other[..]))]);

    let h = region.run(NamedArgs(&x), &[1; 4])?.hold().into_out().take::<f32, 1>("h")?;
    let (whole, steps) = engine.node("chain")?.whole_and_steps();
    let bucket = whole.walk("decode", None).and_then(|walk| whole.select_bucket(walk, 4, 4).ok());
    let lease = whole.lease_slot(bucket.expect("captured"), 0)?;
    let context = StepContext { slot: 0, rows: &[], real_bs: 4, padded: shape.dims(), captured: true };
    let step = steps.declare(|_| Ok(()))?.admit()?.plan(&context)?;
    let staged = whole.stage(lease, &shape, &[("h", Source::device(&h))], &step)?;
    drop(h);
    refused(region.run(NamedArgs(&other), &[1; 4]), output_held);
    let y = whole.replay(staged, &shape)?.take::<f32, 1>("y")?;
    assert_eq!(y.to_vec(&stream)?, [1.0, 2.0, 3.0, 4.0]);
    drop(region.run(NamedArgs(&other), &[1; 4])?);
    Ok(())
}

pub(crate) fn a_leased_slot_is_refused_by_name_and_comes_back<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let (mut engine, _) = chain(bench, CaptureOptions::default())?;
    let (whole, steps) = engine.node("chain")?.whole_and_steps();
    let bucket = whole.walk("decode", None).and_then(|walk| whole.select_bucket(walk, 4, 4).ok());
    let (bucket, shape) = (bucket.expect("captured"), Shape::batched(4, 1));
    let leased = |kind: &ErrorKind| matches!(kind, ErrorKind::SlotLeased { slot: 0, .. });
    let lease = whole.lease_slot(bucket, 0)?;
    let text = refused(whole.lease_slot(bucket, 0), leased);
    assert!(text.contains("chain"), "{text}");
    drop(lease);
    let padded = Dims { bs: 4, tokens: 4 };
    let context = StepContext { slot: 0, rows: &[], real_bs: 4, padded, captured: true };
    let step = steps.declare(|_| Ok(()))?.admit()?.plan(&context)?;
    let h = [1.0_f32; 4];
    let staged = whole.stage(whole.lease_slot(bucket, 0)?, &shape, &[("h", Source::slice(&h[..]))], &step)?;
    refused(whole.lease_slot(bucket, 0), leased);
    drop(staged);
    whole.lease_slot(bucket, 0).map(drop)
}
