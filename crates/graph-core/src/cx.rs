//! What a forward gets besides its tensors.

use std::{
    any::{Any, TypeId, type_name},
    cell::Cell,
    collections::HashMap,
    sync::Arc,
};

use crate::{
    Backend, Dims, Element, ErrorKind, In, Kwargs, ModelInputsFromEngine, Result, Steps, Tensor,
    resource::PlannedViews, tensor::bytes_of,
};

/// How a forward runs.
///
/// ```
#[doc = include_str!("doc/region.md")]
/// static MODES: Mutex<Vec<Mode>> = Mutex::new(Vec::new());
///
/// fn forward(cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
///     MODES.lock().unwrap().push(cx.mode());
///     call.outputs.get::<f32, 1>("y")?.copy_from(cx.stream(), call.inputs.get("x")?)
/// }
/// let mut engine = Engine::builder(Host::new()).build(&registry)?; // one bucket, of two requests
/// # let mut region = engine.runners().take_named::<HandWritten<Host>>("toy.region")?.remove(0);
/// let x = Source::slice(&[1.0_f32, 2.0, 3.0]);
/// # let two = Source::slice(&[1.0_f32, 2.0]);
/// drop(region.run(NamedArgs(&[("x", two)]), &[1; 2])?); // a replay: the forward is not called
/// drop(region.run(NamedArgs(&[("x", x)]), &[1; 3])?);
/// assert_eq!(*MODES.lock().unwrap(), [Mode::WarmUp, Mode::WarmUp, Mode::Capture, Mode::Eager]);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At the exact shape of a call.
    Eager,
    /// At a bucket's shape, on padding, before its capture.
    WarmUp,
    /// Recorded at a bucket's shape.
    Capture,
}

/// The context of one forward.
///
/// ```
#[doc = include_str!("doc/region.md")]
/// fn forward(cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
///     let (x, y) = (call.inputs.get::<f32, 1>("x")?, call.outputs.get::<f32, 1>("y")?);
///     let sum = cx.scratch::<f32, 1>([1])?; // the only memory that a forward may ask for
///     cx.stream().kernel("sum", (x,), (sum.view_mut(),), |(x,), (sum,)| sum[0] = x.iter().sum())?;
///     cx.stream().kernel("share", (x, sum.view()), (y,), |(x, sum), (y,)| {
///         y.iter_mut().zip(x).for_each(|(y, x)| *y = x / sum[0]);
///     })
/// }
/// # let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// # let mut region = engine.runners().take_named::<HandWritten<Host>>("toy.region")?.remove(0);
/// let x = [("x", Source::slice(&[1.0_f32, 3.0]))];
/// let y = region.run(NamedArgs(&x), &[1; 2])?.into_out().take::<f32, 1>("y")?;
/// assert_eq!(y.to_vec(engine.stream())?, [0.25, 0.75]);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Cx<'c, B: Backend> {
    pub(crate) device: &'c B,
    pub(crate) stream: &'c B::Stream,
    pub(crate) dims: Dims,
    pub(crate) slot: usize,
    pub(crate) mode: Mode,
    pub(crate) workspace: &'c mut Workspace<B>,
    pub(crate) engine_inputs: ModelInputsFromEngine<'c>,
    pub(crate) kwargs: &'c Kwargs,
    pub(crate) resources: &'c Resources,
    pub(crate) planned: PlannedViews<'c, B>,
    pub(crate) steps: Option<&'c mut Steps<B>>,
}

