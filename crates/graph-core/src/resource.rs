//! Resources: per-request state that a captured step may touch.

use std::any::Any;

use crate::{
    Backend, Element, ErrorKind, In, IoSchema, Label, Options, RequestId, Resources, Result, Row, Segment,
    Shape, Source, Statics, Tensor, tensor::bytes_of,
};

/// State that the engine owns and forwards read: KV pages, positions, a sampler.
///
/// A resource has two halves. Its bookkeeping (this trait) lives on the host and changes in steps: admit, plan, commit,
/// or roll back. What forwards read on the device comes from [`share`](Resource::share): memory that exists before the
/// first capture and never moves. What changes from step to step (page tables, positions) are *planned inputs*: host
/// slices that the executor stages into the slot's block with everything else, so that a step's plan costs no driver
/// call of its own and is padded by a declared policy like any input.
///
/// The roles are those of mstar's resources.
///
/// A resource without planned inputs: tokens that all requests together may still take.
///
/// ```
/// use graph_core::*;
/// use graph_host::Host;
///
/// struct Quota {
///     left: usize,
/// }
///
/// fn tokens(step: &ResourceStep<'_>) -> usize {
///     step.segments.iter().map(|s| s.span.len()).sum()
/// }
///
/// impl Resource<Host> for Quota {
///     fn name(&self) -> &'static str {
///         "quota"
///     }
///     fn ingest(&mut self, _: RequestId, _: &Options) -> Result<()> {
///         Ok(())
///     }
///     fn remove(&mut self, _: RequestId) {}
///
///     fn admit(&mut self, step: &ResourceStep<'_>) -> Result<AdmitOutcome> {
///         if tokens(step) > self.left {
///             return Ok(AdmitOutcome::NotReady { request: step.segments[0].request });
///         }
///         self.left -= tokens(step);
///         Ok(AdmitOutcome::Admitted)
///     }
///     fn plan(&mut self, _: &ResourceStep<'_>, _: &StepContext<'_>, _: Dependencies<'_, Host>) -> Result<()> {
///         Ok(())
///     }
///     fn planned(&self, _slot: usize, _input: usize) -> Source<'_, Host> {
///         unreachable!("`inputs` lists none")
///     }
///     fn commit(&mut self, _: &ResourceStep<'_>) {}
///     fn rollback(&mut self, step: &ResourceStep<'_>) {
///         self.left += tokens(step);
///     }
/// }
///
/// let mut steps = Steps::<Host>::new("toy", vec![Box::new(Quota { left: 4 })])?;
/// steps.ingest(RequestId(1), &Options::default())?;
/// let mut declare = |tokens| {
///     let step = steps.declare(|step| {
///         step.resource("quota").segment(RequestId(1), Label::MAIN, tokens);
///         Ok(())
///     })?;
///     step.admit().map(drop) // a step that is dropped before its commit is rolled back
/// };
/// declare(3)?;
/// declare(3)?;
/// assert!(matches!(declare(5).unwrap_err().kind(), ErrorKind::Refused { resource: "quota", .. }));
/// # Ok::<(), graph_core::Error>(())
/// ```
pub trait Resource<B: Backend>: Any + Send {
    /// The name that steps use.
    fn name(&self) -> &'static str;

