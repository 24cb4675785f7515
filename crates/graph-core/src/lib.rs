//! Capture and replay of CUDA graphs, correct by construction.

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
