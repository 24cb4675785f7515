//! Bounds and where-clauses of every kind on the backend.
#![allow(dead_code)]
include!("../common/prelude.rs");

trait Ops: Backend {}
impl Ops for Nothing {}
trait For<'a> {}
impl<'a> For<'a> for Nothing {}
/// A name that generated code likes too.
trait I0 {}
impl I0 for Nothing {}

#[derive(PiecewiseRegion)]
#[region(node = "n", name = "r", packed(total_tokens = [16]))]
#[input(x: f32 [tokens])]
#[output(y: f32 [tokens])]
struct R<B: Ops + I0 + for<'a> For<'a> = Nothing>
where
    B: Clone + std::fmt::Debug,
    B::Buffer: Send,
    for<'a> &'a B: Copy,
{
    model: Arc<Model<B>>,
}

impl<B: Ops + I0 + for<'a> For<'a>> Region for R<B>
where
    B: Clone + std::fmt::Debug,
    B::Buffer: Send,
    for<'a> &'a B: Copy,
{
    type Submodule = Model<B>;
    fn instances(_: &Arc<Model<B>>) -> Vec<Arc<Self>> {
        vec![]
    }
    fn forward(&self, cx: &mut Cx<'_, B>, x: &RInputs<'_, B>, y: &ROutputs<'_, B>) -> Result<()> {
        y.y.copy_from(cx.stream(), x.x)
    }
}

/// The bound stands in the where-clause alone.
#[derive(PiecewiseRegion)]
#[region(node = "n", name = "w", packed(total_tokens = [16]))]
#[input(x: f32 [tokens])]
struct W<B>
where
    B: Ops,
{
    model: Arc<Model<B>>,
}

impl<B: Ops> Region for W<B> {
    type Submodule = Model<B>;
    fn instances(_: &Arc<Model<B>>) -> Vec<Arc<Self>> {
        vec![]
    }
    fn forward(&self, _: &mut Cx<'_, B>, _: &WInputs<'_, B>, _: &WOutputs<'_, B>) -> Result<()> {
        Ok(())
    }
}

fn call(r: &mut Runner<R>, x: &Tensor<Nothing, f32, 1>) -> Result<[usize; 1]> {
    Ok(r.run(RArgs { x }, &[3])?.into_out().y.dims())
}

fn main() {}
