//! No backend is named: the one mistake after which nothing can be generated, so the rest is reported as well.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, self.hidden])]
#[output(y: f32 [tokens, self.hidden])]
struct R {
    hidden: usize,
}

impl Region for R {
    type Submodule = Model<Nothing>;
    fn instances(_: &Arc<Model<Nothing>>) -> Vec<Arc<Self>> {
        vec![Arc::new(R { hidden: 8 })]
    }
    fn forward(&self, cx: &mut Cx<'_, Nothing>, x: &RInputs<'_>, y: &ROutputs<'_>) -> Result<()> {
        y.y.copy_from(cx.stream(), x.x)
    }
}

fn main() {}
