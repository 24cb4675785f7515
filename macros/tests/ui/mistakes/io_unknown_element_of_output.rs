//! An element that does not exist, and a path to one that does.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f16 [tokens, self.hidden])]
#[output(y: half::f16 [tokens, self.hidden])]
pub struct R<B: Backend> {
    hidden: usize,
    model: Arc<Model<B>>,
}

include!("../common/author.rs");

fn main() {}
