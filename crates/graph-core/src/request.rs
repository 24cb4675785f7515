//! What the engine hands a call: requests, their rows, and who they are.

use std::borrow::Cow;

use crate::{Elem, Element, ErrorKind, Result, tensor::elements};

/// A request of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Whose row a row of a padded step is (difference 21: padding rows are handles, not strings).
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
#[derive(Clone, Debug, PartialEq)]
pub struct HostValue {
    elem: Elem,
    dims: Vec<usize>,
    bytes: Vec<u8>,
}

impl HostValue {
    /// Data in row-major order.
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
