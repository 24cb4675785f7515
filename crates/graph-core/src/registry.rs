//! The registry: regions and nodes that the linker brought together, sorted by name, duplicates refused.
//!
//! Entries are not generic. Each carries one typed table per backend behind `dyn Any`; who asks for backend `B` gets
//! its table by downcast, so this crate names no backend.

use std::{any::Any, collections::BTreeMap, fmt, marker::PhantomData};

use crate::{
    Backend, ErrorKind, Forward, HandWritten, Node, Region, Result, Schema,
    load::Loader,
    node::PendingNode,
    runner::{PendingRegion, PendingRunners},
};

/// Where an entry was written.
///
/// ```
/// use graph_core::{Location, RegionEntry, Registry, Schema};
///
/// static SCHEMA: Schema = Schema::new("llama", "mlp", "", &[], &[]);
/// const fn mlp(line: u32) -> RegionEntry {
///     // The derive and `register_node!` fill in `env!("CARGO_PKG_NAME")`, `file!()` and `line!()`.
///     RegionEntry { schema: &SCHEMA, at: Location { krate: "plugin", file: "src/mlp.rs", line }, on: &[] }
/// }
/// static ONE: RegionEntry = mlp(10);
/// static TWO: RegionEntry = mlp(20);
/// let error = Registry::from_entries(vec![&ONE, &TWO], vec![], vec![]).unwrap_err();
/// assert!(error.to_string().contains("plugin src/mlp.rs:10 and plugin src/mlp.rs:20"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The crate.
    pub krate: &'static str,
    /// The file.
    pub file: &'static str,
    /// The line.
    pub line: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}:{}", self.krate, self.file, self.line)
    }
}

/// One backend of an entry.
///
/// ```
#[doc = include_str!("doc/scale.md")]
/// // A region of two backends has two of these: `On::region::<Scale<Host>>()` and `On::region::<Scale<Cuda>>()`.
/// static SCALE_ON: [On; 1] = [On::region::<Scale>()];
/// assert_eq!(SCALE_ON[0].backend(), Host::NAME);
///
/// // An engine says which entries its backend has not.
/// let nowhere: &'static RegionEntry = Box::leak(Box::new(RegionEntry { on: &[], ..*entry }));
/// let engine = Engine::builder(Host::new()).build(&Registry::from_entries(vec![nowhere], vec![], vec![])?)?;
/// assert!(matches!(engine.skipped()[0].kind(), ErrorKind::NotOnBackend { backend: "host", .. }));
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct On {
    backend: &'static str,
    table: &'static (dyn Any + Send + Sync),
}

impl On {
    /// A region on its backend.
    pub const fn region<R: Region>() -> On {
        On { backend: <R::Backend as Backend>::NAME, table: &RegionTableOf::<R>::TABLE }
    }

    /// Hand-written regions on a backend: a function that makes them, named by a `static`.
    pub const fn hand_written<B: Backend>(table: &'static HandWrittenTable<B>) -> On {
        On { backend: B::NAME, table }
    }

    /// A node on a backend.
    pub const fn node<B: Backend, N: Node<B>>() -> On {
        On { backend: B::NAME, table: &NodeTableOf::<B, N>::TABLE }
    }

    /// The backend's name.
    pub const fn backend(&self) -> &'static str {
        self.backend
    }
}

impl fmt::Debug for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "On({})", self.backend)
    }
}

/// `None` when it has no instance.
type Started<B> = Result<Option<Box<dyn PendingRegion<B>>>>;

struct RegionTable<B: Backend> {
    start: fn(&mut Loader<'_, B>, &'static str) -> Started<B>,
}

/// A function that makes the instances of a hand-written region.
///
/// See [`HandWritten`] for an example.
pub struct HandWrittenTable<B: Backend>(pub fn(&mut Loader<'_, B>) -> Result<Vec<HandWritten<B>>>);

struct NodeTable<B: Backend> {
    start: fn(&mut Loader<'_, B>, &'static NodeEntry) -> Result<PendingNode<B>>,
}

/// Turns a type into a `'static` table in a const context: an associated const is promoted, a function's result not.
struct RegionTableOf<R>(PhantomData<R>);
impl<R: Region> RegionTableOf<R> {
    const TABLE: RegionTable<R::Backend> = RegionTable {
        start: |loader, node| {
            let model = loader.submodule::<R::Submodule>(node)?;
            Ok(PendingRunners::new(R::instances(&model)).map(|p| Box::new(p) as Box<dyn PendingRegion<_>>))
        },
    };
}

struct NodeTableOf<B, N>(PhantomData<(B, N)>);
impl<B: Backend, N: Node<B>> NodeTableOf<B, N> {
    const TABLE: NodeTable<B> = NodeTable {
        start: |loader, entry| {
            let model = loader.submodule::<N::Submodule>(entry.name)?;
            PendingNode::new::<N>(entry.name, entry.forwards, model, &loader.cx(entry.name))
        },
    };
}

/// A registered region.
///
/// ```
#[doc = include_str!("doc/scale.md")]
/// // What an engine lists before it builds anything.
/// for region in registry.regions() {
///     let input = &region.schema.inputs[0];
///     let (name, at) = (region.schema.full_name(), region.at);
///     let line = format!("{name} at {at}: {} is {} {}", input.name, input.elem.name(), input.dims);
///     assert_eq!(line, "toy.scale at toy lib.rs:1: x is f32 [bs]");
/// }
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Debug)]
pub struct RegionEntry {
    /// Its declarations.
    pub schema: &'static Schema,
    /// Where it was written.
    pub at: Location,
    /// The backends it is registered for.
    pub on: &'static [On],
}
inventory::collect!(RegionEntry);

