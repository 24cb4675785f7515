//! Capture and replay of CUDA graphs, correct by construction.
//!
//! A decode step launches hundreds of small kernels; launching them one by one leaves a GPU idle. A CUDA graph launches
//! them as one, but only on the same addresses and sizes as when it was captured. This crate owns what follows from
//! that: static buffers, size buckets, padding, slots and leases, eager fallbacks, and the order of a capture.
//!
//! # A first region
//!
//! A region is a struct with weights, its inputs and outputs in attributes, and one `forward`, which runs eagerly and is
//! captured alike:
//!
//! ```standalone_crate
//! use std::sync::Arc;
//!
//! use graph_core::{Cx, Engine, LoadCx, Miss, PiecewiseRegion, Region, Registry, Result, Submodule};
//! use graph_host::Host;
//!
//! #[derive(PiecewiseRegion)]
//! #[region(node = "toy", name = "scale", batched(seq_len = 1), batch_sizes = [1, 2, 4], backend = Host)]
//! #[input(x: f32 [bs], host, pad = zero)]
//! #[output(y: f32 [bs])]
//! struct Scale {
//!     by: f32,
//! }
//!
//! impl Submodule<Host> for Scale {
//!     fn load(_: &LoadCx<'_, Host>) -> Result<Self> {
//!         Ok(Scale { by: 3.0 })
//!     }
//! }
//!
//! impl Region for Scale {
//!     type Submodule = Self;
//!
//!     fn instances(model: &Arc<Self>) -> Vec<Arc<Self>> {
//!         vec![model.clone()]
//!     }
//!
//!     fn forward(&self, cx: &mut Cx<'_, Host>, x: &ScaleInputs<'_>, y: &ScaleOutputs<'_>) -> Result<()> {
//!         let by = self.by;
//!         cx.stream().kernel("scale", (x.x,), (y.y,), move |(x,), (y,)| {
//!             y.iter_mut().zip(x).for_each(|(y, x)| *y = x * by);
//!         })
//!     }
//! }
//!
//! # fn main() -> Result<()> {
//! let registry = Registry::collect()?; // everything that was linked
//! let mut engine = Engine::builder(Host::new()).build(&registry)?; // captures buckets of 4, 2 and 1 requests
//! let mut scale = engine.runners().take_one::<Scale>()?;
//!
//! // Three requests run in the bucket of four; the fourth row is padding.
//! let outcome = scale.run(ScaleArgs { x: &[1.0, 2.0, 3.0] }, &[1, 1, 1])?;
//! assert_eq!(outcome.reason(), None);
//! assert_eq!(outcome.into_out().y.to_vec(engine.stream())?, [3.0, 6.0, 9.0]);
//!
//! // Five requests fit no bucket: the forward runs at the exact size, and says why.
//! let outcome = scale.run(ScaleArgs { x: &[1.0; 5] }, &[1; 5])?;
//! assert_eq!(outcome.reason(), Some(Miss::TooManyRequests { bs: 5, largest: 4 }));
//! # Ok(())
//! # }
//! ```
//!
//! Examples on other pages hide their imports (`use graph_core::*; use graph_host::Host;`) and this region, or the node
//! of [`Node`]'s example, where they are not the point.
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | backend | a type that implements [`Backend`]: `graph_host::Host` (CPU), `graph_cuda::Cuda` |
//! | region | an inner callable that is captured on its own, while the code around it stays eager ([`Region`]) |
//! | node | the eager code of a submodule, which owns the runners of its regions ([`Node`]) |
//! | walk | the name of a forward path of a node, such as `decode` or `prefill` |
//! | whole forward | a node's entire batched forward, captured as one graph for a walk ([`CudaGraphConfig`]) |
//! | bucket | a size that is captured, as a [`Shape`]; its key is walk, requests, tokens, additional key info ([`BucketKey`]) |
//! | slot | one copy of a node's static buffers, with a graph per bucket |
//! | lease | the right to use one slot for one step ([`SlotLease`]) |
//! | arena | all static buffers of all nodes, sized from every bucket, allocated once before the first capture ([`Ledger::arena`]) |
//! | wire | a static buffer that regions share by name, so that an output is the next region's input with no copy ([`Wire`]) |
//! | block | a slot's packed host-side inputs; one copy uploads them ([`Side::Host`]) |
//! | resource | per-request state that changes in steps: admit, plan, commit ([`Resource`]) |
//! | outcome | what a call returns: replayed, or eager with a reason ([`Outcome`], [`WholeOutcome`]) |
//!
//! # The life of a call
//!
//! Once, when the engine is built:
//!
//! ```text
//! registry ─► load submodules ─► instances ─► claim (regions and whole forwards) ─► arena ─► per bucket, largest first
//! [stage an all-padding call ─► prepare ─► warm up ─► capture ─► audit ─► instantiate ─► upload] for regions
//! ─► bind nodes ─► the same for whole forwards
//! ```
//!
//! [`Registry`], [`Submodule::load`], [`Region::instances`], [`Statics`] (what is claimed), [`CaptureOptions`],
//! [`Region::prepare`], [`Mode`] (warm-up and capture), [`CaptureProgress`], [`Node::bind`], [`Ledger`].
//!
//! Then, for each call:
//!
//! ```text
//! args ─► bucket table ─► lease slot ─► stage + pad ─► plan resources ─► launch graph ─► commit ─► output lease
//!              │ no fit: Eager(reason, with the numbers), counted; strict mode: an error
//! ```
//!
//! [`Args`] or [`NodeCall`], [`BucketTable`] (or a [`Miss`]), [`SlotLease`], [`Source`] and [`Pad`], [`Step`],
//! [`Backend::launch`], [`Outcome`], [`OutTensor`]; counted in [`RunnerStats`].
//!
//! A graph is: head (upload of the slot's block; padding of device-side inputs by the block's real row counts), body (the
//! author's), tail (a completion word, by which the host sees that the graph is done). The source files are named after
//! these stations.
//!
//! # How to write ..
//!
//! | .. | start at |
//! |---|---|
//! | a region | [`Region`], and [the derive](macro@PiecewiseRegion) for all attributes |
//! | a region without the derive | [`HandWritten`] with closures, or [`RegionSpec`] |
//! | regions that are joined without a copy | [`Wire`] |
//! | a node that is captured as a whole | [`Node`] |
//! | a node around regions | [`BindCx`], [`Node::set_slot`], [`Node::set_eager`] |
//! | a resource | [`Resource`], [`Steps`]; `graph_resources::guide` has a worked example with KV pages |
//! | a backend | [`Backend`] |
//! | a plugin crate | [`backends!`], [`register_node!`] |
//! | an engine | [`Engine`], [`EngineBuilder`], [`NodeRunner`] |
//!
//! # Invariants
//!
//! What tests hold the framework to. A number is that of the tests, `invariant_NN_..`; numbers that are missing here have
//! no test of that name. They run on `graph_host::Host`, and where it says so on `graph_cuda::Cuda` over a stand-in
//! driver, which is not a GPU.
//!
//! | | |
//! |---|---|
//! | 1 | padded rows of every input hold exactly what its [`Pad`] says, whatever ran in the slot before (`Cuda`: the padding kernel) |
//! | 3 | a graph keeps alive, at its address, all memory that it recorded (also `Cuda`) |
//! | 4 | what somebody holds is written by nobody: an output, a wire, an output that a staged step is to read |
//! | 8 | a capture that fails costs its bucket and nothing else; smaller calls run in a larger one |
//! | 9 | a panic in a forward, a capture or a replayed kernel is an error of that bucket or run, even one whose payload panics |
//! | 10 | a call that no bucket fits has a typed reason with its numbers, is counted, and is an error in strict mode |
//! | 11 | a replay allocates nothing on the host's heap; with host-side inputs only, it is one driver call (`Cuda`; up to eight inputs) |
//! | 12 | the order of registration never matters; two entries of one name are refused with both locations |
//! | 13 | whatever single driver call fails: a clear error or an eager fallback, right numbers afterwards, nothing leaked (`Cuda`; the host backend has the same test over its own calls). Errors 700 and 719 end the device, and say which call reported them |
//! | 14 | what is dropped while a capture runs is destroyed after it (also `Cuda`) |
//! | 15 | captures come largest first, a node's regions before its whole forwards, in the same order every time; a call captures nothing |
//!
//! # Errors and strictness
//!
//! - [`Error`] is one word; [`Error::kind`] has the names and numbers as data ([`ErrorKind`]). The text says what to do.
//! - What is wrong with a *declaration* fails [`EngineBuilder::build`]. What fails in *one capture* is in
//!   [`RunnerStats::failures`], and that bucket is not there.
//! - What is wrong with a *call* (a size, an element, a held output, a refused resource) is an error that leaves nothing
//!   reserved, staged or held; sizes and elements are checked before anything is written.
//! - A call that no bucket fits is **not** an error: it runs eagerly and says why ([`Outcome::reason`]).
//!   [`CaptureOptions::strict`] makes it one, [`ErrorKind::Strict`]; a call that was told to run eagerly is allowed
//!   even then.
//!
//! # What is not promised
//!
//! - That any of this has run on a GPU: `graph_cuda` has been tested over a stand-in driver only.
//! - That a replay has the bits of an eager call: the graph launches the same operations at the bucket's size, and what a
//!   kernel computes for a row at another size is the kernel's business. A forward must not let a padded row reach a real
//!   one.
//! - Safety of a forward's own `unsafe` launches on a backend that has them: a kernel's bounds are its author's word.
//! - A runner is used by one thread at a time; an engine has one stream. Two devices are two engines.
//! - Sizes of static memory that stay the same between versions: [`Ledger`] says what is held.
//!
//! # Design choices
//!
//! - A forward writes into given outputs and allocates nothing but [scratch](Cx::scratch), so the same code runs eagerly,
//!   warms up and is captured.
//! - Handles of a backend are cheap clones that share what they name; the backend's value is the device handle.
//! - A static buffer that somebody holds is written by nobody: not as an output, not by staging, not by padding. Outputs
//!   borrow their runner (a compile error) and count on their buffer (an error at run time, for wires and `hold`).
//! - Padding needs no dummy requests: staging and the graph's head write every padded row of every input by its declared
//!   [`Pad`] policy, which points at a sink row or page.
//! - [`Error`] is one word; a [`Miss`] is small and `Copy`. Replaying a derived region allocates nothing.

