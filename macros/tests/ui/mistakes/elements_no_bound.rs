//! An element parameter without a bound.
include!("../common/prelude.rs");

use graph_core::Element;

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]), elements(A = [f32, bf16]))]
#[input(x: A [tokens, self.hidden])]
#[output(y: A [tokens, self.hidden])]
pub struct R<B: Backend, A> {
    hidden: usize,
    model: Arc<Model<B>>,
    element: std::marker::PhantomData<A>,
}

impl<B: Backend, A: Element> Region for R<B, A> {
    type Submodule = Model<B>;
    fn instances(_: &Arc<Model<B>>) -> Vec<Arc<Self>> {
        vec![]
    }
    fn forward(&self, _: &mut Cx<'_, B>, x: &RInputs<'_, B, A>, y: &ROutputs<'_, B, A>) -> Result<()> {
        let _ = (x.x, y.y);
        Ok(())
    }
}

fn main() {}
