//! The derive against the same written by hand, and a derived region from registration to replay.

use std::{marker::PhantomData, sync::Arc};

use graph_core::{
    Backend, Cx, Dims, Elem, Engine, HandWritten, HostTensor, In, IoSchema, LoadCx, Out, Outcome, Pad,
    PiecewiseConfigType, PiecewisePackedConfig, PiecewiseRegion, Region, RegionSpec, Registry, Result,
    Schema, Shape, Statics, Submodule, Tensor, Wire,
};
use graph_host::Host;

graph_core::backends!(Host);

/// What the regions here need of a backend.
trait Ops: Backend {
    fn add_ids(
        stream: &Self::Stream,
        x: (In<'_, Self, f32, 2>, In<'_, Self, i32, 2>),
        y: (Out<'_, Self, f32, 2>, Out<'_, Self, f32, 1>),
    ) -> Result<()>;
}

impl Ops for Host {
    /// `y = x` plus the token's ids; `sums` has everything that was read, padding too.
    fn add_ids(
        stream: &Self::Stream,
        (x, ids): (In<'_, Self, f32, 2>, In<'_, Self, i32, 2>),
        (y, sums): (Out<'_, Self, f32, 2>, Out<'_, Self, f32, 1>),
    ) -> Result<()> {
        let [tokens, width] = x.dims();
        stream.kernel("add_ids", (x, ids), (y, sums), move |(x, ids), (y, sums)| {
            for (i, y) in y.iter_mut().enumerate() {
                *y = x[i] + (0..3).map(|axis| ids[axis * tokens + i / width] as f32).sum::<f32>();
            }
            sums[0] = x.iter().sum();
            sums[1] = ids.iter().sum::<i32>() as f32;
        })
    }
}

struct Model;
impl<B: Backend> Submodule<B> for Model {
    fn load(_: &LoadCx<'_, B>) -> Result<Self> {
        Ok(Model)
    }
}

#[derive(PiecewiseRegion)]
#[region(node = "llama", name = "mlp", packed(total_tokens = [4, 8]))]
#[input(hidden: f32 [tokens, self.hidden], pad = value(100.0), wire = h[self.layer])]
#[input(ids:    i32 [3, tokens], host, pad = value(-1))]
#[output(hidden: f32 [tokens, self.hidden], wire = h[self.layer + 1])]
#[output(sums:   f32 [2])]
pub(crate) struct Mlp<B: Ops> {
    hidden: usize,
    layer: usize,
    backend: PhantomData<B>,
}

impl<B: Ops> Region for Mlp<B> {
    type Submodule = Model;
    fn instances(_: &Arc<Model>) -> Vec<Arc<Self>> {
        (0..2).map(|layer| Arc::new(Mlp { hidden: 2, layer, backend: PhantomData })).collect()
    }
    fn forward(&self, cx: &mut Cx<'_, B>, x: &MlpInputs<'_, B>, y: &MlpOutputs<'_, B>) -> Result<()> {
        B::add_ids(cx.stream(), (x.hidden, x.ids), (y.hidden, y.sums))
    }
}

static BY_HAND: Schema = Schema::new(
    "llama",
    "mlp",
    "packed(total_tokens = [4, 8])",
    &[
        IoSchema::device("hidden", Elem::F32, 2, "[tokens, self.hidden]").pad(Pad::f32(100.0)),
        IoSchema::host("ids", Elem::I32, 2, "[3, tokens]").axis(1).pad(Pad::i32(-1)),
    ],
    &[
        IoSchema::device("hidden", Elem::F32, 2, "[tokens, self.hidden]"),
        IoSchema::device("sums", Elem::F32, 1, "[2]"),
    ],
)
.per_total();

fn by_hand() -> HandWritten<Host> {
    HandWritten::new(
        &BY_HAND,
        PiecewisePackedConfig::new([4, 8]),
        |shape, statics| {
            statics
                .wired_input("hidden", [shape.total_tokens, 2], Wire { name: "h", index: 3 })
                .input("ids", [3, shape.total_tokens])
                .wired_output("hidden", [shape.total_tokens, 2], Wire { name: "h", index: 4 })
                .output("sums", [2]);
        },
        |_, _| Ok(()),
    )
}

fn derived() -> Mlp<Host> {
    Mlp { hidden: 2, layer: 3, backend: PhantomData }
}

