//! A second call while the output of the first lives.
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

fn twice(r: &mut Runner<R<Nothing>>, x: &Tensor<Nothing, f32, 2>) -> Result<()> {
    let a = r.run(RArgs { x }, &[1])?;
    let b = r.run(RArgs { x }, &[1])?;
    drop((a, b));
    Ok(())
}

fn main() {}
