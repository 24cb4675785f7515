//! A second parameter without its elements.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, self.hidden])]
#[output(y: f32 [tokens, self.hidden])]
#[allow(dead_code)]
struct R<B: Backend, T: graph_core::Element> {
    hidden: usize,
    model: Arc<Model<B>>,
    scale: T,
}

impl<B: Backend, T: graph_core::Element> Region for R<B, T> {
    type Submodule = Model<B>;
    fn instances(_: &Arc<Model<B>>) -> Vec<Arc<Self>> {
        vec![]
    }
    fn forward(&self, cx: &mut Cx<'_, B>, x: &RInputs<'_, B>, y: &ROutputs<'_, B>) -> Result<()> {
        y.y.copy_from(cx.stream(), x.x)
    }
}

fn main() {}