    /// Resources of the same node that are admitted, planned and committed before this one.
    fn depends_on(&self) -> &'static [&'static str] {
        &[]
    }

    /// The planned inputs, host-side.
    fn inputs(&self) -> &'static [IoSchema] {
        &[]
    }

    /// The size of every planned input at a shape.
    fn make_static_inputs(&self, _shape: &Shape, _statics: &mut Statics) {}

    /// Claims graph buffers for a shape that will be captured; see [`GraphBuffers`]. Called while claims are open.
    fn claim(&mut self, _shape: &Shape) -> Result<()> {
        Ok(())
    }

    /// Closes the claims: allocates what was claimed, for every slot. `stream` is the engine's: what is issued on it
    /// comes before every launch.
    fn allocate(&mut self, _device: &B, _stream: &B::Stream, _slots: usize) -> Result<()> {
        Ok(())
    }

    /// Puts what forwards ask for by type into the node's shared state.
    fn share(&self, _into: &mut Resources) {}

    /// A request begins. `info` has what the engine says about it, by type.
    fn ingest(&mut self, request: RequestId, info: &Options) -> Result<()>;

    /// A request ends, in whatever state; everything it had comes back.
    fn remove(&mut self, request: RequestId);

    /// Reserves what a step needs, or says what is missing and changes nothing.
    fn admit(&mut self, step: &ResourceStep<'_>) -> Result<AdmitOutcome>;

    /// Works out the planned inputs of an admitted step for its slot. Everything that the step touches is admitted by
    /// now, and `dependencies` gives the resources that this one depends on. Where a graph will be replayed, the last
    /// one on that slot of its executor is done; graphs on other slots may still run.
    fn plan(
        &mut self,
        step: &ResourceStep<'_>,
        cx: &StepContext<'_>,
        dependencies: Dependencies<'_, B>,
    ) -> Result<()>;

    /// A planned input, as [`plan`](Resource::plan) left it for that slot.
    fn planned(&self, slot: usize, input: usize) -> Source<'_, B>;

    /// The step was launched: what it reserved is now the request's.
    fn commit(&mut self, step: &ResourceStep<'_>);

    /// The step did not happen: what it reserved comes back. Undoes the latest admitted step.
    fn rollback(&mut self, step: &ResourceStep<'_>);

    /// Makes padding rows as they were, after every committed step.
    fn reset(&mut self, _padding: &[Row]) {}

    /// Whether the next step can be planned while one runs: then the node gets two slots.
    fn supports_preplan(&self) -> bool {
        false
    }

    /// Looks at the state after all captures; an error stops the engine (invariant 5).
    fn validate_capture(&self, _stream: &B::Stream) -> Result<()> {
        Ok(())
    }

    /// Bytes on the device that [`allocate`](Resource::allocate) will take for so many slots, after all claims: what a
    /// [`memory_budget`](crate::CaptureOptions::memory_budget) is compared with.
    fn claimed_bytes(&self, _slots: usize) -> usize {
        0
    }

    /// Bytes on the device, for the ledger.
    fn device_bytes(&self) -> usize {
        0
    }
}

/// One resource's part of a declared step.
///
/// ```
#[doc = include_str!("doc/budget.md")]
/// // A test of a resource by itself; `Budget` counts the tokens of each request.
/// let mut budget = Budget { most: 4, ..Budget::default() };
/// budget.ingest(RequestId(1), &Options::default())?;
/// let segments = [Segment { request: RequestId(1), label: Label::MAIN, span: 0..3 }];
/// let step = ResourceStep { segments: &segments };
/// assert_eq!(budget.admit(&step)?, AdmitOutcome::Admitted);
/// assert!(matches!(budget.admit(&step)?, AdmitOutcome::TooLong { tokens: 6, most: 4, .. }));
/// budget.rollback(&step);
/// assert_eq!(budget.len[&RequestId(1)], 0);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ResourceStep<'s> {
    /// The segments that touch it, in row order.
    pub segments: &'s [Segment],
}

/// The resources that one depends on, while it plans.
///
/// ```
#[doc = include_str!("doc/budget.md")]
/// #[derive(Default)]
/// struct Longest(usize);
///
/// impl Resource<Host> for Longest {
///     # fn name(&self) -> &'static str {
///     #     "longest"
///     # }
///     # fn ingest(&mut self, _: RequestId, _: &Options) -> Result<()> {
///     #     Ok(())
///     # }
///     # fn remove(&mut self, _: RequestId) {}
///     # fn admit(&mut self, _: &ResourceStep<'_>) -> Result<AdmitOutcome> {
///     #     Ok(AdmitOutcome::Admitted)
///     # }
///     # fn planned(&self, _: usize, _: usize) -> Source<'_, Host> {
///     #     unreachable!("`inputs` lists none")
///     # }
///     # fn commit(&mut self, _: &ResourceStep<'_>) {}
///     # fn rollback(&mut self, _: &ResourceStep<'_>) {}
///     fn depends_on(&self) -> &'static [&'static str] {
///         &["budget"]
///     }
///     fn plan(&mut self, _: &ResourceStep<'_>, _: &StepContext<'_>, on: Dependencies<'_, Host>) -> Result<()> {
///         let budget = on.get::<Budget>()?; // admitted and planned before this one
///         self.0 = budget.len.values().copied().max().unwrap_or(0);
///         Ok(())
///     }
///     // (the other roles)
/// }
/// # let budget = Budget { most: 4, ..Budget::default() };
/// let mut steps = Steps::<Host>::new("toy", vec![Box::new(Longest::default()), Box::new(budget)])?;
/// # steps.ingest(RequestId(1), &Options::default())?;
/// # let step = steps.declare(|step| {
/// #     step.resource("longest").segment(RequestId(1), Label::MAIN, 3);
/// #     step.resource("budget").segment(RequestId(1), Label::MAIN, 3);
/// #     Ok(())
/// # })?;
/// # let rows = [Row::Request(RequestId(1))];
/// # let padded = Dims { bs: 1, tokens: 3 };
/// # let cx = StepContext { slot: 0, rows: &rows, real_bs: 1, padded, captured: false };
/// step.admit()?.plan(&cx)?.commit(&[]); // a step of three tokens of one request
/// assert_eq!(steps.get::<Longest>().unwrap().0, 3);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Dependencies<'d, B: Backend> {
    pub(crate) owner: &'static str,
    pub(crate) names: &'static [&'static str],
    /// All that come earlier in dependency order.
    pub(crate) earlier: &'d [Box<dyn Resource<B>>],
}

