//! Invariant 1: after every call, rows beyond the real ones hold exactly what their policy says.

use graph_core::{
    CallInputs, CaptureOptions, Cx, Elem, ErrorKind, HostTensor, IoSchema, NamedArgs, Pad, PadRows, Result,
    Schema, Shape, Source, Statics, Tensor, bf16,
};

use super::refused;
use crate::{
    Bench, SuiteOps,
    toys::{Echo, Inputs, Rig, Toys, one_region},
};

pub(crate) fn invariant_01_padded_rows_hold_exactly_the_pad<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let mut rig = Rig::seeing(bench)?;
    for (real, bucket) in [(8, 8), (3, 4), (5, 8), (1, 1), (6, 8), (3, 4), (2, 2), (7, 8)] {
        rig.run(real)?;
        let Inputs { ids, rope, scale, .. } = &rig.inputs;
        let (pad, here) = (bucket - real, format!("{real} real rows in {bucket}"));
        let padded = |mut real: Vec<f32>, pad: usize, value: f32| {
            real.extend(vec![value; pad]);
            real
        };
        let runs = rope[..3 * real].chunks(real);
        assert_eq!(
            rig.seen(|s| &s.ids, bucket)?,
            [&ids[..real], &vec![ids[real - 1]; pad]].concat(),
            "{here}"
        );
        let want: Vec<i32> = runs.flat_map(|run| [run, &vec![-1; pad]].concat()).collect();
        assert_eq!(rig.seen(|s| &s.rope, 3 * bucket)?, want, "{here}");
        assert_eq!(rig.seen(|s| &s.scale, bucket)?, padded(scale[..real].to_vec(), pad, 0.0), "{here}");
        let want = padded((0..2 * real).map(|i| 10.0 + i as f32).collect(), 2 * pad, 0.5);
        assert_eq!(rig.seen(|s| &s.x, 2 * bucket)?, want, "{here}");
        let want: Vec<i32> = (0..bucket).map(|i| 1000 * i.min(real - 1) as i32).collect();
        assert_eq!(rig.seen(|s| &s.m, bucket)?, want, "{here}");
        let want = padded((0..real).map(|i| 0.25 + i as f32).collect(), pad, 0.0);
        assert_eq!(rig.seen(|s| &s.z, bucket)?, want, "{here}");
    }
    Ok(())
}

pub(crate) fn pitfall_01_rows_of_an_earlier_larger_batch_do_not_stay_in_the_tail<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let mut rig = Rig::seeing(bench)?;
    rig.run(8)?;
    rig.run(5)?;
    assert_eq!(rig.seen(|s| &s.ids, 8)?, [1, 2, 3, 4, 5, 5, 5, 5], "repeat_last");
    assert_eq!(rig.seen(|s| &s.scale, 8)?[5..], [0.0; 3], "zero");
    assert_eq!(rig.seen(|s| &s.x, 16)?[10..], [0.5; 6], "a value");
    Ok(())
}

/// Every real size of every bucket, in an order that leaves larger batches behind.
fn each_size<B: SuiteOps>(bench: &Bench<B>, host: bool, policy: fn(Pad) -> Pad) -> Result<()> {
    for mut echo in Echo::all(bench, host, policy)? {
        let sizes = [(8, 8), (5, 8), (4, 4), (3, 4), (7, 8), (1, 1), (6, 8), (2, 2), (3, 4)];
        for (seed, (real, rows)) in sizes.into_iter().enumerate() {
            echo.check(real, rows, seed, false)?;
        }
    }
    Ok(())
}

pub(crate) fn host_inputs_are_padded_with_zeros<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    each_size(bench, true, |_| Pad::Zero)
}

pub(crate) fn host_inputs_are_padded_with_their_last_row<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    each_size(bench, true, |_| Pad::RepeatLast)
}

pub(crate) fn host_inputs_are_padded_with_a_value<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    each_size(bench, true, |value| value)
}

pub(crate) fn device_inputs_are_padded_with_zeros<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    each_size(bench, false, |_| Pad::Zero)
}

pub(crate) fn device_inputs_are_padded_with_their_last_row<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    each_size(bench, false, |_| Pad::RepeatLast)
}

pub(crate) fn device_inputs_are_padded_with_a_value<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    each_size(bench, false, |value| value)
}

