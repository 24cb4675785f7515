//! Inputs and outputs by name: what whole forwards and hand-written regions use.

use std::fmt;

use smallvec::SmallVec;

use crate::{
    AnyView, Backend, Element, ErrorKind, In, Kwargs, ModelInputsFromEngine, Out, OutTensor, Resources,
    Result, Schema, Source, lease::RawOut, source::At,
};

/// What a hand-written region or a whole forward gets: inputs, outputs, and everything that is not a tensor.
///
/// ```
#[doc = include_str!("doc/region.md")]
/// fn forward(cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
///     let (x, y) = (call.inputs.get::<f32, 1>("x")?, call.outputs.get::<f32, 1>("y")?);
///     // In a bucket these are the bucket's rows, padding included; in an eager call, the call's.
///     assert_eq!(call.engine_inputs.seq_lens.len(), x.dims()[0]);
///     y.copy_from(cx.stream(), x)
/// }
/// let engine = Engine::builder(Host::new()).build(&registry)?;
/// assert!(engine.stats()[0].failures.is_empty());
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct CallInputs<'a, B: Backend> {
    /// The static inputs (or, eager, the call's own).
    pub inputs: NamedInputs<'a, B>,
    /// The outputs to write.
    pub outputs: NamedOutputs<'a, B>,
    /// What the engine says about the rows.
    pub engine_inputs: ModelInputsFromEngine<'a>,
    /// The configuration's `forward_kwargs`.
    pub kwargs: &'a Kwargs,
    /// State that the engine owns.
    pub resources: &'a Resources,
}

/// mstar's name for [`CallInputs`] of a region.
pub type PiecewiseCallInputs<'a, B> = CallInputs<'a, B>;

/// Inputs by name.
///
/// ```
#[doc = include_str!("doc/node.md")]
/// fn forward(cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
///     let x = call.inputs.get::<f32, 1>("x")?; // on the device
///     match (cx.mode(), call.inputs.host::<f32>("x")) {
///         (Mode::Eager, values) => assert_eq!(values?, [1.0, 2.0]),
///         (_, values) => assert!(matches!(values.unwrap_err().kind(), ErrorKind::BakedHostValue { .. })),
///     }
///     call.outputs.get("y")?.copy_from(cx.stream(), x)
/// }
/// let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// let inputs = [("x", Source::slice(&[1.0_f32, 2.0]))];
/// let call = NodeCall { requests: &[], seq_lens: &[1, 1], inputs: &inputs, slot: 0 };
/// assert_eq!(engine.node("toy")?.run("decode", &call)?.reason(), None);
/// assert_eq!(engine.node("toy")?.run("prefill", &call)?.reason(), Some(Miss::NoBuckets));
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct NamedInputs<'a, B: Backend> {
    pub(crate) schema: &'static Schema,
    pub(crate) views: &'a [AnyView<'a, B>],
    pub(crate) host: &'a [Source<'a, B>],
}

impl<B: Backend> Clone for NamedInputs<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<B: Backend> Copy for NamedInputs<'_, B> {}

impl<'a, B: Backend> NamedInputs<'a, B> {
    /// An input on the device.
    ///
    /// # Errors
    /// [`UnknownName`](ErrorKind::UnknownName) with the known ones, or [`WrongType`](ErrorKind::WrongType).
    pub fn get<T: Element, const R: usize>(&self, name: &str) -> Result<In<'a, B, T, R>> {
        let view = &self.views[position(self.schema, "input", name)?];
        view.typed().ok_or_else(|| wrong_type::<T>(self.schema, name, view.elem, view.rank, R))
    }

    /// An input's host values: eager calls only, since a capture would bake them into the graph (invariant 6).
    ///
    /// # Errors
    /// [`BakedHostValue`](ErrorKind::BakedHostValue) inside a capture, in a region, and for rows that are on the device;
    /// otherwise as [`get`](Self::get).
    pub fn host<T: Element>(&self, name: &str) -> Result<&'a [T]> {
        let i = position(self.schema, "input", name)?;
        let Some(source @ Source { at: At::Host(_), elem, rank, .. }) = self.host.get(i) else {
            let owner = self.schema.full_name();
            return Err(ErrorKind::BakedHostValue { owner, input: name.into() }.into());
        };
        source.values().ok_or_else(|| wrong_type::<T>(self.schema, name, *elem, *rank, *rank))
    }
}

/// Outputs by name.
///
/// ```
#[doc = include_str!("doc/region.md")]
/// fn forward(cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
///     let error = call.outputs.get::<i32, 1>("y").expect_err("it is declared as f32");
///     assert_eq!(error.to_string(), "toy.region: `y` is f32 of rank 1, not i32 of rank 1");
///     let y = call.outputs.get::<f32, 1>("y")?;
///     cx.stream().kernel("ones", (), (y,), |(), (y,)| y.fill(1.0))
/// }
/// let engine = Engine::builder(Host::new()).build(&registry)?;
/// assert!(engine.stats()[0].failures.is_empty());
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct NamedOutputs<'a, B: Backend> {
    pub(crate) schema: &'static Schema,
    pub(crate) views: &'a [AnyView<'a, B>],
}

impl<B: Backend> Clone for NamedOutputs<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<B: Backend> Copy for NamedOutputs<'_, B> {}

