//! Names that are no names.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "Llama 3", name = "mlp/gate", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, self.hidden])]
#[output(y: f32 [tokens, self.hidden])]
pub struct R<B: Backend> {
    hidden: usize,
    model: Arc<Model<B>>,
}

include!("../common/author.rs");
include!("../common/caller.rs");

fn main() {}
