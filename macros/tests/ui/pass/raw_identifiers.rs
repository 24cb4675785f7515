//! Names that are keywords.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]), backend = Nothing)]
#[input(r#type: f32 [tokens, self.r#in], wire = r#loop[self.r#in])]
#[output(r#match: f32 [tokens, self.r#in])]
#[allow(non_camel_case_types)]
struct r#fn {
    r#in: usize,
}

impl Region for r#fn {
    type Submodule = Model<Nothing>;
    fn instances(_: &Arc<Model<Nothing>>) -> Vec<Arc<Self>> {
        vec![]
    }
    fn forward(&self, cx: &mut Cx<'_, Nothing>, x: &fnInputs<'_>, y: &fnOutputs<'_>) -> Result<()> {
        y.r#match.copy_from(cx.stream(), x.r#type)
    }
}

fn main() {
    use graph_core::{RegionSpec, Shape, Statics, Wire};
    let (mut statics, mut want) = (Statics::default(), Statics::default());
    let r = r#fn { r#in: 7 };
    r.make_static_inputs(&Shape::batched(1, 2), &mut statics);
    want.wired_input("type", [2, 7], Wire { name: "loop", index: 7 }).output("match", [2, 7]);
    assert_eq!(statics, want);
    assert_eq!((r.schema().inputs[0].name, r.schema().outputs[0].name), ("type", "match"));
}