/// A registered node.
///
/// ```
#[doc = include_str!("doc/node.md")]
#[doc = include_str!("doc/square.md")]
/// let toy = registry.node("toy")?;
/// assert_eq!((toy.forwards[0].walks, toy.on[0].backend()), (&["decode", "prefill"][..], "host"));
///
/// let error = registry.node("llama").unwrap_err();
/// assert!(error.to_string().contains("link its plugin, for example `use llama_plugin as _;`"));
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Debug)]
pub struct NodeEntry {
    /// Its name.
    pub name: &'static str,
    /// Its named forwards.
    pub forwards: &'static [Forward],
    /// Where it was written.
    pub at: Location,
    /// The backends it is registered for.
    pub on: &'static [On],
}
inventory::collect!(NodeEntry);

/// A backend that a region's own crate does not know, named by whoever knows both.
///
/// ```
#[doc = include_str!("doc/scale.md")]
/// // Somebody else's region, registered without a backend that we know.
/// let theirs: &'static RegionEntry = Box::leak(Box::new(RegionEntry { on: &[], ..*entry }));
/// static OURS: RegionOn = RegionOn { region: ("toy", "scale"), on: On::region::<Scale>() };
///
/// let registry = Registry::from_entries(vec![theirs], vec![], vec![&OURS])?;
/// let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// assert!(engine.skipped().is_empty() && engine.runners().take_one::<Scale>().is_ok());
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Debug)]
pub struct RegionOn {
    /// `(node, name)` of the region.
    pub region: (&'static str, &'static str),
    /// The backend.
    pub on: On,
}
inventory::collect!(RegionOn);

/// All entries, sorted by name: the order in which they were linked never matters (invariant 12).
///
/// ```
/// use graph_core::{Location, RegionEntry, Registry, Schema};
///
/// static MLP: Schema = Schema::new("llama", "mlp", "", &[], &[]);
/// static EMBED: Schema = Schema::new("llama", "embed", "", &[], &[]);
/// const AT: Location = Location { krate: "plugin", file: "lib.rs", line: 1 };
/// static ENTRIES: [RegionEntry; 2] = [
///     RegionEntry { schema: &MLP, at: AT, on: &[] },
///     RegionEntry { schema: &EMBED, at: AT, on: &[] },
/// ];
/// // A test names its entries; a program has `Registry::collect()`, which finds all that were linked.
/// let registry = Registry::from_entries(ENTRIES.iter().collect(), vec![], vec![])?;
/// let names: Vec<_> = registry.regions().iter().map(|e| e.schema.full_name()).collect();
/// assert_eq!(names, ["llama.embed", "llama.mlp"]);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Registry {
    regions: Vec<&'static RegionEntry>,
    nodes: Vec<&'static NodeEntry>,
    extra: Vec<&'static RegionOn>,
}

impl Registry {
    /// Everything that was linked into this binary.
    ///
    /// # Errors
    /// As [`from_entries`](Self::from_entries).
    pub fn collect() -> Result<Registry> {
        Self::from_entries(
            inventory::iter::<RegionEntry>.into_iter().collect(),
            inventory::iter::<NodeEntry>.into_iter().collect(),
            inventory::iter::<RegionOn>.into_iter().collect(),
        )
    }

