//! A bucket size that is no `usize`.
include!("../common/prelude.rs");

// The derive stands below the constant.
const TOTAL: u32 = 64;
#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16, TOTAL]))]
#[input(x: f32 [tokens, self.hidden])]
#[output(y: f32 [tokens, self.hidden])]
pub struct R<B: Backend> {
    hidden: usize,
    model: Arc<Model<B>>,
}

include!("../common/author.rs");
include!("../common/caller.rs");

fn main() {}
