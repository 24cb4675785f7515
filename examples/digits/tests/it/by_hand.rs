//! The digits region written by hand against the traits, beside the derived one.

use digits_plugin::{Classify, ClassifyArgs, DigitsModel, DigitsOptions, Images, PATCH, Pixels, TOKENS};
use graph_core::{
    Dims, Elem, Engine, HandWritten, HandWrittenTable, HostTensor, IoSchema, Location, NamedArgs, On,
    PiecewiseBatchedConfig, RegionEntry, Registry, Schema, Shape, Source, Statics,
};
use graph_host::Host;

static SCHEMA: Schema = Schema::new(
    "digits",
    "classify",
    "batched(seq_len = 16), batch_sizes = [1, 2, 4, 8, 16, 32]",
    &[IoSchema::host("patches", Elem::F32, 2, "[tokens, 4]")],
    &[IoSchema::device("logits", Elem::F32, 2, "[bs, self.classes]")],
);

static BY_HAND: HandWrittenTable<Host> = HandWrittenTable(|loader| {
    let model = loader.submodule::<DigitsModel<Host>>("digits")?;
    let classes = model.config().classes;
    let config = PiecewiseBatchedConfig::new(TOKENS).capture_batch_sizes([1, 2, 4, 8, 16, 32]);
    let make_static_inputs = move |shape: &Shape, statics: &mut Statics| {
        statics.input("patches", [shape.total_tokens, PATCH]).output("logits", [shape.bs, classes]);
    };
    Ok(vec![HandWritten::<Host>::new(&SCHEMA, config, make_static_inputs, move |cx, call| {
        model.forward(cx, call.inputs.get("patches")?, call.outputs.get("logits")?)
    })])
});

static ENTRY: RegionEntry = RegionEntry {
    schema: &SCHEMA,
    at: Location { krate: env!("CARGO_PKG_NAME"), file: file!(), line: line!() },
    on: &[On::hand_written(&BY_HAND)],
};

fn engine(regions: Vec<&'static RegionEntry>) -> Engine<Host> {
    let registry = Registry::from_entries(regions, vec![], vec![]).unwrap();
    Engine::builder(Host::new()).build(&registry).unwrap()
}

#[test]
fn schema_buckets_static_bytes_and_outputs_are_the_same() {
    let derived_entries = Registry::collect().unwrap().regions().to_vec();
    assert_eq!(derived_entries.iter().map(|e| e.schema).collect::<Vec<_>>(), [&SCHEMA]);
    let (mut derived_engine, mut by_hand_engine) = (engine(derived_entries), engine(vec![&ENTRY]));
    let mut derived = derived_engine.runners().take_one::<Classify<Host>>().unwrap();
    let mut by_hand = by_hand_engine.runners().take_one::<HandWritten<Host>>().unwrap();
    let sizes = |all: &[graph_core::BucketCount]| all.iter().map(|b| (b.dims, b.bytes)).collect::<Vec<_>>();
    assert_eq!(sizes(&derived.stats().buckets), sizes(&by_hand.stats().buckets));

    let images = Images::read(&DigitsOptions::default().dir.join("test_images.json")).unwrap().images;
    // Five images run in the bucket of eight; before that eight, so that padding has something to overwrite.
    for n in [8, 5] {
        let pixels: Vec<f32> = images[..n].iter().flat_map(Pixels::tokens).collect();
        let patches = HostTensor::new(&pixels, [n * TOKENS, PATCH]).unwrap();
        let lens = vec![TOKENS; n];
        let y = derived.run(ClassifyArgs { patches }, &lens).unwrap();
        assert_eq!(y.reason(), None);
        let y = y.into_out().logits.to_vec(derived_engine.stream()).unwrap();
        let args = [("patches", Source::host::<f32, 2>(&patches))];
        let outcome = by_hand.run(NamedArgs(&args), &lens).unwrap();
        let z = outcome.into_out().take::<f32, 2>("logits").unwrap().to_vec(by_hand_engine.stream()).unwrap();
        let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&y), bits(&z));

        let dims = Dims { bs: n, tokens: n * TOKENS };
        let (a, b) =
            (derived.static_input("patches", dims).unwrap(), by_hand.static_input("patches", dims).unwrap());
        assert_eq!(a, b);
        let real = n * TOKENS * PATCH * size_of::<f32>();
        assert_eq!(a.len(), 8 * TOKENS * PATCH * size_of::<f32>());
        assert!(a[real..].iter().all(|byte| *byte == 0), "invariant 1: padding is zero");
        assert_eq!(a[..real], pixels.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>());
    }
}