const Y: IoSchema = IoSchema::device("y", Elem::F32, 2, "[bs, 2]");
const X: IoSchema = IoSchema::host("x", Elem::F32, 2, "[bs, 2]");
const W: IoSchema = IoSchema::device("w", Elem::F32, 1, "[bs]");
static BY_PAD: [Schema; 4] = [
    Schema::new("toy", "padded", "", &[X, W], &[Y]),
    Schema::new("toy", "padded", "", &[X.pad(Pad::RepeatLast), W.pad(Pad::RepeatLast)], &[Y]),
    Schema::new("toy", "padded", "", &[X.pad(Pad::f32(f32::NAN)), W.pad(Pad::f32(f32::NAN))], &[Y]),
    Schema::new("toy", "padded", "", &[X.pad(Pad::f32(1e38)), W.pad(Pad::f32(f32::INFINITY))], &[Y]),
];

pub(crate) fn outputs_of_real_rows_do_not_depend_on_what_padding_holds<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let mut of_first = Vec::new();
    for schema in &BY_PAD {
        let statics = |shape: &Shape, s: &mut Statics| {
            s.input("x", [shape.bs, 2]).input("w", [shape.bs]).output("y", [shape.bs, 2]);
        };
        let forward = |cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>| {
            let (s, x, y) = (cx.stream(), call.inputs, call.outputs.get::<f32, 2>("y")?);
            B::spread(s, x.get("x")?, x.get("w")?, x.get("w")?, y)
        };
        let Toys { engine, mut runner } =
            one_region(bench.device()?, schema, &[1, 4, 8], CaptureOptions::default(), statics, forward)?;
        let (device, stream) = (engine.device().clone(), engine.stream().clone());
        let mut all = Vec::new();
        for real in [8, 3, 5, 1, 7, 2] {
            let x: Vec<f32> = (0..2 * real).map(|i| (i * real) as f32 / 3.0).collect();
            let w = Tensor::<B, f32, 1>::from_slice(&device, &stream, &x[..real], [real])?;
            let (x, w) = (HostTensor::new(&x, [real, 2])?, w.view());
            let args = [("x", Source::host(&x)), ("w", Source::device(&w))];
            let outcome = runner.run(NamedArgs(&args), &[1; 8][..real])?;
            assert_eq!(outcome.reason(), None);
            let y = outcome.into_out().take::<f32, 2>("y")?.to_vec(&stream)?;
            all.extend(y.into_iter().map(f32::to_bits));
        }
        match of_first.is_empty() {
            true => of_first = all,
            false => assert_eq!(all, of_first, "pad {}", schema.inputs[0].pad),
        }
    }
    Ok(())
}

/// Pads `rows` rows of `row_bytes` bytes, `offset` bytes into a buffer, when `real` of them are real.
fn padded<B: SuiteOps>(
    device: &B,
    stream: &B::Stream,
    (row_bytes, rows, real): (usize, usize, u32),
    offset: usize,
    pad: Pad,
) -> Result<Vec<u8>> {
    let bytes = rows * row_bytes;
    let (buffer, header) = (device.alloc(offset + bytes + 16)?, device.alloc(12)?);
    let filled: Vec<u8> = (0..offset + bytes + 16).map(|i| 1 + (i % 199) as u8).collect();
    B::upload(stream, &filled, &buffer, 0)?;
    let words: Vec<u8> = [77, real, 88].into_iter().flat_map(u32::to_ne_bytes).collect();
    B::upload(stream, &words, &header, 0)?;
    B::pad_rows(stream, PadRows { buffer: &buffer, offset, row_bytes, rows, header: &header, word: 1, pad })?;
    let mut got = vec![0; filled.len()];
    B::download(stream, &buffer, 0, &mut got)?;
    assert_eq!(got[..offset], filled[..offset], "before the buffer");
    assert_eq!(got[offset + bytes..], filled[offset + bytes..], "behind the buffer");
    let real = (real as usize).min(rows) * row_bytes;
    assert_eq!(got[offset..offset + real], filled[offset..offset + real], "real rows");
    Ok(got[offset..offset + bytes].to_vec())
}

