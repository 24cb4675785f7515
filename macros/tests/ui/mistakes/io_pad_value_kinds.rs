//! Pad values of the wrong kind.
include!("../common/prelude.rs");

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, self.hidden], pad = value(0))]
#[input(a: i32 [tokens], pad = value(1.5))]
#[input(b: u32 [tokens], pad = value(-1))]
#[input(c: bf16 [tokens], pad = value("0"))]
#[input(d: u8 [tokens], pad = value(true))]
#[input(e: i64 [tokens], pad = value())]
#[output(y: f32 [tokens, self.hidden])]
pub struct R<B: Backend> {
    hidden: usize,
    model: Arc<Model<B>>,
}

include!("../common/author.rs");

fn main() {}
