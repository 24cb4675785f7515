//! A wire is device memory.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, self.hidden], host, wire = h[0])]
#[output(y: f32 [tokens, self.hidden])]
pub struct R<B: Backend> {
    hidden: usize,
    model: Arc<Model<B>>,
}

include!("../common/author.rs");

fn main() {}
