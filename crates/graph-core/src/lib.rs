//! Capture and replay of CUDA graphs, correct by construction.
//!
//! A decode step launches hundreds of small kernels; launching them one by one leaves a GPU idle. A CUDA graph launches
//! them as one, but only on the same addresses and sizes as when it was captured. This crate owns what follows from
//! that: static buffers, size buckets, padding, slots and leases, eager fallbacks, and the order of a capture.
//!
//! # The life of a call
//!
//! ```text
//! args ─► bucket table ─► lease slot ─► stage + pad ─► plan resources ─► launch graph ─► commit ─► output lease
//!              │ no fit: Eager(reason, with the numbers), counted; strict mode: an error
//! ```
//! and before that, once:
//! ```text
//! registry ─► load submodules ─► instances ─► claim (regions and whole forwards) ─► arena ─► per bucket, largest first
//! [stage an all-padding call ─► prepare ─► warm up ─► capture ─► audit ─► instantiate ─► upload] for regions
//! ─► bind nodes ─► the same for whole forwards
//! ```
//! The source files are named after these stations. A graph is: head (upload of the slot's block; padding of device-side
//! inputs by the block's real row counts), body (the author's), tail (completion word).
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | backend | a type that implements [`Backend`]: `graph_host::Host` (CPU), `graph_cuda::Cuda` |
//! | walk | the name of a forward path of a node, such as `decode` or `prefill` |
//! | whole forward | a graph of a node's entire batched forward, driven by the engine ([`CudaGraphConfig`]) |
//! | region | an inner callable captured on its own, while the code around it stays eager ([`PiecewiseCudaGraphConfig`]) |
//! | bucket | a [`Shape`] that is captured; its key is walk, bs, tokens, additional key info |
//! | slot | one copy of a node's static buffers, with one graph per bucket |
//! | lease | the right to use one slot for one step ([`SlotLease`]) |
//! | wire | a static buffer that regions share by name, so that an output is the next region's input with no copy |
//! | block | a slot's packed host-side inputs; one copy uploads them |
//! | node | the eager code of a submodule, which owns its runners ([`Node`]) |
//! | resource | per-request state with admit, plan, commit ([`Resource`]) |
//! | outcome | what a call returns: replayed, or eager with a reason ([`Outcome`]) |
//!
//! # A region without the derive
//!
//! `#[derive(PiecewiseRegion)]` writes typed structs and registers the region; everything it does can be written against
//! the traits, with closures over named tensors:
//!
//! ```
//! use graph_core::*;
//! use graph_host::Host;
//!
//! static SCALE: Schema = Schema::new(
//!     "toy",
//!     "scale",
//!     "batched(seq_len = 1), batch_sizes = [1, 2, 4]",
//!     &[IoSchema::host("x", Elem::F32, 1, "[bs]")],
//!     &[IoSchema::device("y", Elem::F32, 1, "[bs]")],
//! );
//! static TABLE: HandWrittenTable<Host> = HandWrittenTable(|_| {
//!     let config = PiecewiseBatchedConfig::new(1).capture_batch_sizes([1, 2, 4]);
//!     let make_static_inputs = |shape: &Shape, statics: &mut Statics| {
//!         statics.input("x", [shape.bs]).output("y", [shape.bs]);
//!     };
//!     Ok(vec![HandWritten::<Host>::new(&SCALE, config, make_static_inputs, |cx, call| {
//!         let (x, y) = (call.inputs.get::<f32, 1>("x")?, call.outputs.get::<f32, 1>("y")?);
//!         cx.stream().kernel("scale", (x,), (y,), |(x,), (y,)| {
//!             y.iter_mut().zip(x).for_each(|(y, x)| *y = 3.0 * x);
//!         })
//!     })])
//! });
//! static ENTRY: RegionEntry = RegionEntry {
//!     schema: &SCALE,
//!     at: Location { krate: "toy", file: "lib.rs", line: 1 },
//!     on: &[On::hand_written(&TABLE)],
//! };
//!
//! let registry = Registry::from_entries(vec![&ENTRY], vec![], vec![])?;
//! let mut engine = Engine::builder(Host::new()).build(&registry)?;
//! let mut scale = engine.runners().take_named::<HandWritten<Host>>("toy.scale")?.remove(0);
//!
//! // Three requests run in the bucket of four; the fourth row is padding.
//! let x = &[1.0_f32, 2.0, 3.0];
//! let outcome = scale.run(NamedArgs(&[("x", Source::host(&x))]), &[1, 1, 1])?;
//! assert_eq!(outcome.reason(), None);
//! let y = outcome.into_out().take::<f32, 1>("y")?;
//! assert_eq!(y.to_vec(engine.stream())?, [3.0, 6.0, 9.0]);
//! drop(y); // while it lives, the slot's output is nobody's to write
//!
//! // Five requests fit no bucket: the forward runs at the exact size, and says why.
//! let x = &[1.0_f32; 5];
//! let outcome = scale.run(NamedArgs(&[("x", Source::host(&x))]), &[1; 5])?;
//! assert_eq!(outcome.reason(), Some(Miss::TooManyRequests { bs: 5, largest: 4 }));
//! # Ok::<(), graph_core::Error>(())
//! ```
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
