//! A replay computes what an eager call does, in the right bucket, for a fixed number of operations.

use graph_core::{
    BatchedCudaGraphConfig, CallInputs, CaptureOptions, Cx, Dims, Elem, Engine, ErrorKind, HostTensor,
    IoSchema, Miss, NamedArgs, NodeCall, NodeInputs, PiecewisePackedConfig, Result, Schema, Shape, Source,
    Statics, StepContext,
};

use super::refused;
use crate::{
    Bench, SuiteOps, ThreeInputs,
    toys::{Rig, Script, chain, columns, packed_region},
};

pub(crate) fn replays_and_eager_calls_give_the_numbers_of_a_plain_loop<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let mut rig = Rig::new(bench, CaptureOptions::default())?;
    assert_eq!(rig.batch_sizes(), [8, 4, 2, 1]);
    for n in [8, 1, 3, 7, 2, 5, 4, 6] {
        assert_eq!(rig.inputs.run(&mut rig.mix, n)?.reason(), None);
        assert_eq!(rig.run(n)?, rig.inputs.want(n), "{n} requests");
    }
    rig.mix.set_eager(true);
    assert_eq!(rig.run(3)?, rig.inputs.want(3));
    assert_eq!(rig.mix.stats().eager, [("forced", 1)]);
    Ok(())
}

pub(crate) fn a_replay_equals_eager_to_the_bit_for_every_real_size_of_every_bucket<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let mut rig = Rig::new(bench, CaptureOptions::default())?;
    let bits = |y: Vec<f32>| y.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    for bucket in [8, 4, 2, 1] {
        for real in 1..=bucket {
            rig.mix.set_eager(true);
            let eager = bits(rig.run(real)?);
            rig.mix.set_eager(false);
            assert_eq!(bits(rig.run(real)?), eager, "{real} requests");
        }
        // The next smaller one's turn, with the larger one's rows still in the static buffers.
    }
    Ok(())
}

pub(crate) fn every_size_is_replayed_in_the_smallest_bucket_that_holds_it<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let mut rig = Rig::new(bench, CaptureOptions::default())?;
    for (real, want) in [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (6, 8), (7, 8), (8, 8)] {
        let before = rig.mix.stats().buckets;
        rig.run(real)?;
        assert_eq!(rig.mix.bucket_for(Dims { bs: real, tokens: real }), Ok(Dims { bs: want, tokens: want }));
        for (before, after) in before.iter().zip(rig.mix.stats().buckets) {
            let mine = u64::from(after.dims.bs == want);
            let (real, padded) = (mine * real as u64, mine * (want - real) as u64);
            let got = (
                after.replays - before.replays,
                after.real_rows - before.real_rows,
                after.padded_rows - before.padded_rows,
            );
            assert_eq!(got, (mine, real, padded), "bucket of {}", after.dims.bs);
        }
    }
    Ok(())
}

pub(crate) fn a_replay_of_host_inputs_is_one_operation_whatever_its_size<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let mut three = ThreeInputs::new(bench.device()?)?;
    let device = three.engine().device().clone();
    for rows in [1, 3, 32, 17, 2] {
        let before = device.issued();
        assert!(three.run(rows)?);
        assert_eq!(device.issued() - before, 1, "{rows} rows: the launch");
    }
    Ok(())
}

pub(crate) fn a_replay_copies_each_device_input_and_launches<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let mut rig = Rig::new(bench, CaptureOptions::default())?;
    let device = rig.engine.device().clone();
    for n in [8, 1, 3] {
        let before = device.issued();
        drop(rig.inputs.run(&mut rig.mix, n)?);
        assert_eq!(device.issued() - before, 4, "{n} requests: x, m, z, the launch");
    }
    Ok(())
}

static TOKENS: Schema = Schema::new(
    "toy",
    "tokens",
    "packed(total_tokens = [4, 16]), batch_sizes = [1, 3]",
    &[IoSchema::host("x", Elem::F32, 1, "[tokens]"), IoSchema::host("first", Elem::F32, 1, "[bs]")],
    &[IoSchema::device("y", Elem::F32, 1, "[tokens]"), IoSchema::device("z", Elem::F32, 1, "[bs]")],
);

pub(crate) fn a_packed_region_is_chosen_by_tokens_and_requests<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let config = PiecewisePackedConfig::new([4, 16]).capture_batch_sizes([1, 3]);
    let statics = |shape: &Shape, s: &mut Statics| {
        s.input("x", [shape.total_tokens]).input("first", [shape.bs]);
        s.output("y", [shape.total_tokens]).output("z", [shape.bs]);
    };
    let forward = |cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>| {
        let (x, y) = (call.inputs, call.outputs);
        B::affine(cx.stream(), x.get("x")?, 2.0, 1.0, y.get("y")?)?;
        B::affine(cx.stream(), x.get("first")?, 3.0, 0.0, y.get("z")?)
    };
    let mut toys = packed_region(bench.device()?, &TOKENS, config, statics, forward)?;
    let stream = toys.engine.stream().clone();
    let (x, first): (Vec<f32>, _) = ((0..17).map(|i| i as f32).collect(), [7.0_f32, 8.0, 9.0, 10.0]);
    let too_many = Miss::TooManyTokens { tokens: 17, largest: 16 };
    for (lens, bucket) in [
        (&[3][..], Ok((1, 4))),
        (&[2, 1], Ok((3, 4))),
        (&[5], Ok((1, 16))),
        (&[9, 1, 6], Ok((3, 16))),
        (&[17], Err(too_many)),
        (&[1, 1, 1, 1], Err(Miss::TooManyRequests { bs: 4, largest: 3 })),
    ] {
        let (bs, tokens) = (lens.len(), lens.iter().sum());
        let dims = bucket.map(|(bs, tokens)| Dims { bs, tokens });
        assert_eq!(toys.runner.bucket_for(Dims { bs, tokens }), dims, "{lens:?}");
        let args = [("x", Source::slice(&x[..tokens])), ("first", Source::slice(&first[..bs]))];
        let outcome = toys.runner.run(NamedArgs(&args), lens)?;
        assert_eq!(outcome.reason(), dims.err(), "{lens:?}");
        let mut out = outcome.into_out();
        let want: Vec<f32> = x[..tokens].iter().map(|x| 2.0 * x + 1.0).collect();
        assert_eq!(out.take::<f32, 1>("y")?.to_vec(&stream)?, want, "{lens:?}");
        let want: Vec<f32> = first[..bs].iter().map(|x| 3.0 * x).collect();
        assert_eq!(out.take::<f32, 1>("z")?.to_vec(&stream)?, want, "{lens:?}");
    }
    Ok(())
}

