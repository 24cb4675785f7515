//! A region that does nothing but tell its inputs: of every element, rank and varying axis, on either side, by each
//! policy of padding.

use graph_core::{
    CallInputs, CaptureOptions, Cx, Elem, Element, HostValue, In, IoSchema, NamedArgs, NamedInputs,
    OutTensor, Outcome, Pad, Result, Schema, Shape, Side, Source, Statics, Tensor, bf16, f16,
};

use super::region::{Toys, one_region};
use crate::{Bench, SuiteOps};

/// What it gives: a region gives something.
const ROWS: &[IoSchema] = &[IoSchema::device("rows", Elem::U8, 1, "[bs]")];

/// The largest size that is captured.
const LARGEST: usize = 8;

/// Every element, and a pad value of it.
const ELEMS: [(Elem, Pad); 7] = [
    (Elem::F32, Pad::f32(1.5)),
    (Elem::F16, Pad::f16(f16::from_bits(0x3c01))),
    (Elem::BF16, Pad::bf16(bf16::from_bits(0x3f81))),
    (Elem::I32, Pad::i32(-7)),
    (Elem::I64, Pad::i64(0x0123_4567_89ab_cdef)),
    (Elem::U32, Pad::u32(0xdead_beef)),
    (Elem::U8, Pad::u8(250)),
];

/// An input: its declaration, and all its dimensions at a size.
#[derive(Clone, Copy)]
struct Io {
    schema: IoSchema,
    dims: DimsOf,
}

/// All dimensions of an input at a size.
type DimsOf = fn(usize) -> [usize; 4];

/// Rank, varying axis, and what lies around it. Device-side inputs vary in the first one.
const SHAPES: [(usize, usize, &str, DimsOf); 7] = [
    (1, 0, "[bs]", |n| [n, 0, 0, 0]),
    (2, 0, "[bs, 3]", |n| [n, 3, 0, 0]),
    (3, 0, "[bs, 2, 3]", |n| [n, 2, 3, 0]),
    (4, 0, "[bs, 1, 3, 2]", |n| [n, 1, 3, 2]),
    (2, 1, "[3, bs]", |n| [3, n, 0, 0]),
    (3, 1, "[2, bs, 3]", |n| [2, n, 3, 0]),
    (4, 3, "[2, 1, 3, bs]", |n| [2, 1, 3, n]),
];

fn io(elem: Elem, shape: usize, pad: Pad, name: &'static str, host: bool) -> Io {
    let (rank, axis, text, dims) = SHAPES[shape];
    let schema = match host {
        true => IoSchema::host(name, elem, rank, text).axis(axis),
        false => IoSchema::device(name, elem, rank, text),
    };
    Io { schema: schema.pad(pad), dims }
}

/// The inputs of one policy: each element with each shape, in as many regions as that takes.
fn inputs(host: bool, policy: fn(Pad) -> Pad) -> Vec<Vec<Io>> {
    const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
    let shapes = if host { 0..SHAPES.len() } else { 0..4 };
    let of = |shape: usize| {
        let named = ELEMS.iter().zip(NAMES);
        named.map(|((elem, pad), name)| io(*elem, shape, policy(*pad), name, host)).collect()
    };
    shapes.map(of).collect()
}

/// The region on a device, and a copy of each of its inputs as the last forward saw it.
pub(crate) struct Echo<B: SuiteOps> {
    ios: Vec<Io>,
    schema: &'static Schema,
    toys: Toys<B>,
    copies: Vec<B::Buffer>,
}

impl<B: SuiteOps> Echo<B> {
    /// All regions of host-side inputs, or of device-side ones, with a policy that is made from a value of the element.
    pub(crate) fn all(bench: &Bench<B>, host: bool, policy: fn(Pad) -> Pad) -> Result<Vec<Self>> {
        inputs(host, policy).into_iter().map(|ios| Self::new(bench, ios)).collect()
    }

