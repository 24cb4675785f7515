//! Elements that there are not, one twice, and a pad value of another kind.
include!("../common/prelude.rs");

use graph_core::Element;

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]), elements(A = [f32, f64, f32, i32]))]
#[input(x: A [tokens, self.hidden], pad = value(0.5))]
#[output(y: A [tokens, self.hidden])]
pub struct R<B: Backend, A: Element> {
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
