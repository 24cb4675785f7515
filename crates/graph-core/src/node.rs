//! Nodes: the eager code of a submodule, which owns its runners; what the engine drives.

use std::sync::Arc;

use crate::{
    Backend, CallInputs, CudaGraphConfig, Cx, ErrorKind, Label, LoadCx, RequestId, Resource, Result, Runners,
    Schema, Shape, Statics, Steps, Submodule, SubmoduleStep,
};

/// A named forward of a node: what it takes and gives, and which walks it serves where nothing is captured for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forward {
    /// Its schema; the name is what `capture_forward_method` names.
    pub schema: Schema,
    /// The walks that it serves eagerly.
    pub walks: &'static [&'static str],
    /// The resources whose planned inputs it reads.
    pub resources: &'static [&'static str],
}

impl Forward {
    /// A forward that reads no resource.
    pub const fn new(schema: Schema, walks: &'static [&'static str]) -> Self {
        Forward { schema, walks, resources: &[] }
    }

    /// The same, reading planned inputs of these resources.
    pub const fn resources(self, resources: &'static [&'static str]) -> Self {
        Forward { resources, ..self }
    }
}

/// The requests of a call, for a step's declaration.
#[derive(Clone, Copy, Debug)]
pub struct StepRequests<'s> {
    /// The requests, in row order.
    pub requests: &'s [RequestId],
    /// Tokens of each.
    pub seq_lens: &'s [usize],
}

impl StepRequests<'_> {
    /// Declares that each request's tokens continue its main stream in a resource.
    pub fn append(&self, resource: &'static str, step: &mut SubmoduleStep) {
        let mut part = step.resource(resource);
        for (request, len) in self.requests.iter().zip(self.seq_lens) {
            part.segment(*request, Label::MAIN, *len);
        }
    }
}

/// The eager code of a submodule, with its runners inside.
pub trait Node<B: Backend>: Sized + Send + 'static {
    /// Its model.
    type Submodule: Submodule<B>;

    /// The whole forwards to capture; claimed together with the regions, before any capture.
    fn configs(_model: &Self::Submodule) -> Vec<Box<dyn CudaGraphConfig>> {
        Vec::new()
    }

    /// The node's resources, made once, before anything is captured.
    fn resources(_model: &Arc<Self::Submodule>, _cx: &LoadCx<'_, B>) -> Result<Vec<Box<dyn Resource<B>>>> {
        Ok(Vec::new())
    }

    /// Declares which resources a step of a named forward touches, and how. A region inside that brings its own step
    /// has its resources left out here.
    fn declare_step(
        &self,
        _forward: &str,
        _call: &StepRequests<'_>,
        _step: &mut SubmoduleStep,
    ) -> Result<()> {
        Ok(())
    }

    /// The size of every static buffer of a named forward at a shape.
    fn make_static_inputs(model: &Self::Submodule, forward: &str, shape: &Shape, statics: &mut Statics);

    /// Takes its runners; called when the regions are captured.
    fn bind(model: Arc<Self::Submodule>, cx: &mut BindCx<'_, B>) -> Result<Self>;

    /// Runs a named forward: eagerly with runners inside it, or to be captured as a whole.
    fn forward(&mut self, forward: &str, cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>) -> Result<()>;

    /// Runs once per shape before the warm-up where the configuration's `compile` is on.
    fn prepare(&mut self, _forward: &str, _cx: &mut Cx<'_, B>) -> Result<()> {
        Ok(())
    }

    /// Which slot the regions inside use for the next calls.
    fn set_slot(&mut self, _slot: usize) {}

    /// Runs all regions inside eagerly from now on (or no longer).
    fn set_eager(&mut self, _eager_only: bool) {}
}

/// What a node is bound with.
pub struct BindCx<'b, B: Backend> {
    /// The device.
    pub device: &'b B,
    /// The engine's stream.
    pub stream: &'b B::Stream,
    /// The runners of every region, to be taken.
    pub runners: &'b mut Runners<B>,
}

/// A node without its type.
pub(crate) trait AnyNode<B: Backend>: Send {
    fn declare_step(&self, forward: &str, call: &StepRequests<'_>, step: &mut SubmoduleStep) -> Result<()>;
    fn forward(&mut self, forward: &str, cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>) -> Result<()>;
    fn prepare(&mut self, forward: &str, cx: &mut Cx<'_, B>) -> Result<()>;
    fn set_slot(&mut self, slot: usize);
    fn set_eager(&mut self, eager_only: bool);
}

impl<B: Backend, N: Node<B>> AnyNode<B> for N {
    fn declare_step(&self, forward: &str, call: &StepRequests<'_>, step: &mut SubmoduleStep) -> Result<()> {
        Node::declare_step(self, forward, call, step)
    }
    fn forward(&mut self, forward: &str, cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>) -> Result<()> {
        Node::forward(self, forward, cx, call)
    }
    fn prepare(&mut self, forward: &str, cx: &mut Cx<'_, B>) -> Result<()> {
        Node::prepare(self, forward, cx)
    }
    fn set_slot(&mut self, slot: usize) {
        Node::set_slot(self, slot);
    }
    fn set_eager(&mut self, eager_only: bool) {
        Node::set_eager(self, eager_only);
    }
}

/// A node before it is bound, without its type.
pub(crate) struct PendingNode<B: Backend> {
    pub(crate) name: &'static str,
    pub(crate) forwards: &'static [Forward],
    pub(crate) configs: Vec<Box<dyn CudaGraphConfig>>,
    pub(crate) statics: Arc<StaticsOf>,
    pub(crate) steps: Steps<B>,
    pub(crate) bind: Box<BindFn<B>>,
}

/// Sizes of a named forward.
pub(crate) type StaticsOf = dyn Fn(&str, &Shape, &mut Statics) + Send + Sync;
type BindFn<B> = dyn FnOnce(&mut BindCx<'_, B>) -> Result<Box<dyn AnyNode<B>>>;

impl<B: Backend> PendingNode<B> {
    pub(crate) fn new<N: Node<B>>(
        name: &'static str,
        forwards: &'static [Forward],
        model: Arc<N::Submodule>,
        cx: &LoadCx<'_, B>,
    ) -> Result<Self> {
        let steps = Steps::new(name, N::resources(&model, cx)?)?;
        let sizes = model.clone();
        Ok(PendingNode {
            name,
            forwards,
            configs: N::configs(&model),
            statics: Arc::new(move |forward, shape, statics| {
                N::make_static_inputs(&sizes, forward, shape, statics);
            }),
            steps,
            bind: Box::new(move |cx| Ok(Box::new(N::bind(model, cx)?))),
        })
    }
}

/// The forward of that name, or an error that lists the known ones.
pub(crate) fn forward_named(
    node: &str,
    forwards: &'static [Forward],
    name: &str,
) -> Result<&'static Forward> {
    forwards.iter().find(|f| f.schema.name == name).ok_or_else(|| {
        let known = forwards.iter().map(|f| f.schema.name).collect::<Vec<_>>().join(", ");
        ErrorKind::UnknownName { owner: node.into(), what: "forward", got: name.into(), known }.into()
    })
}
