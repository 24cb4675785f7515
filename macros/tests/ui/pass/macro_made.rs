//! Structs that a macro writes around names and sizes from elsewhere.
#![allow(dead_code)]
include!("../common/prelude.rs");

macro_rules! region {
    ($name:ident, $text:literal, $elem:ident = $pad:expr, [$($dims:tt)*], $width:expr, $field:ident) => {
        #[derive(PiecewiseRegion)]
        #[region(node = "n", name = $text, packed(total_tokens = [16]), backend = Nothing)]
        #[input(x: $elem [$($dims)*], pad = value($pad), wire = h[$width])]
        #[input(z: $elem [tokens, $width, self.$field])]
        #[output(y: $elem [bs, $width])]
        struct $name {
            $field: usize,
        }

        impl Region for $name {
            type Submodule = Model<Nothing>;
            fn instances(_: &Arc<Model<Nothing>>) -> Vec<Arc<Self>> {
                vec![]
            }
            fn forward(
                &self,
                _: &mut Cx<'_, Nothing>,
                _: &<Self as graph_core::RegionSpec>::Inputs<'_>,
                _: &<Self as graph_core::RegionSpec>::Outputs<'_>,
            ) -> Result<()> {
                Ok(())
            }
        }
    };
}

region!(A, "a", f32 = -1.0, [tokens, self.hidden], 3 + 1, hidden);
region!(B, "b", bf16 = 0.5, [tokens + bs, self.hidden, 2], self.hidden, hidden);
region!(C, "c", i32 = (3), [if bs > 2 { tokens } else { bs }], Self::width(), hidden);

impl C {
    fn width() -> usize {
        9
    }
}

fn main() {
    use graph_core::{Dims, RegionSpec, Shape, Statics};
    let dims = Dims { bs: 2, tokens: 10 };
    assert_eq!((A { hidden: 8 }).in_rows(dims), [10, 10]);
    assert_eq!((B { hidden: 8 }).in_rows(dims), [12, 10]);
    assert_eq!((C { hidden: 8 }).in_rows(dims), [2, 10]);
    let (mut statics, mut want) = (Statics::default(), Statics::default());
    (B { hidden: 8 }).make_static_inputs(&Shape::packed(10, 2).unwrap(), &mut statics);
    want.wired_input("x", [12, 8, 2], graph_core::Wire { name: "h", index: 8 });
    want.input("z", [10, 8, 8]).output("y", [2, 8]);
    assert_eq!(statics, want);
}
