//! A region inside a function.
include!("../common/prelude.rs");

fn main() {
    #[derive(PiecewiseRegion)]
    #[region(node = "n", name = "r", packed(total_tokens = [16]))]
    #[input(x: f32 [tokens, self.hidden])]
    #[output(y: f32 [tokens, self.hidden])]
    pub struct R<B: Backend> {
        hidden: usize,
        model: Arc<Model<B>>,
    }

    impl<B: Backend> Region for R<B> {
        type Submodule = Model<B>;
        fn instances(model: &Arc<Model<B>>) -> Vec<Arc<Self>> {
            vec![Arc::new(R { hidden: 8, model: model.clone() })]
        }
        fn forward(&self, cx: &mut Cx<'_, B>, x: &RInputs<'_, B>, y: &ROutputs<'_, B>) -> Result<()> {
                y.y.copy_from(cx.stream(), x.x)
        }
    }

    let _ = |x: RInputs<'_, Nothing>, m: &Arc<Model<Nothing>>| (x.x.dims(), R::instances(m)[0].model.clone());
    let registry = graph_core::Registry::collect().unwrap();
    assert_eq!(registry.regions().iter().map(|r| r.schema.name).collect::<Vec<_>>(), ["r"]);
}