impl<B: Backend> Clone for Dependencies<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<B: Backend> Copy for Dependencies<'_, B> {}

impl<'d, B: Backend> Dependencies<'d, B> {
    /// The dependency of a type; an error for one that [`depends_on`](Resource::depends_on) does not name.
    pub fn get<T: Resource<B>>(&self) -> Result<&'d T> {
        let named = self.earlier.iter().filter(|r| self.names.contains(&r.name()));
        let found = named.into_iter().find_map(|r| (&**r as &dyn Any).downcast_ref());
        found.ok_or_else(|| {
            let rust_type = std::any::type_name::<T>();
            ErrorKind::NoDependency { resource: self.owner, rust_type }.into()
        })
    }
}

/// Where a step runs.
///
/// ```
#[doc = include_str!("doc/budget.md")]
/// // `Budget` plans the length of each request.
/// let mut steps = Steps::<Host>::new("toy", vec![Box::new(Budget { most: 4, ..Budget::default() })])?;
/// steps.ingest(RequestId(1), &Options::default())?;
/// let step = steps.declare(|step| {
///     step.resource("budget").segment(RequestId(1), Label::MAIN, 3);
///     Ok(())
/// })?;
/// // One request in a bucket of two, on slot 1.
/// let rows = [Row::Request(RequestId(1)), Row::Padding { slot: 1, row: 1 }];
/// let padded = Dims { bs: 2, tokens: 8 };
/// let cx = StepContext { slot: 1, rows: &rows, real_bs: 1, padded, captured: true };
/// let mut step = step.admit()?.plan(&cx)?;
/// let budget = step.inside().get::<Budget>().unwrap();
/// assert_eq!(budget.planned(1, 0).values::<i32>(), Some(&[3][..])); // the padding row is staging's to write
/// step.commit(&rows[1..]);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StepContext<'s> {
    /// The slot that was leased for it.
    pub slot: usize,
    /// The rows of the step: requests first, then padding rows up to the bucket.
    pub rows: &'s [Row],
    /// Rows that are requests.
    pub real_bs: usize,
    /// The shape that runs: the bucket's, or the exact one of an eager call.
    pub padded: crate::Dims,
    /// Whether a captured graph of that shape will be replayed; otherwise the forward runs eagerly.
    pub captured: bool,
}

