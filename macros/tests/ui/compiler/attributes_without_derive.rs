//! The attributes belong to the derive.
include!("../common/prelude.rs");

#[derive(Debug)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens, self.hidden])]
#[output(y: f32 [tokens, self.hidden])]
struct R {}

fn main() {}
