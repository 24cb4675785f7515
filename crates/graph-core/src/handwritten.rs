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
///
/// ```
/// use graph_core::*;
/// use graph_host::Host;
///
/// static SCALE: Schema = Schema::new(
///     "toy",
///     "scale",
///     "batched(seq_len = 1), batch_sizes = [1, 2, 4]",
///     &[IoSchema::host("x", Elem::F32, 1, "[bs]")],
///     &[IoSchema::device("y", Elem::F32, 1, "[bs]")],
/// );
/// static TABLE: HandWrittenTable<Host> = HandWrittenTable(|_| {
///     let config = PiecewiseBatchedConfig::new(1).capture_batch_sizes([1, 2, 4]);
///     let make_static_inputs = |shape: &Shape, statics: &mut Statics| {
///         statics.input("x", [shape.bs]).output("y", [shape.bs]);
///     };
///     Ok(vec![HandWritten::<Host>::new(&SCALE, config, make_static_inputs, |cx, call| {
///         let (x, y) = (call.inputs.get::<f32, 1>("x")?, call.outputs.get::<f32, 1>("y")?);
///         cx.stream().kernel("scale", (x,), (y,), |(x,), (y,)| {
///             y.iter_mut().zip(x).for_each(|(y, x)| *y = 3.0 * x);
///         })
///     })])
/// });
/// static ENTRY: RegionEntry = RegionEntry {
///     schema: &SCALE,
///     at: Location { krate: "toy", file: "lib.rs", line: 1 },
///     on: &[On::hand_written(&TABLE)],
/// };
///
/// let registry = Registry::from_entries(vec![&ENTRY], vec![], vec![])?;
/// let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// let mut scale = engine.runners().take_named::<HandWritten<Host>>("toy.scale")?.remove(0);
///
/// // Three requests run in the bucket of four; the fourth row is padding.
/// let x = [("x", Source::slice(&[1.0_f32, 2.0, 3.0]))];
/// let outcome = scale.run(NamedArgs(&x), &[1, 1, 1])?;
/// assert_eq!(outcome.reason(), None);
/// let y = outcome.into_out().take::<f32, 1>("y")?;
/// assert_eq!(y.to_vec(engine.stream())?, [3.0, 6.0, 9.0]);
/// drop(y); // while it lives, the slot's output is nobody's to write
///
/// // Five requests fit no bucket: the forward runs at the exact size, and says why.
/// let x = [("x", Source::slice(&[1.0_f32; 5]))];
/// let outcome = scale.run(NamedArgs(&x), &[1; 5])?;
/// assert_eq!(outcome.reason(), Some(Miss::TooManyRequests { bs: 5, largest: 4 }));
/// # Ok::<(), graph_core::Error>(())
/// ```
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
///
/// See [`Node`](crate::Node) for an example.
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
///
/// ```
#[doc = include_str!("doc/region.md")]
#[doc = include_str!("doc/copy.md")]
/// # let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// # let mut region = engine.runners().take_named::<HandWritten<Host>>("toy.region")?.remove(0);
/// let args = [("x", Source::slice(&[1.0_f32, 2.0]))];
/// let y = region.run(NamedArgs(&args), &[1, 1])?.into_out().take::<f32, 1>("y")?.to_vec(engine.stream())?;
/// assert_eq!(y, [1.0, 2.0]);
///
/// let args = [("z", Source::slice(&[1.0_f32, 2.0]))];
/// let error = region.run(NamedArgs(&args), &[1, 1]).expect_err("no such input");
/// assert_eq!(error.to_string(), "toy.region: there is no input `z`; known: x");
/// # Ok::<(), graph_core::Error>(())
/// ```
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
