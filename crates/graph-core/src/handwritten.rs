//! A region without the derive: closures over named tensors.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use smallvec::SmallVec;

use crate::{
    AnyView, Args, Backend, CallInputs, Cx, Dims, ErrorKind, NamedInputs, NamedOutputs, NamedResults,
    PiecewiseCudaGraphConfig, RawOut, Region, RegionSpec, Result, Schema, Shape, Source, Statics, Submodule,
    load::LoadCx,
    named::{SOURCES, in_order},
};

type MakeStatics = dyn Fn(&Shape, &mut Statics) + Send + Sync;
type CaptureFn<B> = dyn Fn(&mut Cx<'_, B>, &CallInputs<'_, B>) -> Result<()> + Send + Sync;
type Lengths = SmallVec<[usize; 8]>;

/// A region written against the traits: a schema, a configuration, `make_static_inputs` and `capture_fn`.
///
/// Everything the derive does goes through the same traits; only the typed structs are missing.
pub struct HandWritten<B: Backend> {
    schema: &'static Schema,
    config: Arc<dyn Fn() -> Box<dyn PiecewiseCudaGraphConfig> + Send + Sync>,
    make_static_inputs: Arc<MakeStatics>,
    capture_fn: Arc<CaptureFn<B>>,
    resources: &'static [&'static str],
    /// Reused at every run, so that sizes are worked out without allocating.
    scratch: Mutex<(Shape, Statics)>,
}

impl<B: Backend> HandWritten<B> {
    /// A region of these parts. `make_static_inputs` is called for every bucket and for every call's real size.
    pub fn new<C: PiecewiseCudaGraphConfig + Clone + 'static>(
        schema: &'static Schema,
        config: C,
        make_static_inputs: impl Fn(&Shape, &mut Statics) + Send + Sync + 'static,
        capture_fn: impl Fn(&mut Cx<'_, B>, &CallInputs<'_, B>) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        HandWritten {
            schema,
            config: Arc::new(move || Box::new(config.clone())),
            make_static_inputs: Arc::new(make_static_inputs),
            capture_fn: Arc::new(capture_fn),
            resources: &[],
            scratch: Mutex::default(),
        }
    }

    /// The same with a step of its own over these resources of its node (default: none).
    pub fn with_resources(mut self, resources: &'static [&'static str]) -> Self {
        self.resources = resources;
        self
    }

    fn lengths(&self, dims: Dims, outputs: bool) -> Lengths {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let (shape, statics) = &mut *scratch;
        (shape.bs, shape.total_tokens) = (dims.bs, dims.tokens);
        shape.seq_lens.clear();
        shape.seq_lens.resize(dims.bs, dims.tokens.checked_div(dims.bs).unwrap_or(0));
        if let Some(first) = shape.seq_lens.first_mut() {
            *first += dims.tokens % dims.bs;
        }
        statics.clear();
        (self.make_static_inputs)(shape, statics);
        let (sizes, declared) = match outputs {
            true => (&statics.outputs, self.schema.outputs),
            false => (&statics.inputs, self.schema.inputs),
        };
        sizes.iter().zip(declared).map(|(size, io)| size.dims[io.axis]).collect()
    }
}

impl<B: Backend> fmt::Debug for HandWritten<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HandWritten({}, {})", self.schema.full_name(), B::NAME)
    }
}

impl<B: Backend> RegionSpec for HandWritten<B> {
    type Backend = B;
    type Inputs<'a> = NamedInputs<'a, B>;
    type Outputs<'a> = NamedOutputs<'a, B>;
    type Results<'r> = NamedResults<'r, B>;
    type InRows = Lengths;
    type OutRows = Lengths;

    fn schema(&self) -> &'static Schema {
        self.schema
    }
    fn config(&self) -> Box<dyn PiecewiseCudaGraphConfig> {
        (self.config)()
    }
    fn make_static_inputs(&self, shape: &Shape, statics: &mut Statics) {
        (self.make_static_inputs)(shape, statics)
    }
    fn in_rows(&self, dims: Dims) -> Lengths {
        self.lengths(dims, false)
    }
    fn out_rows(&self, dims: Dims) -> Lengths {
        self.lengths(dims, true)
    }
    fn inputs<'a>(&self, views: &'a [AnyView<'a, B>]) -> NamedInputs<'a, B> {
        NamedInputs { schema: self.schema, views, host: &[] }
    }
    fn outputs<'a>(&self, views: &'a [AnyView<'a, B>]) -> NamedOutputs<'a, B> {
        NamedOutputs { schema: self.schema, views }
    }
    fn results<'r>(
        &self,
        take: &mut dyn FnMut(usize) -> Result<RawOut<'r, B>>,
    ) -> Result<NamedResults<'r, B>> {
        let outs = (0..self.schema.outputs.len()).map(|i| take(i).map(Some)).collect::<Result<_>>()?;
        Ok(NamedResults { schema: self.schema, outs })
    }
    fn hold(results: NamedResults<'_, B>) -> NamedResults<'static, B> {
        results.hold()
    }
}

/// The model of a hand-written region: none; its closures own what they need.
#[derive(Debug)]
pub struct NoModel;

impl<B: Backend> Submodule<B> for NoModel {
    fn load(_: &LoadCx<'_, B>) -> Result<Self> {
        Ok(NoModel)
    }
}

impl<B: Backend> Region for HandWritten<B> {
    type Submodule = NoModel;
    fn instances(_: &Arc<NoModel>) -> Vec<Arc<Self>> {
        Vec::new()
    }
    fn forward(&self, cx: &mut Cx<'_, B>, x: &NamedInputs<'_, B>, y: &NamedOutputs<'_, B>) -> Result<()> {
        let (engine_inputs, kwargs, resources) = (cx.engine_inputs, cx.kwargs, cx.resources);
        let call = CallInputs { inputs: *x, outputs: *y, engine_inputs, kwargs, resources };
        (self.capture_fn)(cx, &call)
    }
    fn resources(&self) -> &'static [&'static str] {
        self.resources
    }
}

/// The arguments of a hand-written region: one name and source per input, in declared order. A name that is unknown,
/// missing, twice there or out of order is an error.
pub struct NamedArgs<'a, B: Backend>(pub &'a [(&'static str, Source<'a, B>)]);

impl<B: Backend> Args<HandWritten<B>> for NamedArgs<'_, B> {
    type Sources<'s>
        = SmallVec<[Source<'s, B>; SOURCES]>
    where
        Self: 's;
    fn sources(&self) -> SmallVec<[Source<'_, B>; SOURCES]> {
        self.0.iter().map(|(_, source)| *source).collect()
    }
    fn check(&self, schema: &'static Schema) -> Result<()> {
        in_order(schema, self.0)?;
        let declared = schema.inputs.iter().map(|io| Some(io.name)).chain([None]);
        match self.0.iter().zip(declared).find(|((name, _), io)| Some(*name) != *io) {
            None => Ok(()),
            Some(((name, _), _)) => {
                let names = schema.inputs.iter().map(|io| io.name).collect::<Vec<_>>().join(", ");
                Err(ErrorKind::UnknownName {
                    owner: schema.full_name(),
                    what: "input",
                    got: (*name).into(),
                    known: format!("{names}, each once and in this order"),
                }
                .into())
            }
        }
    }
}
