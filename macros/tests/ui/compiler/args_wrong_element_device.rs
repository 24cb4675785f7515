//! A tensor of another element.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, self.hidden])]
#[input(ids: i32 [tokens], host)]
#[output(y: f32 [tokens, self.hidden])]
pub struct R<B: Backend> {
    hidden: usize,
    model: Arc<Model<B>>,
}

impl<B: Backend> Region for R<B> {
    type Submodule = Model<B>;
    fn instances(model: &Arc<Model<B>>) -> Vec<Arc<Self>> {
        vec![Arc::new(R { hidden: 8, model: model.clone() })]
    }
    fn forward(&self, cx: &mut Cx<'_, B>, x: &RInputs<'_, B>, y: &ROutputs<'_, B>) -> Result<()> {
        let _ = (x.ids, &self.model);
        y.y.copy_from(cx.stream(), x.x)
    }
}

fn wrong(r: &mut Runner<R<Nothing>>, x: &Tensor<Nothing, i32, 2>) {
    let _ = r.run(RArgs { x, ids: &[1] }, &[1]);
}

fn main() {}