// `doc/*.md` is set-up that the examples of many types share; every line of it is hidden (`# `).

mod arena;
mod backend;
mod bucket;
mod capture;
mod check;
mod claim;
mod config;
mod cx;
mod eager;
mod element;
mod engine;
mod error;
mod executor;
mod handwritten;
mod lease;
mod load;
mod named;
mod node;
mod node_runner;
mod region;
mod registry;
mod request;
mod resource;
mod runner;
mod runners;
mod schema;
mod shape;
mod source;
mod stage;
mod statics;
mod stats;
mod step;
mod tensor;
mod whole;

pub use backend::{Backend, PadRows};
pub use bucket::{BucketIx, BucketKey, BucketTable, KeyInfo, Miss};
pub use capture::{CaptureOptions, CaptureProgress, Ledger};
pub use config::*;
pub use cx::{Cx, Mode, Resources};
pub use element::{Elem, Element};
pub use engine::{Engine, EngineBuilder};
pub use error::{Error, ErrorKind, Result};
#[cfg(feature = "derive")]
pub use graph_macros::PiecewiseRegion;
pub use half::{bf16, f16};
pub use handwritten::{HandWritten, NamedArgs, NoModel};
pub use lease::{Leased, RawOut, SlotLease, Staged};
pub use load::{LoadCx, Loader, Options};
pub use named::{CallInputs, NamedInputs, NamedOutputs, NamedResults, PiecewiseCallInputs};
pub use node::{BindCx, Forward, Node, StepRequests};
pub use node_runner::{NodeCall, NodeRunner, WholeOutcome};
pub use region::{Args, OutTensor, Outcome, Region, RegionSpec, Submodule};
pub use registry::{HandWrittenTable, Location, NodeEntry, On, RegionEntry, RegionOn, Registry};
pub use request::{HostValue, ModelInputsFromEngine, NodeInputs, RequestId, Row};
pub use resource::{AdmitOutcome, Dependencies, GraphBuffers, Resource, ResourceStep, StepContext};
pub use runner::Runner;
pub use runners::Runners;
pub use schema::{IoSchema, Pad, PadValue, Schema, Side, Wire};
pub use shape::{Dims, PiecewiseCaptureShape, Shape, distribute_tokens};
pub use source::{DeviceInput, HostInput, HostTensor, Source};
pub use statics::Statics;
pub use stats::{BucketCount, RunnerStats};
pub use step::{Admitted, Declared, Label, Planned, Segment, Step, Steps, SubmoduleStep, SubmoduleStepPart};
pub use tensor::{AnyView, In, MAX_RANK, Out, Tensor};
pub use whole::{Walk, WholeRunner};

