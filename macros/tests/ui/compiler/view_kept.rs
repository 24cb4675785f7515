//! A view is kept in `self`.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, self.hidden])]
#[output(y: f32 [tokens, self.hidden])]
#[allow(dead_code)]
pub struct R<B: Backend> {
    hidden: usize,
    model: Arc<Model<B>>,
    keep: std::sync::Mutex<Vec<graph_core::In<'static, B, f32, 2>>>,
}

impl<B: Backend> Region for R<B> {
    type Submodule = Model<B>;
    fn instances(_: &Arc<Model<B>>) -> Vec<Arc<Self>> {
        vec![]
    }
    fn forward(&self, _: &mut Cx<'_, B>, x: &RInputs<'_, B>, y: &ROutputs<'_, B>) -> Result<()> {
        let _ = y;
        self.keep.lock().unwrap().push(x.x);
        Ok(())
    }
}

fn main() {}
