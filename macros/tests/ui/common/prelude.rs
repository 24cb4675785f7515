// What every case begins with: a backend, a model, and the names that an author imports.
#[allow(unused_imports)]
use std::sync::Arc;

#[allow(unused_imports)]
use graph_core::{Backend, Cx, PiecewiseRegion, Region, Result, Runner, Tensor};
#[allow(unused_imports)]
use nothing::Nothing;

#[allow(dead_code)]
#[path = "../common/nothing.rs"]
mod nothing;

graph_core::backends!(Nothing);

pub struct Model<B>(std::marker::PhantomData<B>);
impl<B: Backend> graph_core::Submodule<B> for Model<B> {
    fn load(_: &graph_core::LoadCx<'_, B>) -> Result<Self> {
        Ok(Model(std::marker::PhantomData))
    }
}
