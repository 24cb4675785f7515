//! Too many dimensions.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, self.hidden])]
#[output(y: f32 [tokens, 1, 2, 3, self.hidden])]
pub struct R<B: Backend> {
    hidden: usize,
    model: Arc<Model<B>>,
}

include!("../common/author.rs");