    fn new(bench: &Bench<B>, ios: Vec<Io>) -> Result<Self> {
        let device = bench.device()?;
        let bytes = |io: &Io| elements(io, LARGEST) * io.schema.elem.bytes();
        let copies = ios.iter().map(|io| device.alloc(bytes(io))).collect::<Result<Vec<_>>>()?;
        // Schemas live as long as the program, as those that are linked do.
        let declared = ios.iter().map(|io| io.schema).collect::<Vec<_>>().leak();
        let schema = Schema::new("toy", "echo", "batch_sizes = [1, 2, 4, 8]", declared, ROWS);
        let schema: &'static Schema = Box::leak(Box::new(schema));
        let (sized, copied) = (ios.clone(), copies.clone());
        let statics = move |shape: &Shape, s: &mut Statics| {
            for Io { schema: IoSchema { name, rank, .. }, dims } in &sized {
                let [a, b, c, d] = dims(shape.bs);
                match rank {
                    1 => s.input(name, [a]),
                    2 => s.input(name, [a, b]),
                    3 => s.input(name, [a, b, c]),
                    _ => s.input(name, [a, b, c, d]),
                };
            }
            s.output("rows", [shape.bs]);
        };
        let forward = move |cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>| {
            for (io, copy) in schema.inputs.iter().zip(&copied) {
                let (buffer, at, bytes) = memory(&call.inputs, io)?;
                B::copy(cx.stream(), (buffer, at), (copy, 0), bytes)?;
            }
            let rows = call.outputs.get::<u8, 1>("rows")?.read();
            B::zero(cx.stream(), rows.buffer(), rows.offset(), rows.len())
        };
        let options = CaptureOptions::default();
        let toys = one_region(device, schema, &[1, 2, 4, LARGEST], options, statics, forward)?;
        Ok(Echo { ios, schema, toys, copies })
    }

    /// Runs `real` rows of numbers that depend on `seed`. With `upload`, device-side inputs are given as host data.
    /// Then compares what the forward saw with the rows and their padding up to `rows`.
    pub(crate) fn check(&mut self, real: usize, rows: usize, seed: usize, upload: bool) -> Result<()> {
        let values: Vec<HostValue> =
            self.ios.iter().map(|io| value(io, real, seed)).collect::<Result<_>>()?;
        let (device, stream) = (self.toys.engine.device(), self.toys.engine.stream().clone());
        let tensors: Vec<_> = self
            .ios
            .iter()
            .zip(&values)
            .map(|(io, value)| match io.schema.side {
                Side::Device if !upload => tensor(device, &stream, io, value).map(Some),
                _ => Ok(None),
            })
            .collect::<Result<_>>()?;
        let source = |i: usize| match &tensors[i] {
            Some(tensor) => tensor.source(),
            None => Source::of_value(&values[i]).expect("no more than four axes"),
        };
        let args: Vec<_> =
            self.schema.inputs.iter().enumerate().map(|(i, io)| (io.name, source(i))).collect();
        let outcome = self.toys.runner.run(NamedArgs(&args), &vec![1; real])?;
        assert!(matches!(outcome, Outcome::Replayed(_)), "{real} rows are replayed");
        drop(outcome);
        for ((io, value), copy) in self.ios.iter().zip(&values).zip(&self.copies) {
            let want = padded(io, value.bytes(), real, rows);
            let mut got = vec![0; want.len()];
            B::download(&stream, copy, 0, &mut got)?;
            let IoSchema { elem, dims, pad, side, .. } = io.schema;
            let what = format!("{} {dims}, {}, pad {pad}", elem.name(), side.name());
            assert_eq!(got, want, "{what}: {real} real rows in {rows}");
        }
        Ok(())
    }
}

fn elements(io: &Io, rows: usize) -> usize {
    (io.dims)(rows)[..io.schema.rank].iter().product()
}

/// Distinct numbers, in bytes of the element.
fn value(io: &Io, rows: usize, seed: usize) -> Result<HostValue> {
    let dims = (io.dims)(rows);
    let (n, dims) = (elements(io, rows), &dims[..io.schema.rank]);
    let at = |i: usize| 1 + (i * 7 + seed * 31) % 199;
    match io.schema.elem {
        Elem::F32 => HostValue::new(&Vec::from_iter((0..n).map(|i| at(i) as f32)), dims),
        Elem::F16 => HostValue::new(&Vec::from_iter((0..n).map(|i| f16::from_f32(at(i) as f32))), dims),
        Elem::BF16 => HostValue::new(&Vec::from_iter((0..n).map(|i| bf16::from_f32(at(i) as f32))), dims),
        Elem::I32 => HostValue::new(&Vec::from_iter((0..n).map(|i| -(at(i) as i32))), dims),
        Elem::I64 => HostValue::new(&Vec::from_iter((0..n).map(|i| at(i) as i64 * 0x1_0000_0001)), dims),
        Elem::U32 => HostValue::new(&Vec::from_iter((0..n).map(|i| at(i) as u32 * 0x0101_0101)), dims),
        Elem::U8 => HostValue::new(&Vec::from_iter((0..n).map(|i| at(i) as u8)), dims),
    }
}

