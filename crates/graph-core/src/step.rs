//! Steps: declared, admitted, planned, committed, in that order by types.
//!
//! A step that is dropped before its commit, or fails, rolls back what it reserved: nothing is left half done.

use std::{fmt, marker::PhantomData, ops::Range};

use rustc_hash::FxHashSet;

use crate::{
    AdmitOutcome, Backend, Dependencies, ErrorKind, Options, RequestId, Resource, ResourceStep, Resources,
    Result, Row, Shape, Source, StepContext,
};

/// Which stream of a request a segment continues: one KV sequence per label, such as the two of a guidance step.
///
/// ```
/// use graph_core::{Label, RequestId, SubmoduleStep};
///
/// // Guidance: a request has a second sequence with pages of its own.
/// const NEGATIVE: Label = Label("negative");
/// let mut step = SubmoduleStep::default();
/// step.resource("kv").segment(RequestId(1), Label::MAIN, 1).segment(RequestId(1), NEGATIVE, 1);
/// let labels: Vec<_> = step.segments("kv").unwrap().iter().map(|s| s.label.to_string()).collect();
/// assert_eq!(labels, ["main", "negative"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(pub &'static str);

impl Label {
    /// The label of a request that has one stream.
    pub const MAIN: Label = Label("main");
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Tokens of one request that a step appends to one of its streams.
///
/// ```
/// use graph_core::{Label, RequestId, SubmoduleStep};
///
/// let mut step = SubmoduleStep::default();
/// step.resource("kv").segment(RequestId(1), Label::MAIN, 3).segment(RequestId(2), Label::MAIN, 1);
/// // The packed tokens of the step, cut apart again.
/// let tokens = ["a", "b", "c", "d"];
/// let parts: Vec<_> = step.segments("kv").unwrap().iter().map(|s| &tokens[s.span.clone()]).collect();
/// assert_eq!(parts, [&["a", "b", "c"][..], &["d"]]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The request.
    pub request: RequestId,
    /// The stream.
    pub label: Label,
    /// Which tokens of the packed step they are.
    pub span: Range<usize>,
}

/// What a submodule declares about a step: which resources it touches, and with which segments.
///
/// The storage is reused from step to step, so that declaring allocates nothing.
///
/// ```
/// use graph_core::{Label, RequestId, SubmoduleStep};
/// let mut step = SubmoduleStep::default();
/// step.resource("kv").segment(RequestId(1), Label::MAIN, 3).segment(RequestId(2), Label::MAIN, 1);
/// step.resource("sampler").segment(RequestId(1), Label::MAIN, 1);
/// assert_eq!(step.segments("kv").unwrap()[1].span, 3..4);
/// ```
#[derive(Debug, Default)]
pub struct SubmoduleStep {
    segments: Vec<Segment>,
    /// Resource, its segments, and its position in dependency order (filled in when the step is declared).
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    resource: &'static str,
    segments: Range<usize>,
    order: usize,
}

impl SubmoduleStep {
    /// Begins the part of a resource.
    pub fn resource(&mut self, name: &'static str) -> SubmoduleStepPart<'_> {
        let start = self.segments.len();
        self.parts.push(Part { resource: name, segments: start..start, order: 0 });
        SubmoduleStepPart { step: self, end: 0 }
    }

    /// The segments of a resource, if the step touches it.
    pub fn segments(&self, resource: &str) -> Option<&[Segment]> {
        let part = self.parts.iter().find(|p| p.resource == resource)?;
        Some(&self.segments[part.segments.clone()])
    }

    fn clear(&mut self) {
        self.segments.clear();
        self.parts.clear();
    }

    fn part(&self, i: usize) -> (usize, ResourceStep<'_>) {
        let part = &self.parts[i];
        (part.order, ResourceStep { segments: &self.segments[part.segments.clone()] })
    }
}

/// The part of a step that touches one resource.
///
/// ```
/// use graph_core::{Label, RequestId, SubmoduleStep, SubmoduleStepPart};
///
/// fn append_all(mut part: SubmoduleStepPart<'_>, requests: &[(RequestId, usize)]) {
///     for (request, tokens) in requests {
///         part.segment(*request, Label::MAIN, *tokens);
///     }
/// }
/// let requests = [(RequestId(1), 3), (RequestId(2), 1)];
/// let mut step = SubmoduleStep::default();
/// append_all(step.resource("kv"), &requests);
/// append_all(step.resource("sampler"), &requests); // its spans begin at 0 again
/// assert_eq!(step.segments("kv"), step.segments("sampler"));
/// ```
pub struct SubmoduleStepPart<'s> {
    step: &'s mut SubmoduleStep,
    /// Tokens of the packed step that have their segment.
    end: usize,
}

