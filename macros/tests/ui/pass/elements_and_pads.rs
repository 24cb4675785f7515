//! Every element, every pad, every option.
#![allow(dead_code)]
include!("../common/prelude.rs");
use graph_core::{Elem, Pad, RegionSpec, bf16, f16};

const IGNORED: i32 = -100;

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r_0-x", compile = true, lease_before_step = true)]
#[region(packed(total_tokens = [16, 32]), backend = Nothing)]
#[input(a: f32 [tokens], pad = value(f32::NEG_INFINITY))]
#[input(b: f16 [tokens], pad = value(-1.5))]
#[input(c: bf16 [tokens], pad = value(bf16::ONE))]
#[input(d: i32 [1, 2, 3, tokens], host, pad = value(IGNORED))]
#[input(e: i64 [tokens], pad = value(-1),)]
#[input(f: u32 [tokens], pad = value(7))]
#[input(g: u8 [tokens], pad = value(b'x'))]
#[input(h: u8 [tokens], pad = zero)]
#[input(i: f16 [self.0], pad = repeat_last)]
#[output(a: u8 [4],)]
struct R {
    _0: usize,
}
impl std::ops::Deref for R {
    type Target = (usize,);
    fn deref(&self) -> &(usize,) {
        &(5,)
    }
}

impl Region for R {
    type Submodule = Model<Nothing>;
    fn instances(_: &Arc<Model<Nothing>>) -> Vec<Arc<Self>> {
        vec![]
    }
    fn forward(&self, _: &mut Cx<'_, Nothing>, _: &RInputs<'_>, _: &ROutputs<'_>) -> Result<()> {
        Ok(())
    }
}

fn main() {
    let r = R { _0: 3 };
    let got: Vec<_> = r.schema().inputs.iter().map(|io| (io.name, io.elem, io.rank, io.pad)).collect();
    let want = [
        ("a", Elem::F32, 1, Pad::f32(f32::NEG_INFINITY)),
        ("b", Elem::F16, 1, Pad::f16(f16::from_f32(-1.5))),
        ("c", Elem::BF16, 1, Pad::bf16(bf16::ONE)),
        ("d", Elem::I32, 4, Pad::i32(-100)),
        ("e", Elem::I64, 1, Pad::i64(-1)),
        ("f", Elem::U32, 1, Pad::u32(7)),
        ("g", Elem::U8, 1, Pad::u8(120)),
        ("h", Elem::U8, 1, Pad::Zero),
        ("i", Elem::F16, 1, Pad::RepeatLast),
    ];
    assert_eq!(got, want);
    assert_eq!(r.schema().inputs[3].axis, 3);
    assert!(r.config().compile() && r.config().lease_before_step());
    assert_eq!(r.config().capture_batch_sizes(), None);
    assert!(!r.schema().names_bs);
    assert_eq!(r.in_rows(graph_core::Dims { bs: 1, tokens: 2 }), [2, 2, 2, 2, 2, 2, 2, 2, 5]);
}
