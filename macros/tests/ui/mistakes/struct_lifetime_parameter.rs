//! A lifetime parameter.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, self.hidden])]
#[output(y: f32 [tokens, self.hidden])]
#[allow(dead_code)]
struct R<'w, B: Backend> {
    hidden: usize,
    weights: &'w [f32],
    model: Arc<Model<B>>,
}

fn use_them(_: &RInputs<'_, Nothing>, y: &ROutputs<'_, Nothing>) -> [usize; 2] {
    y.y.dims()
}

fn main() {}
