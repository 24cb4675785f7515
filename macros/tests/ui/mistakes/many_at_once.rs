//! Everything that is wrong is reported at once, each at its place.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "Llama", nmae = "r", packed(total_tokens = [16, 0]), compile = maybe)]
#[input(x: f64 [tokens, self.hidden], pad = zero)]
#[input(ids: i32 [tokens], host, pad = value(0.5), wire = h[0])]
#[input(ids: i32 [bs, tokens], host)]
#[output(y: f32 [self.hidden, tokens], pad = zero)]
pub struct R<B: Backend> {
    hidden: usize,
    model: Arc<Model<B>>,
}

include!("../common/author.rs");

fn main() {}
