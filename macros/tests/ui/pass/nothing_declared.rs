//! No inputs, no outputs, neither; a struct without fields.
#![allow(dead_code)]
include!("../common/prelude.rs");

macro_rules! forward {
    ($name:ident $inputs:ident $outputs:ident) => {
        impl<B: Backend> Region for $name<B> {
            type Submodule = Model<B>;
            fn instances(_: &Arc<Model<B>>) -> Vec<Arc<Self>> {
                vec![]
            }
            fn forward(&self, _: &mut Cx<'_, B>, _: &$inputs<'_, B>, _: &$outputs<'_, B>) -> Result<()> {
                Ok(())
            }
        }
    };
}

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "source", packed(total_tokens = [16]))]
#[output(y: f32 [tokens])]
struct Source<B: Backend> {
    model: Arc<Model<B>>,
}
forward!(Source SourceInputs SourceOutputs);

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "sink", packed(total_tokens = [16]))]
#[input(x: f32 [tokens])]
struct Sink<B: Backend> {
    model: Arc<Model<B>>,
}
forward!(Sink SinkInputs SinkOutputs);

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "neither", packed(total_tokens = [16]))]
struct Neither<B: Backend> {
    model: Arc<Model<B>>,
}
forward!(Neither NeitherInputs NeitherOutputs);

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "unit", packed(total_tokens = [16]), backend = Nothing)]
struct Unit;
impl Region for Unit {
    type Submodule = Model<Nothing>;
    fn instances(_: &Arc<Model<Nothing>>) -> Vec<Arc<Self>> {
        vec![]
    }
    fn forward(&self, _: &mut Cx<'_, Nothing>, _: &UnitInputs<'_>, _: &UnitOutputs<'_>) -> Result<()> {
        Ok(())
    }
}

fn call(a: &mut Runner<Source<Nothing>>, b: &mut Runner<Sink<Nothing>>, c: &mut Runner<Unit>) -> Result<()> {
    let y = a.run(SourceArgs {}, &[3])?.into_out().y;
    let _ = b.run(SinkArgs { x: y }, &[3])?.into_out();
    let _ = c.run(UnitArgs {}, &[3])?.hold();
    Ok(())
}

fn main() {}
