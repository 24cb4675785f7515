//! Inputs and outputs that are not complete.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, self.hidden])]
#[input]
#[input()]
#[input(a)]
#[input(b: [tokens])]
#[input(c: f32)]
#[input(d: f32 [tokens,, 2])]
#[input(type: f32 [tokens])]
#[output(y: f32 [tokens, self.hidden])]
#[output(2: f32 [tokens])]
pub struct R<B: Backend> {
    hidden: usize,
    model: Arc<Model<B>>,
}

include!("../common/author.rs");

fn main() {}
