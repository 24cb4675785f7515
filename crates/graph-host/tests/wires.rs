//! Regions that pass their outputs on through wires: no copy, and nobody overwrites what is held (invariant 4).

use graph_core::{
    Backend, CallInputs, Cx, DeviceInput, Elem, Engine, ErrorKind, HandWritten, HandWrittenTable, IoSchema,
    Loader, Location, NamedArgs, On, OutTensor, PiecewiseBatchedConfig, RegionEntry, Registry, Result,
    Runner, Schema, Source, Tensor, Wire,
};
use graph_host::Host;

static LAYER: Schema = Schema::new(
    "chain",
    "layer",
    "batched(seq_len = 1), batch_sizes = [4]",
    &[IoSchema::device("h", Elem::F32, 1, "[bs]")],
    &[IoSchema::device("h", Elem::F32, 1, "[bs]")],
);

fn layers(_: &mut Loader<'_, Host>) -> Result<Vec<HandWritten<Host>>> {
    let layer = |layer: usize| {
        let wire = |index| Wire { name: "h", index };
        HandWritten::new(
            &LAYER,
            PiecewiseBatchedConfig::new(1).capture_batch_sizes([4]),
            move |shape, s| {
                s.wired_input("h", [shape.bs], wire(layer)).wired_output("h", [shape.bs], wire(layer + 1));
            },
            move |cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>| {
                let (x, y) = (call.inputs.get::<f32, 1>("h")?, call.outputs.get::<f32, 1>("h")?);
                cx.stream().kernel("layer", (x,), (y,), move |(x,), (y,)| {
                    y.iter_mut().zip(x).for_each(|(y, x)| *y = 10.0 * x + layer as f32);
                })
            },
        )
    };
    Ok(vec![layer(0), layer(1)])
}

type Layer = Runner<HandWritten<Host>>;

fn engine() -> Engine<Host> {
    static TABLE: HandWrittenTable<Host> = HandWrittenTable(layers);
    static ON: [On; 1] = [On::hand_written(&TABLE)];
    static ENTRY: RegionEntry =
        RegionEntry { schema: &LAYER, at: Location { krate: "chain", file: "chain.rs", line: 1 }, on: &ON };
    Engine::builder(Host::new())
        .build(&Registry::from_entries(vec![&ENTRY], vec![], vec![]).unwrap())
        .unwrap()
}

fn run<'r>(
    layer: &'r mut Layer,
    h: impl DeviceInput<Host, f32, 1>,
    n: usize,
) -> Result<OutTensor<'r, Host, f32, 1>> {
    let h = [("h", Source::device(&h))];
    layer.run(NamedArgs(&h), &[1; 4][..n])?.into_out().take("h")
}

#[test]
fn invariant_04_wires_carry_outputs_without_a_copy_and_hold_them() {
    let mut engine = engine();
    let (host, stream) = (engine.device().clone(), engine.stream().clone());
    let mut layers = engine.runners().take_named::<HandWritten<Host>>("chain.layer").unwrap();
    let [first, second] = &mut layers[..] else { panic!("two layers") };
    let x = Tensor::<Host, f32, 1>::from_slice(&host, &stream, &[1.0, 2.0, 3.0], [3]).unwrap();

    let before = host.issued();
    let middle = run(first, &x, 3).unwrap().hold();
    assert_eq!(host.issued() - before, 2, "one copy in, one launch");
    let last = run(second, &middle, 3).unwrap().hold();
    assert_eq!(host.issued() - before, 3, "the second layer reads where the first has written");
    assert_eq!(middle.to_vec(&stream).unwrap(), [10.0, 20.0, 30.0]);
    assert_eq!(last.to_vec(&stream).unwrap(), [101.0, 201.0, 301.0]);

    let error = run(first, x.view().rows(0..2).unwrap(), 2).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::OutputHeld { output: "h", .. }), "{error}");
    drop(middle);
    // `last` lies on the wire that the first layer reads: staging `x` there would overwrite it.
    let error = run(first, x.view().rows(0..2).unwrap(), 2).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::InputHeld { input: "h", .. }), "{error}");
    assert_eq!(last.to_vec(&stream).unwrap(), [101.0, 201.0, 301.0]);
    let third = run(first, &last, 3).unwrap();
    assert_eq!(third.to_vec(&stream).unwrap(), [1010.0, 2010.0, 3010.0], "but it may be passed on");
}