/// What generated code calls. Not part of the interface.
#[doc(hidden)]
pub mod __private {
    pub use inventory;

    use crate::{AnyView, Backend, Element, ErrorKind, In, Out, OutTensor, RawOut, Result};

    /// A view of the element and rank that the schema declares.
    ///
    /// # Panics
    /// When they differ, which the schema check at capture excludes for derived regions.
    pub fn typed<'a, B: Backend, T: Element, const R: usize>(view: &AnyView<'a, B>) -> In<'a, B, T, R> {
        view.typed().expect("views follow the schema")
    }

    /// The same to write.
    ///
    /// # Panics
    /// As [`typed`].
    pub fn typed_mut<'a, B: Backend, T: Element, const R: usize>(view: &AnyView<'a, B>) -> Out<'a, B, T, R> {
        view.typed_mut().expect("views follow the schema")
    }

    /// An output of the element and rank that the schema declares.
    pub fn typed_out<B: Backend, T: Element, const R: usize>(
        raw: RawOut<'_, B>,
    ) -> Result<OutTensor<'_, B, T, R>> {
        OutTensor::from_raw(raw).map_err(|raw| {
            ErrorKind::WrongType {
                owner: "results".into(),
                input: "output".into(),
                want_elem: raw.elem.name(),
                want_rank: raw.rank,
                got_elem: T::ELEM.name(),
                got_rank: R,
            }
            .into()
        })
    }
}