#[test]
fn schema_sizes_and_configuration_are_those_written_by_hand() {
    let (derived, by_hand) = (derived(), by_hand());
    assert_eq!(derived.schema(), by_hand.schema());
    for shape in [Shape::packed(8, 2).unwrap(), Shape::packed(5, 1).unwrap()] {
        let (mut got, mut want) = (Statics::default(), Statics::default());
        derived.make_static_inputs(&shape, &mut got);
        by_hand.make_static_inputs(&shape, &mut want);
        assert_eq!(got, want);
        assert_eq!(derived.in_rows(shape.dims())[..], by_hand.in_rows(shape.dims())[..]);
        assert_eq!(derived.out_rows(shape.dims())[..], by_hand.out_rows(shape.dims())[..]);
    }
    let (got, want) = (derived.config(), by_hand.config());
    assert_eq!(format!("{got:?}"), format!("{want:?}"));
    assert_eq!(got.config_type(), PiecewiseConfigType::Packed);
}

#[test]
fn it_is_registered_with_its_file_and_line() {
    let registry = Registry::collect().unwrap();
    let [entry] = registry.regions() else { panic!("{:?}", registry.regions()) };
    assert_eq!(entry.schema, &BY_HAND);
    assert_eq!(entry.at.krate, env!("CARGO_PKG_NAME"));
    assert!(entry.at.file.ends_with("tests/region.rs"), "{}", entry.at);
    let line = include_str!("region.rs").lines().position(|l| l.contains("struct Mlp<")).unwrap() + 1;
    assert_eq!(entry.at.line as usize, line);
    assert_eq!(entry.on.iter().map(|on| on.backend()).collect::<Vec<_>>(), ["host"]);
}

#[test]
fn a_replay_pads_what_is_declared_and_gives_back_real_rows() {
    let mut engine = Engine::builder(Host::new()).build(&Registry::collect().unwrap()).unwrap();
    let (host, stream) = (engine.device().clone(), engine.stream().clone());
    let mut layers = engine.runners().take::<Mlp<Host>>().unwrap();
    assert_eq!(layers.len(), 2);
    assert_eq!(layers[0].bucket_for(Dims { bs: 2, tokens: 5 }).unwrap().tokens, 8);

    let x: Vec<f32> = (0..10).map(|x| x as f32).collect();
    let x = Tensor::from_slice(&host, &stream, &x, [5, 2]).unwrap();
    let ids: Vec<i32> = (0..15).collect();
    let ids = HostTensor::new(&ids, [3, 5]).unwrap();
    let [first, second] = &mut layers[..] else { unreachable!() };

    let a = first.run(MlpArgs { hidden: &x, ids }, &[3, 2]).unwrap();
    assert!(matches!(a, Outcome::Replayed(_)));
    let a = a.into_out();
    let want: Vec<f32> = (0..10).map(|i| (i + 3 * (i / 2) + 15) as f32).collect();
    assert_eq!(a.hidden.dims(), [5, 2]);
    assert_eq!(a.hidden.to_vec(&stream).unwrap(), want);
    // Three rows of padding: two columns of 100, and three ids of -1.
    assert_eq!(a.sums.to_vec(&stream).unwrap(), [45.0 + 600.0, 105.0 - 9.0]);

    // The second layer's input is the first one's output, where it lies.
    let b = second.run(MlpArgs { hidden: &a.hidden, ids }, &[3, 2]).unwrap().into_out();
    let want: Vec<f32> = (0..10).map(|i| (i + 2 * (3 * (i / 2) + 15)) as f32).collect();
    assert_eq!(b.hidden.to_vec(&stream).unwrap(), want);
    drop((a, b));

    // No bucket: the same forward at the exact size.
    let x = Tensor::zeros(&host, &stream, [9, 2]).unwrap();
    let ids: Vec<i32> = vec![1; 27];
    let out = first.run(MlpArgs { hidden: &x, ids: HostTensor::new(&ids, [3, 9]).unwrap() }, &[9]).unwrap();
    assert!(out.reason().is_some());
    let out = out.into_out();
    assert_eq!(out.hidden.to_vec(&stream).unwrap(), [3.0; 18]);
    assert_eq!(out.sums.to_vec(&stream).unwrap(), [0.0, 27.0]);
}