    /// The given entries: sorted, and two of one name refused with both locations.
    ///
    /// # Errors
    /// [`Duplicate`](ErrorKind::Duplicate) with the name and both locations.
    pub fn from_entries(
        mut regions: Vec<&'static RegionEntry>,
        mut nodes: Vec<&'static NodeEntry>,
        extra: Vec<&'static RegionOn>,
    ) -> Result<Registry> {
        let by_place = |at: &Location| (at.krate, at.file, at.line);
        // Cached: the names of an entry lie two pointers away.
        regions.sort_by_cached_key(|e| (e.schema.node, e.schema.name, by_place(&e.at)));
        nodes.sort_by_key(|e| (e.name, by_place(&e.at)));
        let duplicate = |what, name, first: &Location, second: &Location| {
            let (first, second) = (first.to_string(), second.to_string());
            Err(ErrorKind::Duplicate { what, name, first, second }.into())
        };
        for pair in regions.windows(2) {
            if (pair[0].schema.node, pair[0].schema.name) == (pair[1].schema.node, pair[1].schema.name) {
                return duplicate("region", pair[0].schema.full_name(), &pair[0].at, &pair[1].at);
            }
        }
        // A dot in a region's name can make one full name of two, which bucket files and `take_named` go by.
        if regions.iter().any(|e| e.schema.name.contains('.')) {
            let mut by_name = BTreeMap::new();
            for e in &regions {
                let name = e.schema.full_name();
                if let Some(first) = by_name.insert(name.clone(), &e.at) {
                    return duplicate("region", name, first, &e.at);
                }
            }
        }
        for pair in nodes.windows(2) {
            if pair[0].name == pair[1].name {
                return duplicate("node", pair[0].name.into(), &pair[0].at, &pair[1].at);
            }
        }
        Ok(Registry { regions, nodes, extra })
    }

    /// The regions, by node and name.
    pub fn regions(&self) -> &[&'static RegionEntry] {
        &self.regions
    }

    /// The nodes, by name.
    pub fn nodes(&self) -> &[&'static NodeEntry] {
        &self.nodes
    }

    /// The node of that name, or an error that says how to link one.
    pub fn node(&self, name: &str) -> Result<&'static NodeEntry> {
        let found = self.nodes.binary_search_by_key(&name, |e| e.name);
        found.map(|i| self.nodes[i]).map_err(|_| {
            let known = self.nodes.iter().map(|e| e.name).collect::<Vec<_>>().join(", ");
            let crate_hint = format!("{}_plugin", name.replace('-', "_"));
            ErrorKind::NotRegistered { what: "node", name: name.into(), crate_hint, known }.into()
        })
    }

    /// Starts a region on backend `B`.
    pub(crate) fn start_region<B: Backend>(
        &self,
        entry: &'static RegionEntry,
        loader: &mut Loader<'_, B>,
    ) -> Started<B> {
        let name = (entry.schema.node, entry.schema.name);
        let extra = self.extra.iter().filter(|x| x.region == name).map(|x| &x.on);
        let tables: Vec<&'static On> = entry.on.iter().chain(extra).collect();
        for on in &tables {
            if let Some(table) = on.table.downcast_ref::<RegionTable<B>>() {
                return (table.start)(loader, entry.schema.node);
            }
            if let Some(table) = on.table.downcast_ref::<HandWrittenTable<B>>() {
                let regions = (table.0)(loader)?.into_iter().map(std::sync::Arc::new).collect();
                return Ok(PendingRunners::new(regions).map(|p| Box::new(p) as Box<dyn PendingRegion<B>>));
            }
        }
        Err(not_on::<B>("region", entry.schema.full_name(), &entry.at, tables.into_iter()))
    }

    pub(crate) fn start_node<B: Backend>(
        &self,
        entry: &'static NodeEntry,
        loader: &mut Loader<'_, B>,
    ) -> Result<PendingNode<B>> {
        match entry.on.iter().find_map(|on| on.table.downcast_ref::<NodeTable<B>>()) {
            Some(table) => (table.start)(loader, entry),
            None => Err(not_on::<B>("node", entry.name.into(), &entry.at, entry.on.iter())),
        }
    }
}

fn not_on<B: Backend>(
    what: &'static str,
    name: String,
    at: &Location,
    tables: impl Iterator<Item = &'static On>,
) -> crate::Error {
    let mut by_name: BTreeMap<&str, ()> = BTreeMap::new();
    by_name.extend(tables.map(|on| (on.backend, ())));
    let known = by_name.into_keys().collect::<Vec<_>>().join(", ");
    ErrorKind::NotOnBackend { what, name, at: at.to_string(), backend: B::NAME, known }.into()
}

