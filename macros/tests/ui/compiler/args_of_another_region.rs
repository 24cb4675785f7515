//! The arguments of another region.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, self.hidden])]
#[output(y: f32 [tokens, self.hidden])]
pub struct R<B: Backend> {
    hidden: usize,
    model: Arc<Model<B>>,
}

include!("../common/author.rs");
include!("../common/caller.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "q", packed(total_tokens = [16]), backend = Nothing)]
#[input(x: f32 [tokens, 8])]
struct Q {}

impl Region for Q {
    type Submodule = Model<Nothing>;
    fn instances(_: &Arc<Model<Nothing>>) -> Vec<Arc<Self>> {
        vec![]
    }
    fn forward(&self, _: &mut Cx<'_, Nothing>, _: &QInputs<'_>, _: &QOutputs<'_>) -> Result<()> {
        Ok(())
    }
}

fn wrong(r: &mut Runner<R<Nothing>>, x: &Tensor<Nothing, f32, 2>) {
    let _ = r.run(QArgs { x }, &[1]);
}

fn main() {}