impl SubmoduleStepPart<'_> {
    /// The next `tokens` tokens of the packed step continue a request's stream.
    pub fn segment(&mut self, request: RequestId, label: Label, tokens: usize) -> &mut Self {
        let end = self.end.saturating_add(tokens);
        self.step.segments.push(Segment { request, label, span: self.end..end });
        self.end = end;
        // The part is the last one as long as this borrows the step.
        if let Some(part) = self.step.parts.last_mut() {
            part.segments.end += 1;
        }
        self
    }
}

/// The resources of a node, in dependency order, and the steps over them.
///
/// ```
#[doc = include_str!("doc/budget.md")]
/// // `Budget` counts the tokens of each request, four at the most.
/// let mut steps = Steps::<Host>::new("toy", vec![Box::new(Budget { most: 4, ..Budget::default() })])?;
/// steps.ingest(RequestId(1), &Options::default())?;
/// # let rows = [Row::Request(RequestId(1))];
/// # let padded = Dims { bs: 1, tokens: 1 };
/// # let cx = StepContext { slot: 0, rows: &rows, real_bs: 1, padded, captured: false };
/// for _ in 0..4 {
///     let step = steps.declare(|step| {
///         step.resource("budget").segment(RequestId(1), Label::MAIN, 1);
///         Ok(())
///     })?;
///     step.admit()?.plan(&cx)?.commit(&[]);
/// }
/// assert_eq!(steps.get::<Budget>().unwrap().len[&RequestId(1)], 4);
/// steps.remove(RequestId(1));
/// assert!(steps.get::<Budget>().unwrap().len.is_empty());
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Steps<B: Backend> {
    node: &'static str,
    resources: Vec<Box<dyn Resource<B>>>,
    /// Whether an open step touches a resource, by position.
    open: Vec<bool>,
    /// Requests that were ingested and not removed.
    requests: FxHashSet<RequestId>,
    /// Storage of finished steps, to be used again.
    spare: Vec<SubmoduleStep>,
}

/// State of a step: declared.
///
/// See [`Step`] for an example.
#[derive(Debug)]
pub struct Declared(());
/// State of a step: everything it needs is reserved.
///
/// See [`Step`] for an example.
#[derive(Debug)]
pub struct Admitted(());
/// State of a step: its planned inputs are ready to be staged.
///
/// See [`Step`] for an example.
#[derive(Debug)]
pub struct Planned(());

impl<B: Backend> Steps<B> {
    /// The resources of a node; an unknown dependency, a cycle or two of one name are errors.
    pub fn new(node: &'static str, resources: Vec<Box<dyn Resource<B>>>) -> Result<Self> {
        let resources = in_dependency_order(node, resources)?;
        let open = vec![false; resources.len()];
        Ok(Steps { node, resources, open, requests: FxHashSet::default(), spare: Vec::new() })
    }

    /// A request begins, in every resource or in none.
    ///
    /// # Errors
    /// [`RequestKnown`](ErrorKind::RequestKnown), or what a resource returns, after which no resource knows the request.
    pub fn ingest(&mut self, request: RequestId, info: &Options) -> Result<()> {
        if self.requests.contains(&request) {
            return Err(ErrorKind::RequestKnown { node: self.node, request }.into());
        }
        for i in 0..self.resources.len() {
            if let Err(error) = self.resources[i].ingest(request, info) {
                self.resources[..i].iter_mut().for_each(|r| r.remove(request));
                return Err(error);
            }
        }
        self.requests.insert(request);
        Ok(())
    }

