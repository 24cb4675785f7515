//! A region over an element: one registered region per element, in any order of parameters, also on one backend.
#![allow(dead_code)]
include!("../common/prelude.rs");
use graph_core::{Dims, Elem, Element, Pad, RegionSpec, Registry, bf16, f16};

/// The element stands before the backend, and one side does not have it.
#[derive(PiecewiseRegion)]
#[region(node = "n", name = "mixed", packed(total_tokens = [16]), elements(A = [f32, bf16]))]
#[input(x: A [tokens, self.hidden], pad = value(-1.5), wire = h[0])]
#[input(ids: i32 [tokens], host)]
#[output(token: i32 [bs])]
pub struct Mixed<A, B>
where
    A: Element,
    B: Backend,
{
    hidden: usize,
    model: Arc<Model<B>>,
    element: std::marker::PhantomData<A>,
}

impl<A: Element, B: Backend> Region for Mixed<A, B> {
    type Submodule = Model<B>;
    fn instances(model: &Arc<Model<B>>) -> Vec<Arc<Self>> {
        let element = std::marker::PhantomData;
        let chosen = A::ELEM == Elem::BF16;
        chosen.then(|| Arc::new(Mixed { hidden: 2, model: model.clone(), element })).into_iter().collect()
    }
    fn forward(&self, _: &mut Cx<'_, B>, x: &MixedInputs<'_, A, B>, _: &MixedOutputs<'_, A, B>) -> Result<()> {
        let _: graph_core::In<'_, B, A, 2> = x.x;
        Ok(())
    }
}

/// One backend, which is no parameter; no input or output has the element.
#[derive(PiecewiseRegion)]
#[region(node = "n", name = "one", batched(seq_len = 1), backend = Nothing, elements(T = [f16]))]
#[output(y: f32 [bs])]
struct One<T: Element> {
    element: std::marker::PhantomData<T>,
}

impl<T: Element> Region for One<T> {
    type Submodule = Model<Nothing>;
    fn instances(_: &Arc<Model<Nothing>>) -> Vec<Arc<Self>> {
        vec![]
    }
    fn forward(&self, _: &mut Cx<'_, Nothing>, _: &OneInputs<'_, T>, _: &OneOutputs<'_, T>) -> Result<()> {
        Ok(())
    }
}

fn call<A: Element>(r: &mut Runner<Mixed<A, Nothing>>, x: &Tensor<Nothing, A, 2>) -> Result<[usize; 1]> {
    let out = r.run(MixedArgs { x, ids: &[1, 2, 3] }, &[3])?.into_out();
    Ok(out.token.dims())
}

fn mixed<A: Element>() -> Mixed<A, Nothing> {
    let element = std::marker::PhantomData;
    Mixed { hidden: 2, model: Arc::new(Model(std::marker::PhantomData)), element }
}

fn main() {
    let registry = Registry::collect().unwrap();
    let names: Vec<_> = registry.regions().iter().map(|entry| entry.schema.name).collect();
    assert_eq!(names, ["mixed", "mixed_bf16", "one"]);

    let (single, half) = (mixed::<f32>().schema(), mixed::<bf16>().schema());
    assert_eq!((single.name, half.name), ("mixed", "mixed_bf16"));
    assert_eq!((single.inputs[0].elem, single.inputs[0].pad), (Elem::F32, Pad::f32(-1.5)));
    assert_eq!((half.inputs[0].elem, half.inputs[0].pad), (Elem::BF16, Pad::bf16(bf16::from_f32(-1.5))));
    assert_eq!(single.inputs[1], half.inputs[1]);
    assert_eq!(mixed::<bf16>().in_rows(Dims { bs: 1, tokens: 3 }), [3, 3]);
    let one = One::<f16> { element: std::marker::PhantomData };
    assert_eq!(one.schema().name, "one");
}
