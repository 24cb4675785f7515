//! What attention kernels are launched with.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use graph_core::{Backend, Cx, GraphBuffers, Mode, Result, Tensor};

use crate::{LaunchShape, LaunchShapes};

/// The name of the graph buffer.
pub(crate) const PARTIALS: &str = "partials";

/// The launch shapes of an [`AttentionPlan`](crate::AttentionPlan), for forwards: `cx.resource::<AttentionLaunch<B>>()`.
///
/// ```
#[doc = include_str!("doc/node.md")]
/// // The node's plan has `.splits(|_, _| 2).partials(1)`.
/// fn forward(cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
///     let launch = cx.resource::<AttentionLaunch<Host>>()?;
///     let shape = launch.shape(cx); // the kernel's grid: a block per row and split
///     assert_eq!(shape, LaunchShape { rows: cx.dims().bs, splits: 2 });
///     assert_eq!(launch.partials(cx)?.dims(), [cx.dims().tokens, 2, 1]);
///     cx.stream().kernel("attend", (), (call.outputs.get::<i32, 1>("token")?,), |(), (token,)| token.fill(0))
/// }
/// let engine = Engine::builder(Host::new()).build(&registry)?;
/// assert!(engine.stats()[0].failures.is_empty());
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct AttentionLaunch<B: Backend> {
    pub(crate) launches: Arc<Mutex<Launches<B>>>,
    pub(crate) partial: usize,
}

/// What the resource and its forwards share.
pub(crate) struct Launches<B: Backend> {
    pub(crate) shapes: LaunchShapes,
    /// Of the latest plan for an eager step.
    pub(crate) eager: LaunchShape,
    pub(crate) buffers: GraphBuffers<B>,
}

impl<B: Backend> AttentionLaunch<B> {
    /// What to launch with: the bucket's numbers in a warm-up and a capture, the plan's in an eager step.
    pub fn shape(&self, cx: &Cx<'_, B>) -> LaunchShape {
        let launches = self.launches();
        match cx.mode() {
            Mode::Eager => launches.eager,
            Mode::WarmUp | Mode::Capture => launches.shapes.captured(cx.dims()).unwrap_or(launches.eager),
        }
    }

    /// Memory for partial results, `[tokens, splits, elements]`: the slot's graph buffer, or scratch in an eager step.
    ///
    /// # Errors
    /// What the backend reports, and [`ClaimsClosed`](graph_core::ErrorKind::ClaimsClosed) in a capture of a shape that was not
    /// claimed.
    pub fn partials(&self, cx: &mut Cx<'_, B>) -> Result<Tensor<B, f32, 3>> {
        let dims = [cx.dims().tokens, self.shape(cx).splits, self.partial];
        match cx.mode() {
            Mode::Eager => cx.scratch(dims),
            Mode::WarmUp | Mode::Capture => self.launches().buffers.get(PARTIALS, cx.slot(), dims),
        }
    }

    fn launches(&self) -> MutexGuard<'_, Launches<B>> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
