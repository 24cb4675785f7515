//! A size that is not known before a call.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", batched(seq_len = tokens / bs))]
#[input(x: f32 [tokens, self.hidden])]
#[output(y: f32 [tokens, self.hidden])]
pub struct R<B: Backend> {
    hidden: usize,
    model: Arc<Model<B>>,
}

include!("../common/author.rs");
include!("../common/caller.rs");

fn main() {}