    /// A request ends; everything it had comes back. Unknown requests are ignored.
    pub fn remove(&mut self, request: RequestId) {
        if self.requests.remove(&request) {
            self.resources.iter_mut().rev().for_each(|r| r.remove(request));
        }
    }

    /// A resource by its type.
    pub fn get<T: Resource<B>>(&self) -> Option<&T> {
        self.resources.iter().find_map(|r| (&**r as &dyn std::any::Any).downcast_ref())
    }

    /// A resource by its type, to change it.
    pub fn get_mut<T: Resource<B>>(&mut self) -> Option<&mut T> {
        self.resources.iter_mut().find_map(|r| (&mut **r as &mut dyn std::any::Any).downcast_mut())
    }

    /// Declares a step: `declare` fills in which resources it touches. Every request must have been ingested, and no
    /// open step may touch the same resource.
    ///
    /// # Errors
    /// What `declare` returns; [`UnknownName`](ErrorKind::UnknownName) of a resource, with the known ones;
    /// [`ResourceInStep`](ErrorKind::ResourceInStep); [`RequestUnknown`](ErrorKind::RequestUnknown).
    pub fn declare(
        &mut self,
        declare: impl FnOnce(&mut SubmoduleStep) -> Result<()>,
    ) -> Result<Step<'_, B, Declared>> {
        let mut declared = self.spare.pop().unwrap_or_default();
        declared.clear();
        let checked = declare(&mut declared).and_then(|()| self.check(&mut declared));
        if let Err(error) = checked {
            self.spare.push(declared);
            return Err(error);
        }
        declared.parts.iter().for_each(|p| self.open[p.order] = true);
        Ok(Step { inner: Inner { steps: self, declared, admitted: 0, slot: 0 }, state: PhantomData })
    }

    fn check(&self, step: &mut SubmoduleStep) -> Result<()> {
        for part in &mut step.parts {
            let Some(order) = self.resources.iter().position(|r| r.name() == part.resource) else {
                let known = self.resources.iter().map(|r| r.name()).collect::<Vec<_>>().join(", ");
                let (owner, got) = (self.node.into(), part.resource.into());
                return Err(ErrorKind::UnknownName { owner, what: "resource", got, known }.into());
            };
            if self.open[order] {
                return Err(ErrorKind::ResourceInStep { node: self.node, resource: part.resource }.into());
            }
            part.order = order;
        }
        step.parts.sort_by_key(|p| p.order);
        if let Some(twice) = step.parts.windows(2).find(|w| w[0].order == w[1].order) {
            return Err(ErrorKind::ResourceInStep { node: self.node, resource: twice[0].resource }.into());
        }
        // Parts mostly have the same requests, which are looked up once.
        let first = step.parts.first().map_or(&[][..], |p| &step.segments[p.segments.clone()]);
        for (p, part) in step.parts.iter().enumerate() {
            for (i, s) in step.segments[part.segments.clone()].iter().enumerate() {
                let known = p > 0 && first.get(i).is_some_and(|f| f.request == s.request);
                if !known && !self.requests.contains(&s.request) {
                    return Err(ErrorKind::RequestUnknown { node: self.node, request: s.request }.into());
                }
            }
        }
        Ok(())
    }

    pub(crate) fn resource(&self, name: &str) -> Result<&dyn Resource<B>> {
        let found = self.resources.iter().find(|r| r.name() == name);
        found.map(|r| &**r).ok_or_else(|| {
            let known = self.resources.iter().map(|r| r.name()).collect::<Vec<_>>().join(", ");
            ErrorKind::UnknownName { owner: self.node.into(), what: "resource", got: name.into(), known }
                .into()
        })
    }

    /// Claims graph buffers of the named resources for a shape.
    pub(crate) fn claim(&mut self, names: &[&str], shape: &Shape) -> Result<()> {
        let named = self.resources.iter_mut().filter(|r| names.contains(&r.name()));
        named.into_iter().try_for_each(|r| r.claim(shape))
    }

    /// Closes the claims.
    pub(crate) fn allocate(&mut self, device: &B, stream: &B::Stream, slots: usize) -> Result<()> {
        self.resources.iter_mut().try_for_each(|r| r.allocate(device, stream, slots))
    }

    pub(crate) fn validate_capture(&self, stream: &B::Stream) -> Result<()> {
        self.resources.iter().try_for_each(|r| r.validate_capture(stream))
    }

    pub(crate) fn claimed_bytes(&self, slots: usize) -> usize {
        self.resources.iter().map(|r| r.claimed_bytes(slots)).fold(0, usize::saturating_add)
    }

    pub(crate) fn device_bytes(&self) -> usize {
        self.resources.iter().map(|r| r.device_bytes()).sum()
    }

    pub(crate) fn share(&self, into: &mut Resources) {
        self.resources.iter().for_each(|r| r.share(into));
    }

    /// Whether the node has no resources.
    pub(crate) fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    /// Two slots when a resource can plan ahead, one otherwise.
    pub(crate) fn slots(&self) -> usize {
        1 + usize::from(self.resources.iter().any(|r| r.supports_preplan()))
    }
}

