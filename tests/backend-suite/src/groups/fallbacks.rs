//! What runs eagerly, why, and what is an error instead.

use graph_core::{
    BatchedCudaGraphConfig, CaptureOptions, Dims, Error, ErrorKind, Miss, Mode, NodeCall, NodeInputs, Result,
    Source,
};

use super::refused;
use crate::{
    Bench, SuiteOps,
    toys::{Rig, Script, chain},
};

fn strict() -> CaptureOptions {
    CaptureOptions { strict: true, ..CaptureOptions::default() }
}

const NINE: Miss = Miss::TooManyRequests { bs: 9, largest: 8 };

pub(crate) fn invariant_10_no_fit_is_a_typed_reason_and_counted<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let mut rig = Rig::new(bench, CaptureOptions::default())?;
    assert_eq!(rig.inputs.run(&mut rig.mix, 9)?.reason(), Some(NINE));
    assert_eq!(rig.run(9)?, rig.inputs.want(9), "eager");
    assert_eq!(rig.run(10)?, rig.inputs.want(10), "eager");
    assert_eq!(rig.mix.stats().eager, [("too_many_requests", 3)]);
    assert_eq!(rig.batch_sizes(), [8, 4, 2, 1], "a request captures nothing (invariant 15)");

    let mut strict = Rig::new(bench, strict())?;
    let is = |kind: &ErrorKind| matches!(kind, ErrorKind::Strict { owner, miss } if owner == "toy.mix" && *miss == NINE);
    let text = refused(strict.inputs.run(&mut strict.mix, 9), is);
    assert!(text.contains('9') && text.contains('8'), "with the numbers: {text}");
    assert_eq!(strict.run(8)?, strict.inputs.want(8));
    Ok(())
}

pub(crate) fn pitfall_29_a_missing_bucket_is_told_counted_and_refused_in_strict_mode<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let mut rig = Rig::new(bench, CaptureOptions::default())?;
    assert_eq!(rig.decode("decode", &[1.0; 5])?, (true, vec![4.0; 5]));
    let stats = rig.engine.stats();
    let decode = stats.iter().find(|s| s.walk.is_some()).expect("the whole forward");
    assert_eq!(decode.eager, [("too_many_requests", 1)]);
    let mut strict = Rig::new(bench, strict())?;
    let miss = Miss::TooManyRequests { bs: 5, largest: 4 };
    let is = |kind: &ErrorKind| matches!(kind, ErrorKind::Strict { miss: m, .. } if *m == miss);
    refused(strict.decode("decode", &[1.0; 5]), is);
    assert_eq!(strict.decode("decode", &[1.0; 4])?, (false, vec![4.0; 4]));
    Ok(())
}

pub(crate) fn forced_eager_calls_are_no_misses_in_strict_mode<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let mut rig = Rig::new(bench, strict())?;
    rig.mix.set_eager(true);
    for n in [2, 9] {
        assert_eq!(rig.inputs.run(&mut rig.mix, n)?.reason(), Some(Miss::Forced), "{n} requests");
        assert_eq!(rig.run(n)?, rig.inputs.want(n), "{n} requests");
    }
    rig.mix.set_eager(false);
    assert_eq!(rig.inputs.run(&mut rig.mix, 2)?.reason(), None, "no longer");
    assert_eq!(rig.mix.stats().eager, [("forced", 4)]);
    Ok(())
}

pub(crate) fn a_nodes_steps_can_be_forced_to_run_eagerly<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let mut rig = Rig::new(bench, CaptureOptions::default())?;
    for eager in [false, true, false] {
        rig.engine.node("toy")?.set_eager(eager);
        assert_eq!(rig.decode("decode", &[2.0, 3.0])?, (eager, vec![7.0, 10.0]));
    }
    Ok(())
}

pub(crate) fn a_failed_bucket_falls_to_a_larger_one<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let mut rig = Rig::acting(bench, |cx| match (cx.mode(), cx.dims().bs) {
        (Mode::Capture, 2 | 4) => Err(Error::plugin("not today")),
        _ => Ok(()),
    })?;
    assert_eq!(rig.batch_sizes(), [8, 1]);
    assert_eq!(rig.failures().len(), 2);
    for (n, bucket) in [(1, 1), (2, 8), (4, 8), (8, 8)] {
        assert_eq!(rig.mix.bucket_for(Dims { bs: n, tokens: n }), Ok(Dims { bs: bucket, tokens: bucket }));
        assert_eq!(rig.inputs.run(&mut rig.mix, n)?.reason(), None, "{n} requests");
        assert_eq!(rig.run(n)?, rig.inputs.want(n), "{n} requests");
    }
    assert_eq!(rig.mix.stats().eager, []);
    Ok(())
}

pub(crate) fn when_every_capture_failed_the_reason_says_so<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let mut rig = Rig::acting(bench, |cx| match cx.mode() {
        Mode::Capture => Err(Error::plugin("not today")),
        _ => Ok(()),
    })?;
    assert_eq!(rig.inputs.run(&mut rig.mix, 3)?.reason(), Some(Miss::CaptureFailed { buckets: 4 }));
    let stats = rig.mix.stats();
    assert_eq!(stats.eager, [("capture_failed", 1)]);
    assert!(stats.failures[0].to_string().contains("not today"), "{}", stats.failures[0]);
    Ok(())
}

/// A walk that is captured but that no forward lists as its own still has the captured forward to fall back to.
pub(crate) fn a_captured_walk_that_no_forward_names_runs_eagerly_too<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let decode = BatchedCudaGraphConfig::new("decode", NodeInputs::new(1))
        .replay_graph_walks(["decode", "speculative"])
        .capture_batch_sizes([2]);
    let mut rig =
        Rig::on(bench.device()?, Script::default(), |b| b.forward_config("toy.decode", decode.clone()))?;
    for n in [2, 3] {
        assert_eq!(rig.decode("speculative", &vec![1.0; n])?, (n == 3, vec![4.0; n]));
    }
    Ok(())
}

pub(crate) fn lengths_whose_sum_wraps_fit_no_bucket<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let (mut engine, _) = chain(bench, strict())?;
    let h = [1.0_f32; 2];
    let inputs = [("h", Source::slice(&h[..]))];
    let call = NodeCall { requests: &[], seq_lens: &[usize::MAX, 3], inputs: &inputs, slot: 0 };
    let too_many = |miss: &Miss| matches!(miss, Miss::TooManyTokens { tokens: u32::MAX, .. });
    let is = |kind: &ErrorKind| matches!(kind, ErrorKind::Strict { miss, .. } if too_many(miss));
    refused(engine.node("chain")?.run("decode", &call), is);
    Ok(())
}