/// What the forward must see, worked out byte by byte: each run of rows, then its padding.
fn padded(io: &Io, data: &[u8], real: usize, rows: usize) -> Vec<u8> {
    let dims = &(io.dims)(1)[..io.schema.rank];
    let row_bytes = dims[io.schema.axis + 1..].iter().product::<usize>() * io.schema.elem.bytes();
    let mut all = Vec::new();
    for run in data.chunks(real * row_bytes) {
        all.extend_from_slice(run);
        let last = &run[run.len() - row_bytes..];
        for _ in real..rows {
            match io.schema.pad {
                Pad::Zero => all.extend(std::iter::repeat_n(0, row_bytes)),
                Pad::RepeatLast => all.extend_from_slice(last),
                Pad::Value(value) => all.extend(value.bytes().iter().cycle().take(row_bytes)),
            }
        }
    }
    all
}

/// A tensor without its element and rank.
trait Rows<B: SuiteOps> {
    fn source(&self) -> Source<'_, B>;
}
impl<B: SuiteOps, T: Element, const R: usize> Rows<B> for OutTensor<'_, B, T, R> {
    fn source(&self) -> Source<'_, B> {
        Source::device(self)
    }
}

fn tensor<B: SuiteOps>(
    device: &B,
    stream: &B::Stream,
    io: &Io,
    value: &HostValue,
) -> Result<Box<dyn Rows<B>>> {
    fn of<B: SuiteOps, T: Element, const R: usize>(
        device: &B,
        stream: &B::Stream,
        value: &HostValue,
    ) -> Result<Box<dyn Rows<B>>> {
        let mut dims = [0; R];
        dims.copy_from_slice(value.dims());
        let tensor = Tensor::<B, T, R>::alloc(device, dims)?;
        B::upload(stream, value.bytes(), tensor.view().buffer(), tensor.view().offset())?;
        Ok(Box::new(OutTensor::from(tensor)))
    }
    macro_rules! by_type {
        ($($elem:ident $rust:ty),*) => {
            match (io.schema.elem, io.schema.rank) {
                $((Elem::$elem, 1) => of::<B, $rust, 1>(device, stream, value),
                (Elem::$elem, 2) => of::<B, $rust, 2>(device, stream, value),
                (Elem::$elem, 3) => of::<B, $rust, 3>(device, stream, value),
                (Elem::$elem, _) => of::<B, $rust, 4>(device, stream, value),)*
            }
        };
    }
    by_type!(F32 f32, F16 f16, BF16 bf16, I32 i32, I64 i64, U32 u32, U8 u8)
}

/// Where a static input lies: buffer, first byte, bytes.
fn memory<'a, B: SuiteOps>(
    inputs: &NamedInputs<'a, B>,
    io: &IoSchema,
) -> Result<(&'a B::Buffer, usize, usize)> {
    fn of<'a, B: SuiteOps, T: Element, const R: usize>(
        view: In<'a, B, T, R>,
    ) -> (&'a B::Buffer, usize, usize) {
        (view.buffer(), view.offset(), view.len() * size_of::<T>())
    }
    macro_rules! by_type {
        ($($elem:ident $rust:ty),*) => {
            match (io.elem, io.rank) {
                $((Elem::$elem, 1) => inputs.get::<$rust, 1>(io.name).map(of),
                (Elem::$elem, 2) => inputs.get::<$rust, 2>(io.name).map(of),
                (Elem::$elem, 3) => inputs.get::<$rust, 3>(io.name).map(of),
                (Elem::$elem, _) => inputs.get::<$rust, 4>(io.name).map(of),)*
            }
        };
    }
    by_type!(F32 f32, F16 f16, BF16 bf16, I32 i32, I64 i64, U32 u32, U8 u8)
}
