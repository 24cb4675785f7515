//! A pad value of another type.
include!("../common/prelude.rs");

// The derive stands below the constant.
const PAD: i64 = -1;
#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, self.hidden])]
#[input(z: f32 [tokens], pad = value(PAD))]
#[output(y: f32 [tokens, self.hidden])]
#[allow(dead_code)]
pub struct R<B: Backend> {
    hidden: usize,
    model: Arc<Model<B>>,
}

impl<B: Backend> Region for R<B> {
    type Submodule = Model<B>;
    fn instances(_: &Arc<Model<B>>) -> Vec<Arc<Self>> {
        vec![]
    }
    fn forward(&self, cx: &mut Cx<'_, B>, x: &RInputs<'_, B>, y: &ROutputs<'_, B>) -> Result<()> {
        y.y.copy_from(cx.stream(), x.x)
    }
}

fn main() {}