/// A step over the resources of a node. It moves through its states; dropped early, it rolls back.
///
/// ```
#[doc = include_str!("doc/budget.md")]
/// # let mut steps = Steps::<Host>::new("toy", vec![Box::new(Budget { most: 4, ..Budget::default() })])?;
/// # steps.ingest(RequestId(1), &Options::default())?;
/// # let rows = [Row::Request(RequestId(1))];
/// # let padded = Dims { bs: 1, tokens: 3 };
/// # let cx = StepContext { slot: 0, rows: &rows, real_bs: 1, padded, captured: false };
/// fn three(step: &mut SubmoduleStep) -> Result<()> {
///     step.resource("budget").segment(RequestId(1), Label::MAIN, 3);
///     Ok(())
/// }
/// let step: Step<'_, Host, Declared> = steps.declare(three)?;
/// let step: Step<'_, Host, Admitted> = step.admit()?; // three of four tokens are taken,
/// drop(step); // and given back: the step did not happen
///
/// let step: Step<'_, Host, Planned> = steps.declare(three)?.admit()?.plan(&cx)?;
/// step.commit(&[]);
/// assert!(steps.declare(three)?.admit().is_err(), "one token is left");
/// # Ok::<(), graph_core::Error>(())
/// ```
#[must_use = "a dropped step is rolled back"]
pub struct Step<'s, B: Backend, S> {
    inner: Inner<'s, B>,
    state: PhantomData<S>,
}

struct Inner<'s, B: Backend> {
    steps: &'s mut Steps<B>,
    declared: SubmoduleStep,
    /// Parts that were admitted, in order; all of them are rolled back when this is dropped.
    admitted: usize,
    /// The slot that it was planned for.
    slot: usize,
}

impl<B: Backend, S> fmt::Debug for Step<'_, B, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Step({}) {:?}", self.inner.steps.node, self.inner.declared)
    }
}

impl<'s, B: Backend> Step<'s, B, Declared> {
    /// Reserves what the step needs in every resource, or in none.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] with the outcome that says what is missing.
    pub fn admit(mut self) -> Result<Step<'s, B, Admitted>> {
        let inner = &mut self.inner;
        for i in 0..inner.declared.parts.len() {
            let (order, part) = inner.declared.part(i);
            let resource = &mut inner.steps.resources[order];
            match resource.admit(&part)? {
                AdmitOutcome::Admitted => inner.admitted += 1,
                outcome => {
                    let (node, resource) = (inner.steps.node, resource.name());
                    return Err(ErrorKind::Refused { node, resource, outcome }.into());
                }
            }
        }
        Ok(Step { inner: self.inner, state: PhantomData })
    }
}

