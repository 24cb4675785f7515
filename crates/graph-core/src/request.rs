//! What the engine hands a call: requests, their rows, and who they are.

use std::borrow::Cow;

use crate::{Elem, Element, ErrorKind, Result, tensor::elements};

/// A request of the engine.
///
/// ```
#[doc = include_str!("doc/node.md")]
#[doc = include_str!("doc/square.md")]
/// # let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// let node = engine.node("toy")?;
/// let request = RequestId(7); // the engine's own number for it
/// node.ingest(request, &Options::default())?;
/// assert!(node.ingest(request, &Options::default()).is_err(), "it has begun");
/// node.remove(request);
/// node.ingest(request, &Options::default())?; // a number that is free may be used again
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Whose row a row of a padded step is (difference 21: padding rows are handles, not strings).
///
/// ```
#[doc = include_str!("doc/scale.md")]
#[doc = include_str!("doc/scaler.md")]
/// let bucket = scale.bucket_for(Dims { bs: 2, tokens: 2 }).expect("there is one of two");
/// assert_eq!(bucket.bs, 2);
/// let rows = scale.step_rows(bucket, &[RequestId(7)])?;
/// assert_eq!(rows, [Row::Request(RequestId(7)), Row::Padding { slot: 0, row: 1 }]);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Row {
    /// A request's.
    Request(RequestId),
    /// Nobody's: padding row `row` of slot `slot`.
    Padding {
        /// The slot that the step runs on.
        slot: usize,
        /// The row within the bucket.
        row: usize,
    },
}

/// The rows of a bucket of `bs` rows on `slot`: the requests, then padding.
pub(crate) fn padded_rows(
    owner: &str,
    slot: usize,
    bs: usize,
    requests: &[RequestId],
    into: &mut Vec<Row>,
) -> Result<()> {
    if requests.len() > bs {
        let (owner, got) = (owner.into(), requests.len());
        return Err(ErrorKind::BeyondBucket { owner, what: "requests", got, most: bs }.into());
    }
    let padding = (requests.len()..bs).map(|row| Row::Padding { slot, row });
    into.clear();
    into.extend(requests.iter().map(|r| Row::Request(*r)).chain(padding));
    Ok(())
}

/// What the engine says about a call besides its inputs.
///
/// ```
#[doc = include_str!("doc/node.md")]
/// fn forward(cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>) -> Result<()> {
///     let rows = cx.engine_inputs();
///     match cx.mode() {
///         Mode::Eager => assert_eq!(rows.request_ids, [Row::Request(RequestId(7)), Row::Request(RequestId(8))]),
///         _ => assert!(rows.request_ids.iter().all(|row| matches!(row, Row::Padding { .. }))),
///     }
///     call.outputs.get::<f32, 1>("y")?.copy_from(cx.stream(), call.inputs.get("x")?)
/// }
/// let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// # let node = engine.node("toy")?;
/// let (requests, inputs) = ([RequestId(7), RequestId(8)], [("x", Source::slice(&[1.0_f32, 2.0]))]);
/// let call = NodeCall { requests: &requests, seq_lens: &[1, 1], inputs: &inputs, slot: 0 };
/// drop(node.run("prefill", &call)?);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ModelInputsFromEngine<'a> {
    /// One per row of the shape that runs, padding rows last.
    pub request_ids: &'a [Row],
    /// The length of each row, padding rows included.
    pub seq_lens: &'a [usize],
}

/// One request's row of a step: its length and its inputs by name.
///
/// A configuration has one as a template, so that the executor knows what padding rows look like.
///
/// ```
/// use graph_core::NodeInputs;
/// let row = NodeInputs::new(2).with("token", &[17_i32, 4]);
/// assert_eq!(row.input_seq_len, 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeInputs {
    /// Tokens of this request in this step.
    pub input_seq_len: usize,
    /// Inputs by name.
    pub inputs: Vec<(Cow<'static, str>, HostValue)>,
}

impl NodeInputs {
    /// A row of `input_seq_len` tokens without inputs.
    pub fn new(input_seq_len: usize) -> Self {
        NodeInputs { input_seq_len, inputs: Vec::new() }
    }

    /// Adds an input of rank 1.
    pub fn with<T: Element>(self, name: impl Into<Cow<'static, str>>, data: &[T]) -> Self {
        let value =
            HostValue { elem: T::ELEM, dims: vec![data.len()], bytes: bytemuck::cast_slice(data).to_vec() };
        self.with_value(name, value)
    }

    /// Adds an input of any rank.
    pub fn with_value(mut self, name: impl Into<Cow<'static, str>>, value: HostValue) -> Self {
        self.inputs.push((name.into(), value));
        self
    }
}

/// Host data with its element and dimensions.
///
/// ```
/// use graph_core::{HostValue, NodeInputs, Source};
/// use graph_host::Host;
///
/// let positions = HostValue::new(&[0_i32, 1, 0, 1, 0, 1], &[3, 2])?;
/// let row = NodeInputs::new(2).with_value("mrope", positions);
/// let (_, value) = &row.inputs[0];
/// let source = Source::<Host>::of_value(value).expect("of rank 4 at the most");
/// assert_eq!((source.dims(), source.values::<i32>()), (&[3, 2][..], Some(&[0, 1, 0, 1, 0, 1][..])));
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct HostValue {
    elem: Elem,
    dims: Vec<usize>,
    bytes: Vec<u8>,
}

impl HostValue {
    /// Data in row-major order.
    ///
    /// # Errors
    /// [`DataLength`](ErrorKind::DataLength) where the data are not as many as the dimensions say.
    pub fn new<T: Element>(data: &[T], dims: &[usize]) -> Result<Self> {
        let want = elements(dims);
        if data.len() != want {
            return Err(ErrorKind::DataLength { len: data.len(), dims: dims.to_vec(), want }.into());
        }
        Ok(HostValue { elem: T::ELEM, dims: dims.to_vec(), bytes: bytemuck::cast_slice(data).to_vec() })
    }

    /// Its element.
    pub fn elem(&self) -> Elem {
        self.elem
    }

    /// Its dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Its bytes, row-major.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
