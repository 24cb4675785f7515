//! An inner axis of a device input varies.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [self.hidden, tokens])]
#[output(y: f32 [tokens, self.hidden])]
pub struct R<B: Backend> {
    hidden: usize,
    model: Arc<Model<B>>,
}

include!("../common/author.rs");
include!("../common/caller.rs");

fn main() {}
