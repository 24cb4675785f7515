//! Any expression is a size, and inputs may be called like the sizes.
include!("../common/prelude.rs");

const HEADS: usize = 4;

macro_rules! twice {
    ($n:expr) => {
        2 * $n
    };
}

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", batched(seq_len = HEADS * 4), batch_sizes = [1, HEADS], backend = Nothing)]
#[input(x: f32 [tokens * 2 + bs, self.hidden / 2, 3])]
#[input(tokens: i32 [bs + 1], host)]
#[input(bs: i32 [3, twice!(tokens)], host)]
#[input(fixed: f32 [{ let n = HEADS; n }])]
#[output(y: f32 [if bs > 4 { bs } else { tokens }, Self::width()])]
#[output(z: f32 [usize::max(tokens, 3), self.sizes[1], self.hidden as usize, (HEADS + 1) * 2])]
struct R {
    hidden: usize,
    sizes: [usize; 2],
}

impl R {
    fn width() -> usize {
        5
    }
}

impl Region for R {
    type Submodule = Model<Nothing>;
    fn instances(_: &Arc<Model<Nothing>>) -> Vec<Arc<Self>> {
        vec![]
    }
    fn forward(&self, _: &mut Cx<'_, Nothing>, x: &RInputs<'_>, y: &ROutputs<'_>) -> Result<()> {
        let _ = (x.x, x.tokens, x.bs, x.fixed, y.y, y.z);
        Ok(())
    }
}

fn main() {
    use graph_core::{Dims, RegionSpec, Shape, Statics};
    let r = R { hidden: 8, sizes: [6, 7] };
    assert_eq!(r.in_rows(Dims { bs: 2, tokens: 10 }), [22, 3, 20, 4]);
    assert_eq!(r.out_rows(Dims { bs: 2, tokens: 10 }), [10, 10]);
    assert_eq!(r.out_rows(Dims { bs: 5, tokens: 10 })[0], 5);
    let (mut statics, mut want) = (Statics::default(), Statics::default());
    r.make_static_inputs(&Shape::batched(2, 5), &mut statics);
    want.input("x", [22, 4, 3]).input("tokens", [3]).input("bs", [3, 20]).input("fixed", [4]);
    want.output("y", [10, 5]).output("z", [10, 7, 8, 10]);
    assert_eq!(statics, want);
    let dims: Vec<_> = r.schema().inputs.iter().chain(r.schema().outputs).map(|io| (io.dims, io.axis)).collect();
    assert_eq!(
        dims,
        [
            ("[tokens * 2 + bs, self.hidden / 2, 3]", 0),
            ("[bs + 1]", 0),
            ("[3, twice!(tokens)]", 1),
            ("[{ let n = HEADS; n }]", 0),
            ("[if bs > 4 { bs } else { tokens }, Self::width()]", 0),
            ("[usize::max(tokens, 3), self.sizes[1], self.hidden as usize, (HEADS + 1) * 2]", 0),
        ]
    );
    assert_eq!(r.schema().buckets, "batched(seq_len = HEADS * 4), batch_sizes = [1, HEADS]");
    assert!(r.schema().names_bs);
    assert_eq!(r.config().capture_batch_sizes(), Some(&[1, 4][..]));
    assert_eq!(r.config().real_dims(&[9, 9]).tokens, 32);
}