/// What [`Resource::admit`] says.
///
/// ```
#[doc = include_str!("doc/budget.md")]
/// let mut steps = Steps::<Host>::new("toy", vec![Box::new(Budget { most: 4, ..Budget::default() })])?;
/// steps.ingest(RequestId(1), &Options::default())?;
/// let step = steps.declare(|step| {
///     step.resource("budget").segment(RequestId(1), Label::MAIN, 5);
///     Ok(())
/// })?;
/// let error = step.admit().expect_err("a stream has four tokens at the most");
/// let ErrorKind::Refused { outcome, .. } = error.kind() else { panic!("{error}") };
/// assert!(matches!(outcome, AdmitOutcome::TooLong { tokens: 5, most: 4, .. }), "it will never fit: reject it");
/// assert_eq!(outcome.to_string(), "request 1 (main) would have 5 tokens, at most 4");
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdmitOutcome {
    /// Everything is reserved.
    Admitted,
    /// Too few free pages.
    PagesShort {
        /// How many more are needed.
        pages: usize,
        /// The request that did not get them.
        request: RequestId,
        /// For which of its streams.
        label: Label,
    },
    /// A stream would become longer than any stream may be: it will never fit, however many pages come free.
    TooLong {
        /// Tokens that it would have.
        tokens: usize,
        /// Tokens that a stream may have.
        most: usize,
        /// The request.
        request: RequestId,
        /// Which of its streams.
        label: Label,
    },
    /// A request is not ready for this step.
    NotReady {
        /// The request.
        request: RequestId,
    },
}

impl std::fmt::Display for AdmitOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AdmitOutcome::Admitted => f.write_str("admitted"),
            AdmitOutcome::PagesShort { pages, request, label } => {
                write!(f, "{pages} page(s) short for request {} ({label})", request.0)
            }
            AdmitOutcome::TooLong { tokens, most, request, label } => {
                write!(f, "request {} ({label}) would have {tokens} tokens, at most {most}", request.0)
            }
            AdmitOutcome::NotReady { request } => write!(f, "request {} is not ready", request.0),
        }
    }
}

