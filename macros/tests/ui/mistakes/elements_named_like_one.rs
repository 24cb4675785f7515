//! An element parameter with the name of an element.
#![allow(non_camel_case_types)]
include!("../common/prelude.rs");

use graph_core::Element;

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]), elements(u8 = [f32, bf16]))]
#[input(x: f32 [tokens, self.hidden])]
#[output(y: f32 [tokens, self.hidden])]
pub struct R<B: Backend, u8: Element> {
    hidden: usize,
    model: Arc<Model<B>>,
    element: std::marker::PhantomData<u8>,
}

impl<B: Backend, A: Element> Region for R<B, A> {
    type Submodule = Model<B>;
    fn instances(_: &Arc<Model<B>>) -> Vec<Arc<Self>> {
        vec![]
    }
    fn forward(&self, _: &mut Cx<'_, B>, _: &RInputs<'_, B, A>, _: &ROutputs<'_, B, A>) -> Result<()> {
        Ok(())
    }
}

fn main() {}