impl<'a, B: Backend> NamedOutputs<'a, B> {
    /// An output to write.
    ///
    /// # Errors
    /// [`UnknownName`](ErrorKind::UnknownName) with the known ones, or [`WrongType`](ErrorKind::WrongType).
    pub fn get<T: Element, const R: usize>(&self, name: &str) -> Result<Out<'a, B, T, R>> {
        let view = &self.views[position(self.schema, "output", name)?];
        view.typed_mut().ok_or_else(|| wrong_type::<T>(self.schema, name, view.elem, view.rank, R))
    }
}

/// Results by name; each can be taken once.
///
/// ```
#[doc = include_str!("doc/region.md")]
#[doc = include_str!("doc/copy.md")]
/// # let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// # let mut region = engine.runners().take_named::<HandWritten<Host>>("toy.region")?.remove(0);
/// # let x = [("x", Source::slice(&[1.0_f32, 2.0]))];
/// let mut results = region.run(NamedArgs(&x), &[1, 1])?.into_out();
/// let y = results.take::<f32, 1>("y")?;
/// assert_eq!(y.to_vec(engine.stream())?, [1.0, 2.0]);
/// assert!(results.take::<f32, 1>("y").is_err(), "the caller has it already");
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct NamedResults<'r, B: Backend> {
    pub(crate) schema: &'static Schema,
    pub(crate) outs: SmallVec<[Option<RawOut<'r, B>>; 4]>,
}

/// The names of those that were not taken.
impl<B: Backend> fmt::Debug for NamedResults<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.schema.outputs.iter().zip(&self.outs).filter(|(_, out)| out.is_some());
        f.debug_set().entries(left.map(|(io, _)| io.name)).finish()
    }
}

impl<'r, B: Backend> NamedResults<'r, B> {
    /// An output of the call.
    ///
    /// # Errors
    /// [`UnknownName`](ErrorKind::UnknownName) where there is none, or it was taken; [`WrongType`](ErrorKind::WrongType),
    /// after which it can still be taken.
    pub fn take<T: Element, const R: usize>(&mut self, name: &str) -> Result<OutTensor<'r, B, T, R>> {
        let i = position(self.schema, "output", name)?;
        let Some(raw) = self.outs.get_mut(i).and_then(Option::take) else {
            let left = self.schema.outputs.iter().zip(&self.outs).filter(|(_, o)| o.is_some());
            let known = left.map(|(s, _)| s.name).collect::<Vec<_>>().join(", ");
            let owner = self.schema.full_name();
            return Err(ErrorKind::UnknownName {
                owner,
                what: "output left to take",
                got: name.into(),
                known,
            }
            .into());
        };
        OutTensor::from_raw(raw).map_err(|raw| {
            let error = wrong_type::<T>(self.schema, name, raw.elem, raw.rank, R);
            self.outs[i] = Some(raw);
            error
        })
    }

    pub(crate) fn hold(self) -> NamedResults<'static, B> {
        let hold = |raw: RawOut<'r, B>| RawOut { keep: raw.keep.hold(), ..raw };
        NamedResults { schema: self.schema, outs: self.outs.into_iter().map(|o| o.map(hold)).collect() }
    }
}

/// Inputs of a step that need no heap, planned ones included.
pub(crate) const SOURCES: usize = 16;

/// A call's inputs by name, in any order.
pub(crate) fn in_order<'a, B: Backend>(
    schema: &'static Schema,
    named: &[(&str, Source<'a, B>)],
) -> Result<SmallVec<[Source<'a, B>; SOURCES]>> {
    for (i, (name, _)) in named.iter().enumerate() {
        position(schema, "input", name)?;
        if named[..i].iter().any(|(earlier, _)| earlier == name) {
            return Err(twice(schema, name));
        }
    }
    let find = |io: &crate::IoSchema| match named.iter().find(|(name, _)| *name == io.name) {
        Some((_, source)) => Ok(*source),
        None => Err(ErrorKind::MissingInput {
            owner: schema.full_name(),
            input: io.name,
            elem: io.elem.name(),
            dims: io.dims,
        }
        .into()),
    };
    schema.inputs.iter().map(find).collect()
}

#[cold]
fn twice(schema: &Schema, name: &str) -> crate::Error {
    ErrorKind::InputTwice { owner: schema.full_name(), input: name.into() }.into()
}

fn position(schema: &Schema, what: &'static str, name: &str) -> Result<usize> {
    let all = if what == "input" { schema.inputs } else { schema.outputs };
    all.iter().position(|io| io.name == name).ok_or_else(|| {
        let known = all.iter().map(|io| io.name).collect::<Vec<_>>().join(", ");
        ErrorKind::UnknownName { owner: schema.full_name(), what, got: name.into(), known }.into()
    })
}

fn wrong_type<T: Element>(
    schema: &Schema,
    name: &str,
    elem: crate::Elem,
    rank: usize,
    got_rank: usize,
) -> crate::Error {
    ErrorKind::WrongType {
        owner: schema.full_name(),
        input: name.into(),
        want_elem: elem.name(),
        want_rank: rank,
        got_elem: T::ELEM.name(),
        got_rank,
    }
    .into()
}