/// Once per plugin crate, at its root: the backends that its generic regions and nodes are registered for.
///
/// ```standalone_crate
/// # use std::{marker::PhantomData, sync::Arc};
/// # use graph_core::{Backend, Cx, LoadCx, PiecewiseRegion, Region, Registry, Result, Submodule};
/// // With a second one: `backends!(graph_host::Host, #[cfg(feature = "cuda")] graph_cuda::Cuda)`.
/// graph_core::backends!(graph_host::Host);
///
/// #[derive(PiecewiseRegion)]
/// #[region(node = "toy", name = "nothing", packed(total_tokens = [16]))]
/// struct Nothing<B: Backend> {
///     backend: PhantomData<B>,
/// }
/// # struct Model;
/// # impl<B: Backend> Submodule<B> for Model {
/// #     fn load(_: &LoadCx<'_, B>) -> Result<Self> {
/// #         Ok(Model)
/// #     }
/// # }
/// # impl<B: Backend> Region for Nothing<B> {
/// #     type Submodule = Model;
/// #     fn instances(_: &Arc<Model>) -> Vec<Arc<Self>> {
/// #         vec![]
/// #     }
/// #     fn forward(&self, _: &mut Cx<'_, B>, _: &NothingInputs<'_, B>, _: &NothingOutputs<'_, B>) -> Result<()> {
/// #         Ok(())
/// #     }
/// # }
///
/// fn main() {
///     let registry = Registry::collect().unwrap();
///     let backends: Vec<_> = registry.regions()[0].on.iter().map(|on| on.backend()).collect();
///     assert_eq!(backends, ["host"]);
/// }
/// ```
#[macro_export]
macro_rules! backends {
    ($($(#[$meta:meta])* $backend:ty),+ $(,)?) => {
        #[doc(hidden)]
        macro_rules! graph_core_backends_must_be_called_at_the_crate_root {
            (region $of:ident) => {
                &[$($(#[$meta])* $crate::On::region::<$of<$backend>>()),+]
            };
            (node $of:ident) => {
                &[$($(#[$meta])* $crate::On::node::<$backend, $of<$backend>>()),+]
            };
        }
        pub(crate) use graph_core_backends_must_be_called_at_the_crate_root;
    };
}

/// Registers a node: its name, its type, its named forwards, and, for a type that is not generic, its backend.
///
/// ```standalone_crate
/// # use std::{marker::PhantomData, sync::Arc};
/// # use graph_core::{Backend, BindCx, CallInputs, Cx, Forward, Node, NoModel, Registry, Result, Schema, Shape, Statics};
/// use graph_host::Host;
///
/// graph_core::backends!(Host);
///
/// struct Llama<B>(PhantomData<B>);
/// struct Digits;
/// # impl<B: Backend> Node<B> for Llama<B> {
/// #     type Submodule = NoModel;
/// #     fn make_static_inputs(_: &NoModel, _: &str, _: &Shape, _: &mut Statics) {}
/// #     fn bind(_: Arc<NoModel>, _: &mut BindCx<'_, B>) -> Result<Self> {
/// #         Ok(Llama(PhantomData))
/// #     }
/// #     fn forward(&mut self, _: &str, _: &mut Cx<'_, B>, _: &CallInputs<'_, B>) -> Result<()> {
/// #         Ok(())
/// #     }
/// # }
/// # impl Node<Host> for Digits {
/// #     type Submodule = NoModel;
/// #     fn make_static_inputs(_: &NoModel, _: &str, _: &Shape, _: &mut Statics) {}
/// #     fn bind(_: Arc<NoModel>, _: &mut BindCx<'_, Host>) -> Result<Self> {
/// #         Ok(Digits)
/// #     }
/// #     fn forward(&mut self, _: &str, _: &mut Cx<'_, Host>, _: &CallInputs<'_, Host>) -> Result<()> {
/// #         Ok(())
/// #     }
/// # }
/// const DECODE: Schema = Schema::new("llama", "decode", "", &[], &[]);
/// const FORWARDS: &[Forward] = &[Forward { schema: DECODE, walks: &["decode"], resources: &[] }];
/// graph_core::register_node!("llama", Llama<B>, FORWARDS);
/// graph_core::register_node!("digits", Digits, &[], on = Host);
///
/// fn main() {
///     let registry = Registry::collect().unwrap();
///     assert_eq!(registry.nodes().iter().map(|n| n.name).collect::<Vec<_>>(), ["digits", "llama"]);
/// }
/// ```
#[macro_export]
macro_rules! register_node {
    ($name:literal, $node:ident<B>, $forwards:expr) => {
        const _: () = {
            type NodeOf<B> = $node<B>;
            $crate::register_node!(@in crate, $name, $forwards, NodeOf);
        };
    };
    // `crate` is the caller's on purpose: its `backends!` has put the list there.
    (@in $caller:tt, $name:literal, $forwards:expr, $node:ident) => {
        $crate::register_node!(@submit $name, $forwards,
            $caller::graph_core_backends_must_be_called_at_the_crate_root!(node $node));
    };
    ($name:literal, $node:ty, $forwards:expr, on = $backend:ty) => {
        $crate::register_node!(@submit $name, $forwards, &[$crate::On::node::<$backend, $node>()]);
    };
    (@submit $name:literal, $forwards:expr, $on:expr) => {
        $crate::__private::inventory::submit! {
            $crate::NodeEntry {
                name: $name,
                forwards: $forwards,
                at: $crate::Location { krate: env!("CARGO_PKG_NAME"), file: file!(), line: line!() },
                on: $on,
            }
        }
    };
}
