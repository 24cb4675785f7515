//! Inputs and outputs that are not complete.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input]
#[input()]
#[input(x)]
#[input(x: [tokens])]
#[input(x: f32)]
#[input(x: f32 [tokens,, 2])]
#[output(2: f32 [tokens])]
pub struct R<B: Backend> {
    hidden: usize,
    model: Arc<Model<B>>,
}

include!("../common/author.rs");
