//! Too many dimensions.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, self.hidden])]
#[output(y: f32 [tokens, 1, 2, 3, self.hidden])]
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
    fn forward(&self, _: &mut Cx<'_, B>, x: &RInputs<'_, B>, y: &ROutputs<'_, B>) -> Result<()> {
        let _: ([usize; 2], [usize; 5]) = (x.x.dims(), y.y.dims());
        Ok(())
    }
}

fn main() {}
