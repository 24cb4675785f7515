//! A tuple struct.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, 8])]
#[output(y: f32 [tokens, 8])]
#[allow(dead_code)]
struct R<B: Backend>(Arc<Model<B>>);

fn use_them(_: &RInputs<'_, Nothing>, y: &ROutputs<'_, Nothing>) -> [usize; 2] {
    y.y.dims()
}

fn main() {}
