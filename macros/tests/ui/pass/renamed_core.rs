//! graph-core under another name.
#![allow(dead_code)]
pub extern crate graph_core as gpu;

include!("../common/prelude.rs");

mod through {
    pub use gpu as core;
}

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]), backend = Nothing, crate = crate::through::core)]
#[input(x: bf16 [tokens], pad = value(1.0))]
#[input(ids: i64 [tokens], host)]
#[output(y: bf16 [tokens], wire = y[0])]
struct R {}

#[derive(PiecewiseRegion)]
#[region(crate = ::gpu, node = "n", name = "g", packed(total_tokens = [16]))]
struct G<B: gpu::Backend> {
    model: Arc<Model<B>>,
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

impl<B: gpu::Backend> Region for G<B> {
    type Submodule = Model<B>;
    fn instances(_: &Arc<Model<B>>) -> Vec<Arc<Self>> {
        vec![]
    }
    fn forward(&self, _: &mut Cx<'_, B>, _: &GInputs<'_, B>, _: &GOutputs<'_, B>) -> Result<()> {
        Ok(())
    }
}

fn main() {}
