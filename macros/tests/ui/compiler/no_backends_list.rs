//! The crate has no `backends!` list.
use graph_core::{Backend, Cx, PiecewiseRegion, Region, Result};
use std::sync::Arc;

struct Model<B>(std::marker::PhantomData<B>);
impl<B: Backend> graph_core::Submodule<B> for Model<B> {
    fn load(_: &graph_core::LoadCx<'_, B>) -> Result<Self> {
        unimplemented!()
    }
}

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, self.hidden])]
#[output(y: f32 [tokens, self.hidden])]
#[allow(dead_code)]
struct R<B: Backend> {
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
