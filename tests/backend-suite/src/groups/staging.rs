//! What a call may pass, how it comes to the graph, and what is refused before anything is written.

use graph_core::{
    CaptureOptions, Dims, ErrorKind, HostInput, HostTensor, NamedArgs, NodeCall, Pad, Result, Source, Tensor,
};

use super::refused;
use crate::{
    Bench, SuiteOps,
    toys::{Echo, Rig, chain, layers, run_layer},
};

pub(crate) fn host_inputs_of_every_element_rank_and_axis_arrive_whole<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    for mut echo in Echo::all(bench, true, |_| Pad::Zero)? {
        for (seed, rows) in [(1, 8), (2, 4), (3, 2), (4, 1)] {
            echo.check(rows, rows, seed, false)?;
        }
    }
    Ok(())
}

pub(crate) fn device_inputs_of_every_element_and_rank_arrive_whole<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    for mut echo in Echo::all(bench, false, |_| Pad::Zero)? {
        for (seed, rows) in [(1, 8), (2, 4), (3, 2), (4, 1)] {
            echo.check(rows, rows, seed, false)?;
        }
    }
    Ok(())
}

pub(crate) fn device_inputs_may_be_given_as_host_data<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    for mut echo in Echo::all(bench, false, |_| Pad::RepeatLast)? {
        for (seed, real, rows) in [(1, 8, 8), (2, 3, 4), (3, 5, 8)] {
            echo.check(real, rows, seed, true)?;
        }
    }
    Ok(())
}

pub(crate) fn a_wired_input_copies_nothing<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let (engine, mut layers) = layers(bench)?;
    let (device, stream) = (engine.device().clone(), engine.stream().clone());
    let [first, second] = &mut layers[..] else { panic!("two layers") };
    let x = Tensor::<B, f32, 1>::from_slice(&device, &stream, &[1.0, 2.0, 3.0], [3])?;
    let before = device.issued();
    let middle = run_layer(first, &x, 3)?;
    assert_eq!(device.issued() - before, 2, "one copy in, one launch");
    let last = run_layer(second, middle, 3)?;
    assert_eq!(device.issued() - before, 3, "the second layer reads where the first has written");
    assert_eq!(last.to_vec(&stream)?, [101.0, 201.0, 301.0]);
    Ok(())
}

pub(crate) fn sizes_that_do_not_fit_are_refused_before_anything_is_written<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    const NAMES: [&str; 6] = ["ids", "rope", "scale", "x", "m", "z"];
    let mut rig = Rig::new(bench, CaptureOptions::default())?;
    rig.run(4)?;
    let statics = |rig: &Rig<B>| -> Result<Vec<Vec<u8>>> {
        NAMES.iter().map(|name| rig.mix.static_input(name, Dims { bs: 4, tokens: 4 })).collect()
    };
    let before = statics(&rig)?;
    let (device, stream) = (rig.engine.device().clone(), rig.stream());
    let (ids, rope, scale) = ([90; 4], [91; 12], [92.0_f32; 4]);
    let (long, wide) = (Tensor::<B, f32, 2>::zeros(&device, &stream, [5, 2])?, [93_i32; 15]);
    let (ids, scale) = (&ids[..], &scale[..]);
    let (rope, wide) = (HostTensor::new(&rope, [3, 4])?, HostTensor::new(&wide, [3, 5])?);
    let Rig { mix, inputs, .. } = &mut rig;
    let (x, m, z) = (inputs.x.view().rows(0..4)?, inputs.m.view().rows(0..4)?, inputs.z.view().rows(0..4)?);
    let good = [
        ("ids", Source::host(&ids)),
        ("rope", Source::host(&rope)),
        ("scale", Source::host(&scale)),
        ("x", Source::device(&x)),
        ("m", Source::device(&m)),
        ("z", Source::device(&z)),
    ];
    let (issued, short, floats) = (device.issued(), &ids[..3], scale);
    let long = long.view();
    let wrong: [(usize, Source<'_, B>); 5] = [
        (0, Source::host(&short)),
        (1, Source::host(&wide)),
        (3, Source::device(&long)),
        (4, Source::device(&z)),
        (0, Source::host(&floats)),
    ];
    for (i, source) in wrong {
        let mut args = good;
        args[i].1 = source;
        let size =
            |kind: &ErrorKind| matches!(kind, ErrorKind::WrongSize { .. } | ErrorKind::WrongType { .. });
        let text = refused(mix.run(NamedArgs(&args), &[1; 4]), size);
        assert!(text.contains(NAMES[i]), "{text}");
    }
    assert_eq!(device.issued(), issued, "nothing was copied or launched");
    assert_eq!(statics(&rig)?, before, "nothing was written");
    assert_eq!(rig.run(4)?, rig.inputs.want(4));
    Ok(())
}

/// Host data whose length is not what its dimensions say.
struct Liar(Vec<f32>, usize);
impl HostInput<f32, 1> for Liar {
    fn data(&self) -> (&[f32], [usize; 1]) {
        (&self.0, [self.1])
    }
}

pub(crate) fn host_data_longer_than_it_says_overwrites_no_held_output<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let options = CaptureOptions { slots: Some(2), ..CaptureOptions::default() };
    let (engine, mut step) = chain(bench, options)?;
    step.set_slot(1);
    let x = [1.0_f32; 4];
    let x = [("x", Source::slice(&x[..]))];
    let held = step.run(NamedArgs(&x), &[1; 4])?.hold().into_out().take::<f32, 1>("h")?;
    step.set_slot(0);
    let length = |kind: &ErrorKind| matches!(kind, ErrorKind::DataLength { want: 4, .. });
    for len in [1024, 3, 0] {
        let liar = Liar(vec![f32::NAN; len], 4);
        refused(step.run(NamedArgs(&[("x", Source::host(&liar))]), &[1; 4]), length);
        assert_eq!(held.to_vec(engine.stream())?, [1.0; 4], "{len} elements");
    }
    step.set_eager(true);
    let liar = Liar(Vec::new(), 4);
    refused(step.run(NamedArgs(&[("x", Source::host(&liar))]), &[1; 4]), length);
    Ok(())
}

pub(crate) fn an_input_that_is_named_twice_is_an_error<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let (mut engine, _) = chain(bench, CaptureOptions::default())?;
    let h = [1.0_f32; 2];
    for second in [&h[..1], &h[..]] {
        let inputs = [("h", Source::slice(&h[..])), ("h", Source::slice(second))];
        let call = NodeCall { requests: &[], seq_lens: &[1, 1], inputs: &inputs, slot: 0 };
        let twice = |kind: &ErrorKind| matches!(kind, ErrorKind::InputTwice { .. });
        let text = refused(engine.node("chain")?.run("decode", &call), twice);
        assert_eq!(text, "chain.forward_batched: input `h` is given twice");
    }
    Ok(())
}