impl<'c, B: Backend> Cx<'c, B> {
    /// The device.
    pub fn device(&self) -> &'c B {
        self.device
    }

    /// The stream to issue operations on.
    pub fn stream(&self) -> &'c B::Stream {
        self.stream
    }

    /// The shape that the forward runs at: exact when eager, the bucket's otherwise.
    pub fn dims(&self) -> Dims {
        self.dims
    }

    /// The slot whose static buffers are used; 0 when eager.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// How the forward runs.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What the engine says about the rows of this call.
    pub fn engine_inputs(&self) -> ModelInputsFromEngine<'c> {
        self.engine_inputs
    }

    /// The configuration's `forward_kwargs`.
    pub fn kwargs(&self) -> &'c Kwargs {
        self.kwargs
    }

    /// Shared state of the engine or of the node's resources, by its type.
    ///
    /// # Errors
    /// [`NoResource`](ErrorKind::NoResource) where nobody added one.
    pub fn resource<T: Any + Send + Sync>(&self) -> Result<&'c T> {
        self.resources.get()
    }

    /// A planned input of a resource that the forward names in its `resources`.
    ///
    /// # Errors
    /// [`UnknownName`](ErrorKind::UnknownName) with the known ones, or [`WrongType`](ErrorKind::WrongType).
    pub fn planned<T: Element, const R: usize>(&self, resource: &str, name: &str) -> Result<In<'c, B, T, R>> {
        self.planned.get(resource, name)
    }

    /// The node's resources, for steps of the regions inside; `None` inside a capture, where nothing is planned.
    pub fn steps(&mut self) -> Option<&mut Steps<B>> {
        self.steps.as_deref_mut()
    }

    /// Temporary memory until the forward returns, with unspecified contents. A capture cuts it from a buffer that
    /// its warm-up has measured.
    ///
    /// # Errors
    /// In a capture, [`OutOfBounds`](ErrorKind::OutOfBounds) beyond what the warm-up has asked for; otherwise what the
    /// backend reports.
    pub fn scratch<T: Element, const R: usize>(&mut self, dims: [usize; R]) -> Result<Tensor<B, T, R>> {
        let at = self.workspace.reserve(bytes_of::<T>(&dims));
        match &self.workspace.planned {
            Some(buffer) => {
                let (bytes, to) = (B::buffer_bytes(buffer), at.saturating_add(bytes_of::<T>(&dims)));
                if to > bytes {
                    return Err(ErrorKind::OutOfBounds { what: "scratch", from: at, to, bytes }.into());
                }
                Ok(Tensor::at(buffer.clone(), at, dims))
            }
            None => Tensor::alloc(self.device, dims),
        }
    }
}

/// Temporary memory of a forward: fresh while its use is measured, cut from one buffer when planned.
pub(crate) struct Workspace<B: Backend> {
    planned: Option<B::Buffer>,
    used: usize,
}

impl<B: Backend> Workspace<B> {
    const ALIGN: usize = 256;

    pub(crate) fn fresh() -> Self {
        Workspace { planned: None, used: 0 }
    }

    pub(crate) fn planned(buffer: B::Buffer) -> Self {
        Workspace { planned: Some(buffer), used: 0 }
    }

    /// Bytes that the forward has asked for.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    fn reserve(&mut self, bytes: usize) -> usize {
        let at = self.used;
        self.used = at.saturating_add(bytes.checked_next_multiple_of(Self::ALIGN).unwrap_or(usize::MAX));
        at
    }
}

/// State that the engine owns and forwards read, by type.
///
/// ```
#[doc = include_str!("doc/region.md")]
/// struct Factor(f32);
///
/// fn forward(cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
///     let by = cx.resource::<Factor>()?.0; // an error where nobody added one
///     let (x, y) = (call.inputs.get::<f32, 1>("x")?, call.outputs.get::<f32, 1>("y")?);
///     cx.stream().kernel("scale", (x,), (y,), move |(x,), (y,)| y[0] = by * x[0])
/// }
/// let mut engine = Engine::builder(Host::new()).resource(Factor(3.0)).build(&registry)?;
/// assert!(engine.stats()[0].failures.is_empty());
///
/// let without = Engine::builder(Host::new()).build(&registry)?;
/// assert!(without.stats()[0].failures[0].to_string().contains("no resource of type"));
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Resources(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl Resources {
    /// Adds a resource, or replaces the one of its type.
    pub fn insert<T: Any + Send + Sync>(&mut self, resource: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(resource));
    }

    /// The resource of a type.
    ///
    /// # Errors
    /// [`NoResource`](ErrorKind::NoResource) where nobody added one.
    pub fn get<T: Any + Send + Sync>(&self) -> Result<&T> {
        self.0
            .get(&TypeId::of::<T>())
            .and_then(|r| r.downcast_ref())
            .ok_or_else(|| ErrorKind::NoResource { rust_type: type_name::<T>() }.into())
    }
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, this thread runs a forward for a capture: runners refuse to be called.
pub(crate) struct InsideForward(bool);

impl InsideForward {
    pub(crate) fn enter() -> Self {
        InsideForward(INSIDE.replace(true))
    }

    #[inline]
    pub(crate) fn is_inside() -> bool {
        INSIDE.get()
    }
}

impl Drop for InsideForward {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}
