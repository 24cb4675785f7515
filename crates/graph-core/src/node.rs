//! Nodes: the eager code of a submodule, which owns its runners; what the engine drives.

use std::sync::Arc;

use crate::{
    Backend, CallInputs, CudaGraphConfig, Cx, ErrorKind, Label, LoadCx, RequestId, Resource, Result, Runners,
    Schema, Shape, Statics, Steps, Submodule, SubmoduleStep,
};

/// A named forward of a node: what it takes and gives, and which walks it serves where nothing is captured for them.
///
/// ```
/// # use std::sync::Arc;
/// # use graph_core::*;
/// # use graph_host::Host;
/// # struct Toy;
/// # impl Node<Host> for Toy {
/// #     type Submodule = NoModel;
/// #     fn make_static_inputs(_: &NoModel, _: &str, _: &Shape, _: &mut Statics) {}
/// #     fn bind(_: Arc<NoModel>, _: &mut BindCx<'_, Host>) -> Result<Self> {
/// #         Ok(Toy)
/// #     }
/// #     fn forward(&mut self, _: &str, _: &mut Cx<'_, Host>, _: &CallInputs<'_, Host>) -> Result<()> {
/// #         Ok(())
/// #     }
/// # }
/// const DECODE: Forward = Forward::new(Schema::new("toy", "forward_batched", "", &[], &[]), &["decode"]);
/// const PREFILL: Forward = Forward::new(Schema::new("toy", "forward_prefill", "", &[], &[]), &["prefill"]);
/// static NODE: NodeEntry = NodeEntry {
///     name: "toy",
///     forwards: &[DECODE, PREFILL],
///     at: Location { krate: "toy", file: "lib.rs", line: 1 },
///     on: &[On::node::<Host, Toy>()],
/// };
/// # let registry = Registry::from_entries(vec![], vec![&NODE], vec![])?;
/// let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// let node = engine.node("toy")?;
/// assert_eq!(node.walks().collect::<Vec<_>>(), ["decode", "prefill"]);
/// let call = NodeCall { requests: &[], seq_lens: &[1], inputs: &[], slot: 0 };
/// let error = node.run("encode", &call).expect_err("nobody serves it");
/// assert_eq!(error.to_string(), "toy: there is no walk `encode`; known: decode, prefill");
/// # Ok::<(), graph_core::Error>(())
/// ```
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
///
/// ```
/// use graph_core::{RequestId, StepRequests, SubmoduleStep};
///
/// // Two requests of a packed prefill: three tokens, then one.
/// let call = StepRequests { requests: &[RequestId(1), RequestId(2)], seq_lens: &[3, 1] };
/// let mut step = SubmoduleStep::default();
/// call.append("kv", &mut step);
/// assert_eq!(step.segments("kv").unwrap()[1].span, 3..4);
/// ```
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
///
/// A node without resources, whose `decode` is captured as a whole:
///
/// ```
/// use std::sync::Arc;
///
/// use graph_core::*;
/// use graph_host::Host;
///
/// struct Square;
///
/// impl Node<Host> for Square {
///     type Submodule = NoModel; // or the type with its weights, see `Submodule`
///
///     fn configs(_: &NoModel) -> Vec<Box<dyn CudaGraphConfig>> {
///         let decode = BatchedCudaGraphConfig::new("decode", NodeInputs::new(1));
///         vec![Box::new(decode.capture_batch_sizes([1, 4]))]
///     }
///
///     fn make_static_inputs(_: &NoModel, _forward: &str, shape: &Shape, statics: &mut Statics) {
///         statics.input("x", [shape.total_tokens]).output("y", [shape.total_tokens]);
///     }
///
///     fn bind(_: Arc<NoModel>, _: &mut BindCx<'_, Host>) -> Result<Self> {
///         Ok(Square)
///     }
///
///     fn forward(&mut self, _: &str, cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
///         let (x, y) = (call.inputs.get::<f32, 1>("x")?, call.outputs.get::<f32, 1>("y")?);
///         cx.stream().kernel("square", (x,), (y,), |(x,), (y,)| {
///             y.iter_mut().zip(x).for_each(|(y, x)| *y = x * x);
///         })
///     }
/// }
///
/// const X: IoSchema = IoSchema::host("x", Elem::F32, 1, "[tokens]");
/// const Y: IoSchema = IoSchema::device("y", Elem::F32, 1, "[tokens]");
/// // `forward_batched` is the forward that a configuration captures where it names none.
/// const FORWARDS: &[Forward] =
///     &[Forward::new(Schema::new("toy", "forward_batched", "", &[X], &[Y]), &["decode"])];
/// static NODE: NodeEntry = NodeEntry {
///     name: "toy",
///     forwards: FORWARDS,
///     at: Location { krate: "toy", file: "lib.rs", line: 1 },
///     on: &[On::node::<Host, Square>()],
/// };
///
/// // In a plugin: `register_node!("toy", Square, FORWARDS, on = Host)`, and `Registry::collect()` in the engine.
/// let registry = Registry::from_entries(vec![], vec![&NODE], vec![])?;
/// let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// let stream = engine.stream().clone();
///
/// let inputs = [("x", Source::slice(&[1.0_f32, 2.0, 3.0]))];
/// let call = NodeCall { requests: &[], seq_lens: &[1; 3], inputs: &inputs, slot: 0 };
/// let outcome = engine.node("toy")?.run("decode", &call)?;
/// assert_eq!(outcome.reason(), None, "replayed, three rows in the bucket of four");
/// let y = outcome.into_out().take::<f32, 1>("y")?;
/// assert_eq!(y.to_vec(&stream)?, [1.0, 4.0, 9.0]);
/// # Ok::<(), graph_core::Error>(())
/// ```
///
/// [`BindCx`] has a node that runs a region inside.
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

    /// Which slot the regions inside use for the next calls: the engine says so before every step.
    ///
    /// A node that owns runners calls [`Runner::set_slot`](crate::Runner::set_slot) with this number on **every** one
    /// of them, as [`BindCx`]'s example does; the default does nothing. A runner that is left out stays on slot 0: its
    /// replays are right, but a step that is staged while the previous one runs waits for it, and an output
    /// that the previous step still [holds](crate::OutTensor::hold) makes the next one fail with
    /// [`OutputHeld`](ErrorKind::OutputHeld). A region of the node that is on the slot and one that is not no longer
    /// share their [wires](crate::Wire), which are per slot: the output of one is copied to the other.
    fn set_slot(&mut self, _slot: usize) {}

    /// Runs all regions inside eagerly from now on (or no longer): the engine passes on what
    /// [`NodeRunner::set_eager`](crate::NodeRunner::set_eager) was told.
    ///
    /// A node that owns runners calls [`Runner::set_eager`](crate::Runner::set_eager) on **every** one of them, as
    /// [`BindCx`]'s example does; the default does nothing. A runner that is left out goes on replaying although the
    /// node runs eagerly: whoever compares replay with eager execution then compares that region's replay with itself,
    /// and a mistake of its capture is not found.
    fn set_eager(&mut self, _eager_only: bool) {}
}

