//! The derive's output, at run time.

use std::sync::Arc;

use graph_core::{
    Backend, Cx, Dims, Elem, IoSchema, LoadCx, Pad, PiecewiseConfigType, PiecewiseRegion, Region, RegionSpec,
    Registry, Result, Schema, Shape, Statics, Submodule, Wire,
};
use nothing::Nothing;

#[path = "ui/common/nothing.rs"]
mod nothing;

graph_core::backends!(Nothing);

trait Ops: Backend {}
impl Ops for Nothing {}

struct Model<B: Ops>(std::marker::PhantomData<B>);
impl<B: Ops> Submodule<B> for Model<B> {
    fn load(_: &LoadCx<'_, B>) -> Result<Self> {
        Ok(Model(std::marker::PhantomData))
    }
}

#[derive(PiecewiseRegion)]
#[region(node = "llama", name = "mlp", packed(total_tokens = [16, 64, 256]))]
#[input(hidden: f32 [tokens, self.hidden], pad = zero, wire = h[self.layer])]
#[input(ids:    i32 [3, tokens], host, pad = value(-1))]
#[input(scale:  bf16 [self.hidden / 2], pad = repeat_last)]
#[output(hidden: f16 [tokens, self.hidden], wire = h[self.layer + 1])]
pub(crate) struct Mlp<B: Ops> {
    hidden: usize,
    layer: usize,
    #[allow(dead_code)]
    model: Arc<Model<B>>,
}

impl<B: Ops> Region for Mlp<B> {
    type Submodule = Model<B>;
    fn instances(m: &Arc<Model<B>>) -> Vec<Arc<Self>> {
        vec![Arc::new(Mlp { hidden: 8, layer: 3, model: m.clone() })]
    }
    fn forward(&self, _: &mut Cx<'_, B>, x: &MlpInputs<'_, B>, y: &MlpOutputs<'_, B>) -> Result<()> {
        let _ = (x.hidden.dims(), y.hidden.dims());
        Ok(())
    }
}

static BY_HAND: Schema = Schema::new(
    "llama",
    "mlp",
    "packed(total_tokens = [16, 64, 256])",
    &[
        IoSchema::device("hidden", Elem::F32, 2, "[tokens, self.hidden]"),
        IoSchema::host("ids", Elem::I32, 2, "[3, tokens]").axis(1).pad(Pad::i32(-1)),
        IoSchema::device("scale", Elem::BF16, 1, "[self.hidden / 2]").pad(Pad::RepeatLast),
    ],
    &[IoSchema::device("hidden", Elem::F16, 2, "[tokens, self.hidden]")],
)
.per_total();

fn mlp() -> Mlp<Nothing> {
    Mlp { hidden: 8, layer: 3, model: Arc::new(Model(std::marker::PhantomData)) }
}

#[test]
fn the_schema_is_the_one_that_is_written_by_hand() {
    assert_eq!(*mlp().schema(), BY_HAND);
}

#[test]
fn sizes_follow_the_expressions() {
    let mlp = mlp();
    let mut statics = Statics::default();
    mlp.make_static_inputs(&Shape::packed(64, 2).unwrap(), &mut statics);
    let mut want = Statics::default();
    want.wired_input("hidden", [64, 8], Wire { name: "h", index: 3 });
    want.input("ids", [3, 64]);
    want.input("scale", [4]);
    want.wired_output("hidden", [64, 8], Wire { name: "h", index: 4 });
    assert_eq!(statics, want);
    assert_eq!(mlp.in_rows(Dims { bs: 1, tokens: 5 }), [5, 5, 4]);
    assert_eq!(mlp.out_rows(Dims { bs: 1, tokens: 5 }), [5]);
    let config = mlp.config();
    assert_eq!(config.config_type(), PiecewiseConfigType::Packed);
    assert_eq!((config.compile(), config.lease_before_step()), (false, false));
}

#[test]
fn it_is_registered_with_its_file_and_line() {
    let registry = Registry::collect().unwrap();
    let entry = registry.regions().iter().find(|e| e.schema.name == "mlp").unwrap();
    assert_eq!(entry.schema, &BY_HAND);
    assert_eq!(entry.at.krate, "graph-macros");
    assert!(entry.at.file.ends_with("tests/region.rs"), "{}", entry.at);
    let line = include_str!("region.rs").lines().position(|l| l.contains("struct Mlp<")).unwrap() + 1;
    assert_eq!(entry.at.line as usize, line);
    assert_eq!(entry.on.iter().map(|o| o.backend()).collect::<Vec<_>>(), ["nothing"]);
}
