//! Loading: options, and submodules that are loaded once and shared.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::Arc,
};

use crate::{Backend, Result, Submodule};

/// Typed options for loaders: the engine author puts them in, a plugin asks by type.
///
/// ```
/// use graph_core::Options;
/// struct ModelDir(&'static str);
/// let options = Options::default().with(ModelDir("weights"));
/// assert_eq!(options.get::<ModelDir>().unwrap().0, "weights");
/// ```
#[derive(Default)]
pub struct Options(HashMap<TypeId, Box<dyn Any + Send + Sync>>);

impl Options {
    /// Adds an option, or replaces the one of its type.
    pub fn with<T: Send + Sync + 'static>(mut self, option: T) -> Self {
        self.0.insert(TypeId::of::<T>(), Box::new(option));
        self
    }

    /// The option of a type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }
}

/// What a submodule is loaded with.
///
/// ```
/// use graph_core::{Backend, Error, LoadCx, Options, Result, Submodule};
/// use graph_host::Host;
///
/// struct Width(usize); // what the engine's author says
/// struct Model(usize);
/// impl Submodule<Host> for Model {
///     fn load(cx: &LoadCx<'_, Host>) -> Result<Self> {
///         let width = cx.options.get::<Width>().ok_or_else(|| Error::plugin("give `Width`"))?;
///         Ok(Model(width.0))
///     }
/// }
/// // The engine makes one of these; so may a test.
/// # let (host, options) = (Host::new(), Options::default().with(Width(64)));
/// let cx = LoadCx { device: &host, stream: &host.stream()?, options: &options, node: "toy" };
/// assert_eq!(Model::load(&cx)?.0, 64);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct LoadCx<'l, B: Backend> {
    /// The device.
    pub device: &'l B,
    /// The engine's stream.
    pub stream: &'l B::Stream,
    /// The engine author's options.
    pub options: &'l Options,
    /// The node that it is loaded for.
    pub node: &'static str,
}

/// Loads submodules, each once per node.
///
/// ```
/// # use std::sync::Arc;
/// # use graph_core::*;
/// # use graph_host::Host;
/// # static SCHEMA: Schema = Schema::new(
/// #     "toy",
/// #     "layer",
/// #     "batched(seq_len = 1), batch_sizes = [1]",
/// #     &[IoSchema::host("x", Elem::F32, 1, "[bs]")],
/// #     &[IoSchema::device("y", Elem::F32, 1, "[bs]")],
/// # );
/// struct Weights([f32; 2]);
/// # impl Submodule<Host> for Weights {
/// #     fn load(_: &LoadCx<'_, Host>) -> Result<Self> {
/// #         Ok(Weights([2.0, 3.0]))
/// #     }
/// # }
/// # fn layer(weights: Arc<Weights>, i: usize) -> HandWritten<Host> {
/// #     let config = PiecewiseBatchedConfig::new(1).capture_batch_sizes([1]);
/// #     let make_static_inputs = |shape: &Shape, statics: &mut Statics| {
/// #         statics.input("x", [shape.bs]).output("y", [shape.bs]);
/// #     };
/// #     HandWritten::<Host>::new(&SCHEMA, config, make_static_inputs, move |cx, call| {
/// #         let (x, y) = (call.inputs.get::<f32, 1>("x")?, call.outputs.get::<f32, 1>("y")?);
/// #         let weight = weights.0[i];
/// #         cx.stream().kernel("layer", (x,), (y,), move |(x,), (y,)| y[0] = weight * x[0])
/// #     })
/// # }
///
/// // The instances of a region: layers that share one load of the weights with each other and with their node.
/// static LAYERS: HandWrittenTable<Host> = HandWrittenTable(|loader| {
///     let weights = loader.submodule::<Weights>("toy")?;
///     assert!(Arc::ptr_eq(&weights, &loader.submodule("toy")?));
///     Ok(vec![layer(weights.clone(), 0), layer(weights, 1)])
/// });
/// # static ENTRY: RegionEntry = RegionEntry {
/// #     schema: &SCHEMA,
/// #     at: Location { krate: "toy", file: "lib.rs", line: 1 },
/// #     on: &[On::hand_written(&LAYERS)],
/// # };
/// # let registry = Registry::from_entries(vec![&ENTRY], vec![], vec![])?;
/// # let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// # let x = [("x", Source::slice(&[1.0_f32]))];
/// let mut layers = engine.runners().take_named::<HandWritten<Host>>("toy.layer")?;
/// let y = layers[1].run(NamedArgs(&x), &[1])?.into_out().take::<f32, 1>("y")?;
/// assert_eq!(y.to_vec(engine.stream())?, [3.0]);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Loader<'l, B: Backend> {
    device: &'l B,
    stream: &'l B::Stream,
    options: &'l Options,
    loaded: HashMap<(TypeId, &'static str), Arc<dyn Any + Send + Sync>>,
}

impl<'l, B: Backend> Loader<'l, B> {
    pub(crate) fn new(device: &'l B, stream: &'l B::Stream, options: &'l Options) -> Self {
        Loader { device, stream, options, loaded: HashMap::new() }
    }

    /// What a submodule of a node is loaded with.
    pub fn cx(&self, node: &'static str) -> LoadCx<'l, B> {
        LoadCx { device: self.device, stream: self.stream, options: self.options, node }
    }

    /// The submodule of a node: loaded on first use, then shared.
    ///
    /// # Errors
    /// What [`Submodule::load`] returns.
    pub fn submodule<S: Submodule<B>>(&mut self, node: &'static str) -> Result<Arc<S>> {
        let key = (TypeId::of::<S>(), node);
        if let Some(loaded) = self.loaded.get(&key).and_then(|s| s.clone().downcast().ok()) {
            return Ok(loaded);
        }
        let loaded = Arc::new(S::load(&self.cx(node))?);
        self.loaded.insert(key, loaded.clone());
        Ok(loaded)
    }

    /// The device.
    pub fn device(&self) -> &B {
        self.device
    }

    /// The engine's stream.
    pub fn stream(&self) -> &B::Stream {
        self.stream
    }

    /// The engine author's options.
    pub fn options(&self) -> &Options {
        self.options
    }
}
