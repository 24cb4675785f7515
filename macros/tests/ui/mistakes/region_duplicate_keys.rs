//! Keys that are given twice, also in two attributes.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", node = "m", name = "r", packed(total_tokens = [16]))]
#[region(name = "q")]
#[input(x: f32 [tokens, self.hidden])]
#[output(y: f32 [tokens, self.hidden])]
pub struct R<B: Backend> {
    hidden: usize,
    model: Arc<Model<B>>,
}

include!("../common/author.rs");
include!("../common/caller.rs");

fn main() {}
