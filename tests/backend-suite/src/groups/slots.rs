//! Several copies of the static buffers: the next step is prepared while one is in somebody's hands.

use graph_core::{
    CaptureOptions, Dims, ErrorKind, NodeCall, OutTensor, RequestId, Result, Shape, Source, StepContext,
};

use super::refused;
use crate::{
    Bench, SuiteOps,
    toys::{PagedToy, Rig, Toy, chain, sum_of},
};

fn two_slots() -> CaptureOptions {
    CaptureOptions { slots: Some(2), ..CaptureOptions::default() }
}

pub(crate) fn the_next_step_is_staged_while_one_is_held<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let (mut engine, _) = chain(bench, two_slots())?;
    let stream = engine.stream().clone();
    let node = engine.node("chain")?;
    assert_eq!(node.slots(), 2);
    let (whole, steps) = node.whole_and_steps();
    let bucket = whole.walk("decode", None).and_then(|walk| whole.select_bucket(walk, 4, 4).ok());
    let (bucket, padded) = (bucket.expect("captured"), Dims { bs: 4, tokens: 4 });
    let shape = Shape::batched(3, 1);
    let mut held = None;
    for n in 0..6 {
        let slot = n % 2;
        let context = StepContext { slot, rows: &[], real_bs: 3, padded, captured: true };
        let step = steps.declare(|_| Ok(()))?.admit()?.plan(&context)?;
        let h = [n as f32; 3];
        let lease = whole.lease_slot(bucket, slot)?;
        let staged = whole.stage(lease, &shape, &[("h", Source::slice(&h[..]))], &step)?;
        // Step N+1 is staged: what step N gave is as it was, and its slot is not free.
        if let Some(y) = &held {
            let y: &OutTensor<'static, B, f32, 1> = y;
            assert_eq!(y.to_vec(&stream)?, [n as f32 - 1.0; 3]);
            let output = |kind: &ErrorKind| matches!(kind, ErrorKind::OutputHeld { output: "y", .. });
            refused(whole.lease_slot(bucket, 1 - slot), output);
        }
        held = Some(whole.replay(staged, &shape)?.take::<f32, 1>("y")?.hold());
        step.commit(&[]);
    }
    Ok(())
}

pub(crate) fn each_slot_has_graphs_and_buffers_of_its_own<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let options = CaptureOptions { slots: Some(3), ..CaptureOptions::default() };
    let mut rig = Rig::new(bench, options)?;
    let stream = rig.stream();
    let mut held = Vec::new();
    for slot in 0..3 {
        rig.mix.set_slot(slot);
        held.push(rig.inputs.run(&mut rig.mix, 2 + slot)?.hold().into_out().take::<f32, 2>("y")?);
    }
    for (slot, y) in held.iter().enumerate() {
        assert_eq!(y.to_vec(&stream)?, rig.inputs.want(2 + slot), "slot {slot}");
    }
    drop(held);
    // A slot beyond the last one is the first again.
    rig.mix.set_slot(3);
    assert_eq!(rig.run(8)?, rig.inputs.want(8));
    Ok(())
}

pub(crate) fn a_node_that_plans_ahead_has_two_slots_and_steps_in_turn<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let mut toy = PagedToy::new(bench, Toy::default())?;
    assert_eq!(toy.node()?.slots(), 2, "pages, plans, positions and sampler can plan ahead");
    toy.ingest(&[1, 2])?;
    let (requests, mut streams) = ([1, 2].map(RequestId), [vec![], vec![]]);
    // No result is read, so that on a device the next step is planned and staged while graphs run.
    for i in 0..8 {
        let tokens = &[i, 3][..];
        let inputs = [("token", Source::host(&tokens))];
        let call = NodeCall { requests: &requests, seq_lens: &[1, 1], inputs: &inputs, slot: i as usize };
        drop(toy.node()?.run("decode", &call)?);
        streams.iter_mut().zip(tokens).for_each(|(stream, token)| stream.push(*token));
    }
    streams.iter_mut().for_each(|stream| stream.push(1));
    let last = toy.step("decode", 0, &[(1, &[1]), (2, &[1])])?;
    assert_eq!(last.sums, streams.map(|stream| sum_of(&stream)));
    Ok(())
}

pub(crate) fn a_step_that_was_planned_for_another_slot_is_not_staged<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let (mut engine, _) = chain(bench, two_slots())?;
    let (whole, steps) = engine.node("chain")?.whole_and_steps();
    let bucket = whole.walk("decode", None).and_then(|walk| whole.select_bucket(walk, 4, 4).ok());
    let shape = Shape::batched(4, 1);
    let context = StepContext { slot: 0, rows: &[], real_bs: 4, padded: shape.dims(), captured: true };
    let step = steps.declare(|_| Ok(()))?.admit()?.plan(&context)?;
    let h = [1.0_f32; 4];
    let lease = whole.lease_slot(bucket.expect("captured"), 1)?;
    let other = |kind: &ErrorKind| matches!(kind, ErrorKind::OtherSlot { planned: 0, leased: 1, .. });
    refused(whole.stage(lease, &shape, &[("h", Source::slice(&h[..]))], &step), other);
    Ok(())
}