/// Device buffers of a resource that graphs record: one copy per slot, at the largest size anybody claimed.
///
/// Claims grow while they are open. After [`allocate`](GraphBuffers::allocate) a larger claim is an error: the graphs
/// own the addresses.
///
/// ```
/// use graph_core::GraphBuffers;
/// use graph_host::Host;
///
/// let host = Host::new();
/// let mut buffers = GraphBuffers::<Host>::new("attention");
/// buffers.claim::<f32>("workspace", 64)?; // for one shape,
/// buffers.claim::<f32>("workspace", 16)?; // and for a smaller one
/// buffers.allocate(&host, 2)?; // one per slot
/// assert_eq!(buffers.get::<f32, 2>("workspace", 1, [4, 16])?.dims(), [4, 16]);
/// assert_eq!(buffers.bytes(), 2 * 64 * 4);
/// assert!(buffers.claim::<f32>("workspace", 65).is_err(), "graphs have recorded the address");
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct GraphBuffers<B: Backend> {
    owner: &'static str,
    claims: Vec<(&'static str, usize)>,
    /// By slot, then in claim order.
    slots: Option<Vec<Vec<B::Buffer>>>,
}

impl<B: Backend> GraphBuffers<B> {
    /// No claims yet; `owner` is for messages.
    pub fn new(owner: &'static str) -> Self {
        GraphBuffers { owner, claims: Vec::new(), slots: None }
    }

    /// At least `len` elements under a name.
    ///
    /// # Errors
    /// [`ClaimsClosed`](ErrorKind::ClaimsClosed) for more than was claimed before the allocation.
    pub fn claim<T: Element>(&mut self, name: &'static str, len: usize) -> Result<()> {
        let bytes = bytes_of::<T>(&[len]);
        let claimed = self.claims.iter_mut().find(|c| c.0 == name);
        match (claimed, &self.slots) {
            (Some(claim), _) if claim.1 >= bytes => Ok(()),
            (claim, Some(_)) => {
                let (owner, has) = (self.owner, claim.map_or(0, |c| c.1));
                Err(ErrorKind::ClaimsClosed { owner, name, asked: bytes, has }.into())
            }
            (Some(claim), None) => {
                claim.1 = bytes;
                Ok(())
            }
            (None, None) => {
                self.claims.push((name, bytes));
                Ok(())
            }
        }
    }

    /// Closes the claims and allocates one copy per slot.
    ///
    /// # Errors
    /// What the backend reports.
    pub fn allocate(&mut self, device: &B, slots: usize) -> Result<()> {
        let slot = |_| self.claims.iter().map(|(_, bytes)| device.alloc(*bytes)).collect();
        self.slots = Some((0..slots).map(slot).collect::<Result<_>>()?);
        Ok(())
    }

    /// A claimed buffer of a slot as a tensor; an error before allocation, or beyond the claim.
    pub fn get<T: Element, const R: usize>(
        &self,
        name: &'static str,
        slot: usize,
        dims: [usize; R],
    ) -> Result<Tensor<B, T, R>> {
        let found = self.claims.iter().position(|c| c.0 == name && c.1 >= bytes_of::<T>(&dims));
        let buffer = found.and_then(|i| self.slots.as_ref()?.get(slot)?.get(i));
        match buffer {
            Some(buffer) => Ok(Tensor::at(buffer.clone(), 0, dims)),
            None => {
                let has = self.claims.iter().find(|c| c.0 == name).map_or(0, |c| c.1);
                let asked = bytes_of::<T>(&dims);
                Err(ErrorKind::ClaimsClosed { owner: self.owner, name, asked, has }.into())
            }
        }
    }

    /// Bytes over all slots; 0 before the allocation.
    pub fn bytes(&self) -> usize {
        self.claimed_bytes(self.slots.as_ref().map_or(0, Vec::len))
    }

    /// Bytes that [`allocate`](GraphBuffers::allocate) takes for so many slots.
    pub fn claimed_bytes(&self, slots: usize) -> usize {
        self.claims.iter().fold(0, |all: usize, c| all.saturating_add(c.1.saturating_mul(slots)))
    }
}

/// The planned inputs of the resources that a forward uses, by resource and name.
pub(crate) struct PlannedViews<'a, B: Backend> {
    pub(crate) names: &'a [(&'static str, &'static str)],
    pub(crate) views: &'a [crate::AnyView<'a, B>],
}

impl<B: Backend> Clone for PlannedViews<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<B: Backend> Copy for PlannedViews<'_, B> {}

impl<'a, B: Backend> PlannedViews<'a, B> {
    pub(crate) fn get<T: Element, const R: usize>(
        &self,
        resource: &str,
        name: &str,
    ) -> Result<In<'a, B, T, R>> {
        let Some(i) = self.names.iter().position(|n| *n == (resource, name)) else {
            let known = self.names.iter().map(|(r, n)| format!("{r}.{n}")).collect::<Vec<_>>().join(", ");
            let got = format!("{resource}.{name}");
            let owner = "forward".to_string();
            return Err(ErrorKind::UnknownName { owner, what: "planned input", got, known }.into());
        };
        let view = &self.views[i];
        view.typed().ok_or_else(|| {
            ErrorKind::WrongType {
                owner: resource.into(),
                input: name.into(),
                want_elem: view.elem.name(),
                want_rank: view.rank,
                got_elem: T::ELEM.name(),
                got_rank: R,
            }
            .into()
        })
    }
}