pub(crate) fn a_whole_forward_replays_and_falls_back<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let mut rig = Rig::new(bench, CaptureOptions::default())?;
    let x = [3.0, 4.0, 5.0, 6.0, 7.0];
    for (n, eager) in [(2, false), (3, false), (1, false), (5, true), (4, false)] {
        let want: Vec<f32> = x[..n].iter().map(|x| 3.0 * x + 1.0).collect();
        assert_eq!(rig.decode("decode", &x[..n])?, (eager, want), "{n} requests");
    }
    Ok(())
}

/// A batched graph has its requests' length in it; another length is not that graph's call.
pub(crate) fn a_batched_forward_replays_its_own_lengths_only<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let decode = BatchedCudaGraphConfig::new("decode", NodeInputs::new(2)).capture_batch_sizes([4]);
    let mut rig =
        Rig::on(bench.device()?, Script::default(), |b| b.forward_config("toy.decode", decode.clone()))?;
    let stream = rig.stream();
    let node = rig.engine.node("toy")?;
    let x: &[f32] = &[3.0, 4.0, 5.0];
    let inputs = [("x", Source::host(&x))];
    for (seq_lens, miss) in [
        ([2, 2, 2], None),
        ([1, 2, 3], Some(Miss::OtherLengths { got: 1, want: 2 })),
        ([2, 2, 1], Some(Miss::OtherLengths { got: 1, want: 2 })),
    ] {
        let call = NodeCall { requests: &[], seq_lens: &seq_lens, inputs: &inputs, slot: 0 };
        let outcome = node.run("decode", &call)?;
        assert_eq!(outcome.reason(), miss, "{seq_lens:?}");
        let y = outcome.into_out().take::<f32, 1>("y")?.to_vec(&stream)?;
        assert_eq!(y, [10.0, 13.0, 16.0]);
    }
    Ok(())
}

pub(crate) fn a_node_replays_its_whole_forward_and_runs_its_region_inside_an_eager_one<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let mut engine: Engine<B> = columns(bench)?;
    for stats in engine.stats() {
        assert!(stats.failures.is_empty(), "{:?}", stats.failures);
    }
    let stream = engine.stream().clone();
    let node = engine.node("columns")?;
    for (walk, rows, replayed) in [
        ("decode", 3, true),
        ("decode", 1, true),
        ("prefill", 3, false),
        ("decode", 5, false),
        ("decode", 4, true),
    ] {
        let data: Vec<f32> = (0..rows).map(|i| i as f32).collect();
        let want: Vec<f32> = data.iter().map(|x| 2.0 * x + 10.0).collect();
        let (x, seq_lens) = (HostTensor::new(&data, [rows])?, vec![1; rows]);
        let inputs = [("x", Source::host(&x))];
        let call = NodeCall { requests: &[], seq_lens: &seq_lens, inputs: &inputs, slot: 0 };
        let outcome = node.run(walk, &call)?;
        assert_eq!(outcome.reason().is_none(), replayed, "{walk} of {rows}");
        assert_eq!(outcome.into_out().take::<f32, 1>("y")?.to_vec(&stream)?, want, "{walk} of {rows}");
    }
    Ok(())
}

pub(crate) fn a_replay_for_more_requests_than_its_bucket_is_an_error<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let (mut engine, _) = chain(bench, CaptureOptions::default())?;
    let (whole, steps) = engine.node("chain")?.whole_and_steps();
    let bucket = whole.walk("decode", None).and_then(|walk| whole.select_bucket(walk, 4, 4).ok());
    let bucket = bucket.expect("captured");
    let (shape, padded) = (Shape::batched(3, 1), Dims { bs: 4, tokens: 4 });
    let context = StepContext { slot: 0, rows: &[], real_bs: 3, padded, captured: true };
    let step = steps.declare(|_| Ok(()))?.admit()?.plan(&context)?;
    let h = [1.0_f32; 3];
    let h = [("h", Source::slice(&h[..]))];
    let staged = whole.stage(whole.lease_slot(bucket, 0)?, &shape, &h, &step)?;
    let beyond = |kind: &ErrorKind| matches!(kind, ErrorKind::BeyondBucket { got: 5, most: 4, .. });
    refused(whole.replay(staged, &Shape::batched(5, 1)), beyond);
    let lease = whole.lease_slot(bucket, 0).expect("the lease came back");
    let staged = whole.stage(lease, &shape, &h, &step)?;
    drop(whole.replay(staged, &shape)?);
    Ok(())
}