/// What a node is bound with.
///
/// A node that owns a runner takes it here, and passes [`set_slot`](Node::set_slot) and
/// [`set_eager`](Node::set_eager) on:
///
/// ```
#[doc = include_str!("doc/scale.md")]
/// struct Scaler {
///     scale: Runner<Scale>,
/// }
///
/// impl Node<Host> for Scaler {
///     type Submodule = Scale;
///     # fn make_static_inputs(_: &Scale, _: &str, shape: &Shape, statics: &mut Statics) {
///     #     statics.input("x", [shape.bs]).output("y", [shape.bs]);
///     # }
///
///     fn bind(_: Arc<Scale>, cx: &mut BindCx<'_, Host>) -> Result<Self> {
///         Ok(Scaler { scale: cx.runners.take_one()? })
///     }
///
///     fn forward(&mut self, _: &str, cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
///         let x = call.inputs.host::<f32>("x")?;
///         let y = self.scale.run(ScaleArgs { x }, call.engine_inputs.seq_lens)?.into_out().y;
///         call.outputs.get("y")?.copy_from(cx.stream(), y.view())
///     }
///
///     fn set_slot(&mut self, slot: usize) {
///         self.scale.set_slot(slot);
///     }
///
///     fn set_eager(&mut self, eager_only: bool) {
///         self.scale.set_eager(eager_only);
///     }
/// }
/// # const X: IoSchema = IoSchema::host("x", Elem::F32, 1, "[bs]");
/// # const Y: IoSchema = IoSchema::device("y", Elem::F32, 1, "[bs]");
/// # static NODE: NodeEntry = NodeEntry {
/// #     name: "toy",
/// #     forwards: &[Forward::new(Schema::new("toy", "forward_batched", "", &[X], &[Y]), &["decode"])],
/// #     at: Location { krate: "toy", file: "lib.rs", line: 1 },
/// #     on: &[On::node::<Host, Scaler>()],
/// # };
/// # let registry = Registry::from_entries(vec![entry], vec![&NODE], vec![])?;
/// # let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// # let stream = engine.stream().clone();
///
/// let inputs = [("x", Source::slice(&[1.0_f32, 2.0, 3.0]))];
/// let call = NodeCall { requests: &[], seq_lens: &[1; 3], inputs: &inputs, slot: 0 };
/// let y = engine.node("toy")?.run("decode", &call)?.into_out().take::<f32, 1>("y")?.to_vec(&stream)?;
/// assert_eq!(y, [3.0, 6.0, 9.0]);
/// assert_eq!(engine.stats()[0].buckets[0].replays, 1, "the walk is eager, the region inside was replayed");
///
/// engine.node("toy")?.set_eager(true);
/// drop(engine.node("toy")?.run("decode", &call)?);
/// assert_eq!(engine.stats()[0].eager, [("forced", 1)]);
/// # Ok::<(), graph_core::Error>(())
/// ```
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
