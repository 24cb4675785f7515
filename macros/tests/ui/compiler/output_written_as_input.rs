//! An input is written to.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, self.hidden])]
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
        x.x.copy_from(cx.stream(), y.y.read())
    }
}

fn main() {}
