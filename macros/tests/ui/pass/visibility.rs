//! Generated structs and fields are as visible as the author's struct.
#![allow(dead_code)]
include!("../common/prelude.rs");

macro_rules! region {
    ($vis:vis $name:ident $inputs:ident $outputs:ident, $text:literal) => {
        #[derive(PiecewiseRegion)]
        #[region(node = "n", name = $text, packed(total_tokens = [16]), backend = super::Nothing)]
        #[input(x: f32 [tokens])]
        #[output(y: f32 [tokens])]
        $vis struct $name {}

        impl Region for $name {
            type Submodule = super::Model<super::Nothing>;
            fn instances(_: &Arc<Self::Submodule>) -> Vec<Arc<Self>> {
                vec![]
            }
            fn forward(&self, _: &mut Cx<'_, super::Nothing>, x: &$inputs<'_>, y: &$outputs<'_>) -> Result<()> {
                let _ = (x.x, y.y);
                Ok(())
            }
        }
    };
}

pub mod public {
    use super::{Arc, Cx, PiecewiseRegion, Region, Result};

    region!(pub R RInputs ROutputs, "public");
}

mod private {
    use super::{Arc, Cx, PiecewiseRegion, Region, Result};

    region!(R RInputs ROutputs, "private");
    region!(pub(crate) S SInputs SOutputs, "crate");
    region!(pub(in crate::private) T TInputs TOutputs, "path");
}

fn use_it(x: &public::RInputs<'_>, s: &private::SResults<'_>, t: &Tensor<Nothing, f32, 1>) {
    let _ = (x.x.dims(), s.y.dims(), public::RArgs { x: t }.x);
}

fn main() {}