impl<'s, B: Backend> Step<'s, B, Admitted> {
    /// Works out the planned inputs of every resource for the slot that the step will run on.
    ///
    /// # Errors
    /// What a resource returns. The step is rolled back then.
    pub fn plan(mut self, cx: &StepContext<'_>) -> Result<Step<'s, B, Planned>> {
        self.inner.slot = cx.slot;
        let Inner { steps, declared, .. } = &mut self.inner;
        for i in 0..declared.parts.len() {
            let (order, part) = declared.part(i);
            let (earlier, rest) = steps.resources.split_at_mut(order);
            let resource = &mut rest[0];
            let dependencies = Dependencies { owner: resource.name(), names: resource.depends_on(), earlier };
            resource.plan(&part, cx, dependencies)?;
        }
        Ok(Step { inner: self.inner, state: PhantomData })
    }
}

impl<B: Backend> Step<'_, B, Planned> {
    /// The step was launched: what it reserved is the requests' now. `padding` are the rows that nobody owns.
    pub fn commit(mut self, padding: &[Row]) {
        let Inner { steps, declared, admitted, .. } = &mut self.inner;
        *admitted = 0;
        for i in 0..declared.parts.len() {
            let (order, part) = declared.part(i);
            steps.resources[order].commit(&part);
            steps.resources[order].reset(padding);
        }
    }

    /// The planned inputs of the named resources, in order; each must be part of the step.
    pub(crate) fn planned<'p>(
        &'p self,
        resources: &[&'static str],
        slot: usize,
        mut each: impl FnMut(&'static str, &'static str, Source<'p, B>) -> Result<()>,
    ) -> Result<()> {
        // The plan of another slot is that of an earlier step: of other requests and their pages.
        if slot != self.inner.slot {
            let (node, planned) = (self.inner.steps.node, self.inner.slot);
            return Err(ErrorKind::OtherSlot { node, planned, leased: slot }.into());
        }
        for name in resources {
            if !self.inner.declared.parts.iter().any(|p| p.resource == *name) {
                let (node, resource) = (self.inner.steps.node, *name);
                return Err(ErrorKind::ResourceNotDeclared { node, resource }.into());
            }
            let resource = self.inner.steps.resource(name)?;
            for (i, io) in resource.inputs().iter().enumerate() {
                each(resource.name(), io.name, resource.planned(slot, i))?;
            }
        }
        Ok(())
    }
}

impl<B: Backend, S> Step<'_, B, S> {
    /// Steps over resources that this one does not touch, such as a region's own step inside a node's.
    pub fn inside(&mut self) -> &mut Steps<B> {
        self.inner.steps
    }
}

impl<B: Backend> Drop for Inner<'_, B> {
    fn drop(&mut self) {
        for i in (0..self.admitted).rev() {
            let (order, part) = self.declared.part(i);
            self.steps.resources[order].rollback(&part);
        }
        self.declared.parts.iter().for_each(|p| self.steps.open[p.order] = false);
        self.steps.spare.push(std::mem::take(&mut self.declared));
    }
}

/// Dependencies first; otherwise by name, so that the order in which they were made does not matter.
fn in_dependency_order<B: Backend>(
    node: &'static str,
    mut rest: Vec<Box<dyn Resource<B>>>,
) -> Result<Vec<Box<dyn Resource<B>>>> {
    rest.sort_by_key(|r| r.name());
    if let Some(twice) = rest.windows(2).find(|w| w[0].name() == w[1].name()) {
        return Err(ErrorKind::ResourceOrder {
            node,
            resource: twice[0].name(),
            why: "there are two of that name",
        }
        .into());
    }
    let all: Vec<&'static str> = rest.iter().map(|r| r.name()).collect();
    let mut done: Vec<Box<dyn Resource<B>>> = Vec::new();
    while !rest.is_empty() {
        let is_ready =
            |r: &dyn Resource<B>| r.depends_on().iter().all(|d| done.iter().any(|x| x.name() == *d));
        match rest.iter().position(|r| is_ready(&**r)) {
            Some(i) => done.push(rest.remove(i)),
            None => {
                let resource = rest[0].name();
                let unknown = rest[0].depends_on().iter().any(|d| !all.contains(d));
                let why = if unknown {
                    "it depends on one that is not there"
                } else {
                    "its dependencies form a cycle"
                };
                return Err(ErrorKind::ResourceOrder { node, resource, why }.into());
            }
        }
    }
    Ok(done)
}
