//! Engines of one hand-written region, which a case writes as closures.

use std::{marker::PhantomData, sync::Arc};

use graph_core::{
    CallInputs, CaptureOptions, Cx, Engine, EngineBuilder, HandWritten, HandWrittenTable, Loader, Location,
    NodeEntry, On, Options, PiecewiseBatchedConfig, PiecewiseCudaGraphConfig, PiecewisePackedConfig,
    RegionEntry, Registry, Result, Runner, Schema, Shape, Statics,
};

use crate::SuiteOps;

/// A runner of a hand-written region.
pub(crate) type ByHand<B> = Runner<HandWritten<B>>;

pub(crate) const AT: Location = Location { krate: "backend-suite", file: file!(), line: line!() };

/// The operations' kernels, for as long as an engine or a runner of it lives.
pub(crate) struct Loaded<B: SuiteOps> {
    _kernels: B::SuiteKernels,
}

impl<B: SuiteOps> Loaded<B> {
    pub(crate) fn new(device: &B) -> Result<Self> {
        Ok(Loaded { _kernels: B::suite_kernels(device)? })
    }
}

/// An engine and the only instance of its region.
pub(crate) struct Toys<B: SuiteOps> {
    pub(crate) engine: Engine<B>,
    pub(crate) runner: ByHand<B>,
}

/// Makes the instances of the region of an engine.
struct Make<B: SuiteOps>(Arc<dyn Fn() -> Vec<HandWritten<B>> + Send + Sync>);

struct TableOf<B>(PhantomData<B>);
impl<B: SuiteOps> TableOf<B> {
    const TABLE: HandWrittenTable<B> = HandWrittenTable(|loader: &mut Loader<'_, B>| {
        Ok(loader.options().get::<Make<B>>().map_or(Vec::new(), |make| (make.0)()))
    });
    const ON: &'static [On] = &[On::hand_written(&Self::TABLE)];
}

/// An engine of the instances that `make` makes, and of a node.
pub(crate) fn with_regions<'b, B: SuiteOps>(
    device: B,
    schema: &'static Schema,
    make: impl Fn() -> Vec<HandWritten<B>> + Send + Sync + 'static,
    node: Option<&'static NodeEntry>,
    change: impl FnOnce(EngineBuilder<'b, B>) -> EngineBuilder<'b, B>,
) -> Result<Engine<B>> {
    // Entries live as long as the program, as those that are linked do.
    let entry = Box::leak(Box::new(RegionEntry { schema, at: AT, on: TableOf::<B>::ON }));
    let registry = Registry::from_entries(vec![entry], node.into_iter().collect(), vec![])?;
    let loaded = Loaded::new(&device)?;
    let options = Options::default().with(Make(Arc::new(make)));
    change(Engine::builder(device).options(options).resource(loaded)).build(&registry)
}

/// An engine of one region of requests of one token.
pub(crate) fn one_region<B: SuiteOps>(
    device: B,
    schema: &'static Schema,
    sizes: &[usize],
    options: CaptureOptions,
    statics: impl Fn(&Shape, &mut Statics) + Clone + Send + Sync + 'static,
    forward: impl Fn(&mut Cx<'_, B>, &CallInputs<'_, B>) -> Result<()> + Send + Sync + 'static,
) -> Result<Toys<B>> {
    let config = PiecewiseBatchedConfig::new(1).capture_batch_sizes(sizes);
    configured(device, schema, config, options, statics, forward)
}

/// An engine of one region of packed tokens.
pub(crate) fn packed_region<B: SuiteOps>(
    device: B,
    schema: &'static Schema,
    config: PiecewisePackedConfig,
    statics: impl Fn(&Shape, &mut Statics) + Clone + Send + Sync + 'static,
    forward: impl Fn(&mut Cx<'_, B>, &CallInputs<'_, B>) -> Result<()> + Send + Sync + 'static,
) -> Result<Toys<B>> {
    configured(device, schema, config, CaptureOptions::default(), statics, forward)
}

fn configured<B: SuiteOps>(
    device: B,
    schema: &'static Schema,
    config: impl PiecewiseCudaGraphConfig + Clone + 'static,
    options: CaptureOptions,
    statics: impl Fn(&Shape, &mut Statics) + Clone + Send + Sync + 'static,
    forward: impl Fn(&mut Cx<'_, B>, &CallInputs<'_, B>) -> Result<()> + Send + Sync + 'static,
) -> Result<Toys<B>> {
    let forward = Arc::new(forward);
    let make = move || {
        let forward = forward.clone();
        vec![HandWritten::new(schema, config.clone(), statics.clone(), move |cx, call| forward(cx, call))]
    };
    let mut engine = with_regions(device, schema, make, None, |b| b.capture_options(options))?;
    let runner = engine.runners().take_named(&schema.full_name())?.remove(0);
    Ok(Toys { engine, runner })
}