/// What the rows must hold, worked out on the host.
fn expected((row_bytes, rows, real): (usize, usize, u32), offset: usize, pad: Pad) -> Vec<u8> {
    let mut all: Vec<u8> = (0..rows * row_bytes).map(|i| 1 + ((offset + i) % 199) as u8).collect();
    let real = (real as usize).min(rows);
    let last: Vec<u8> = all[real.saturating_sub(1) * row_bytes..][..row_bytes].to_vec();
    for row in all.chunks_exact_mut(row_bytes).skip(real) {
        match pad {
            Pad::RepeatLast if real > 0 => row.copy_from_slice(&last),
            Pad::Zero | Pad::RepeatLast => row.fill(0),
            Pad::Value(v) => row.chunks_exact_mut(v.bytes().len()).for_each(|e| e.copy_from_slice(v.bytes())),
        }
    }
    all
}

pub(crate) fn invariant_01_padded_rows_hold_what_the_policy_says<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let device = bench.device()?;
    let stream = device.stream()?;
    let cases: [(usize, &[Pad]); 6] = [
        (12, &[Pad::Zero, Pad::RepeatLast, Pad::f32(1.5), Pad::i32(-1), Pad::u32(0xdead_beef)]),
        (16, &[Pad::i64(0x0123_4567_89ab_cdef), Pad::RepeatLast, Pad::u8(3)]),
        (6, &[Pad::Zero, Pad::RepeatLast, Pad::bf16(bf16::ONE)]),
        (7, &[Pad::u8(250), Pad::RepeatLast]),
        (4096, &[Pad::f32(2.0), Pad::RepeatLast]),
        (1, &[Pad::u8(1)]),
    ];
    for (row_bytes, pads) in cases {
        for (pad, offset) in pads.iter().flat_map(|pad| [(*pad, 0), (*pad, 256)]) {
            for real in [0, 1, 4, 5, 9] {
                let size = (row_bytes, 5, real);
                let got = padded(&device, &stream, size, offset, pad)?;
                assert_eq!(
                    got,
                    expected(size, offset, pad),
                    "{pad}, rows of {row_bytes}, {real} real, at {offset}"
                );
            }
        }
    }
    for pad in [Pad::u8(9), Pad::i64(0x0123_4567_89ab_cdef), Pad::RepeatLast] {
        let got = padded(&device, &stream, (8, 3, 1), 2, pad)?;
        assert_eq!(got, expected((8, 3, 1), 2, pad), "{pad}: whole words at an odd address");
    }
    Ok(())
}

pub(crate) fn a_graph_pads_by_the_row_count_of_each_replay<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let device = bench.device()?;
    let stream = device.stream()?;
    let (data, header) = (device.alloc(16)?, device.alloc(4)?);
    let (offset, row_bytes, rows, word, pad) = (0, 4, 4, 0, Pad::RepeatLast);
    let pad = PadRows { buffer: &data, offset, row_bytes, rows, header: &header, word, pad };
    B::begin_capture(&stream)?;
    let recorded = B::pad_rows(&stream, pad);
    let captured = B::end_capture(&stream);
    recorded?;
    let captured = captured?;
    assert_eq!(B::operations(&captured), ["pad_rows"]);
    let graph = device.instantiate(captured)?;
    for (real, want) in [(2_u32, [1, 2, 2, 2]), (0, [0, 0, 0, 0]), (3, [1, 2, 3, 3])] {
        let rows: Vec<u8> = [1_u32, 2, 3, 4].into_iter().flat_map(u32::to_ne_bytes).collect();
        B::upload(&stream, &rows, &data, 0)?;
        B::upload(&stream, &real.to_ne_bytes(), &header, 0)?;
        B::launch(&graph, &stream)?;
        let mut got = [0; 16];
        B::download(&stream, &data, 0, &mut got)?;
        assert_eq!(got.as_chunks::<4>().0, want.map(u32::to_ne_bytes));
    }
    Ok(())
}

pub(crate) fn ranges_of_a_pad_are_checked<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let device = bench.device()?;
    let stream = device.stream()?;
    let (buffer, header) = (device.alloc(16)?, device.alloc(4)?);
    let pad = |rows, word| {
        let (offset, row_bytes, pad) = (0, 4, Pad::Zero);
        B::pad_rows(&stream, PadRows { buffer: &buffer, offset, row_bytes, rows, header: &header, word, pad })
    };
    let beyond = |bytes| move |kind: &ErrorKind| matches!(kind, ErrorKind::OutOfBounds { bytes: b, .. } if *b == bytes);
    refused(pad(5, 0), beyond(16));
    refused(pad(4, 1), beyond(4));
    pad(0, 0)
}
