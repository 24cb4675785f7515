//! What can go wrong. One word wide on the hot path; all data is in [`ErrorKind`].

use std::fmt;

use crate::{AdmitOutcome, Label, RequestId, bucket::Miss};

/// `Result` with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the framework: one pointer, so that the `Result` of a replay stays small.
///
/// ```
/// use graph_core::{Error, ErrorKind};
/// let e: Error = ErrorKind::ZeroSize { name: "llama.decode".into(), list: "batch_sizes" }.into();
/// assert!(matches!(e.kind(), ErrorKind::ZeroSize { .. }));
/// assert_eq!(e.to_string(), "llama.decode: `batch_sizes` contains 0; sizes start at 1");
/// ```
pub struct Error(Box<ErrorKind>);

impl Error {
    /// What happened, as data.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// A plugin's own error: shown as it is, and as the source of this one.
    pub fn plugin(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        ErrorKind::Plugin(error.into()).into()
    }
}

/// Every way in which a call can fail, with the names and numbers that matter.
///
/// ```
#[doc = include_str!("doc/scale.md")]
#[doc = include_str!("doc/scaler.md")]
/// let error = scale.run(ScaleArgs { x: &[1.0] }, &[1, 1]).expect_err("two requests, one row");
/// match error.kind() {
///     ErrorKind::WrongSize { input, got, want, .. } => {
///         assert_eq!((*input, got.as_slice(), want.as_slice()), ("x", &[1][..], &[2][..]));
///     }
///     other => panic!("{other}"),
/// }
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An input whose size is not the one its declaration gives for this call.
    #[error(
        "{owner}: input `{input}` ({elem} {dims}) got {got:?}, must be {want:?} for {bs} request(s) and {tokens} token(s)"
    )]
    WrongSize {
        /// `node.name` of the region or forward.
        owner: String,
        /// The input.
        input: &'static str,
        /// Its element.
        elem: &'static str,
        /// Its declared dimensions, as written.
        dims: &'static str,
        /// The size that was passed.
        got: Vec<usize>,
        /// The size that the declaration gives.
        want: Vec<usize>,
        /// Requests in the call.
        bs: usize,
        /// Tokens in the call.
        tokens: usize,
    },
    /// An input of another element or rank than declared (named access only; typed access does not compile).
    #[error("{owner}: `{input}` is {want_elem} of rank {want_rank}, not {got_elem} of rank {got_rank}")]
    WrongType {
        /// `node.name` of the region or forward.
        owner: String,
        /// The input or output.
        input: String,
        /// Declared element.
        want_elem: &'static str,
        /// Declared rank.
        want_rank: usize,
        /// Element that was passed or asked for.
        got_elem: &'static str,
        /// Rank that was passed or asked for.
        got_rank: usize,
    },
    /// A name that a declaration does not have.
    #[error("{owner}: there is no {what} `{got}`; known: {known}")]
    UnknownName {
        /// Who was asked.
        owner: String,
        /// What kind of name: input, output, walk, forward, region.
        what: &'static str,
        /// The name.
        got: String,
        /// The names there are.
        known: String,
    },
    /// An input that the call does not supply.
    #[error("{owner}: input `{input}` ({elem} {dims}) is missing from the call")]
    MissingInput {
        /// `node.name` of the region or forward.
        owner: String,
        /// The input.
        input: &'static str,
        /// Its element.
        elem: &'static str,
        /// Its declared dimensions.
        dims: &'static str,
    },
    /// Lengths that disagree with the number of requests.
    #[error("{owner}: {lens} length(s) for {bs} request(s); give one length per request")]
    LengthsDisagree {
        /// `node.name` of the region or forward.
        owner: String,
        /// Lengths given.
        lens: usize,
        /// Requests in the call.
        bs: usize,
    },
    /// A packed call without per-request lengths.
    #[error("{owner}: a packed call needs the length of each request; pass `seq_lens`")]
    LengthsMissing {
        /// `node.name` of the region or forward.
        owner: String,
    },
    /// Requests that are not named although the node keeps state for them.
    #[error("{owner}: the node has resources; pass one request id per length, {bs} here")]
    RequestsMissing {
        /// `node.walk`.
        owner: String,
        /// Requests in the call.
        bs: usize,
    },
    /// An input that a call names twice.
    #[error("{owner}: input `{input}` is given twice")]
    InputTwice {
        /// `node.name` of the forward.
        owner: String,
        /// The input.
        input: String,
    },
    /// A call for no request.
    #[error("{owner}: the call has no request; skip it instead")]
    EmptyBatch {
        /// `node.name` of the region or forward.
        owner: String,
    },
    /// Sequence lengths over more than the bucket has.
    #[error("{owner}: {what} {got} exceeds the bucket's {most}")]
    BeyondBucket {
        /// `node.name` of the region or forward.
        owner: String,
        /// `requests` or `tokens`.
        what: &'static str,
        /// What the call has.
        got: usize,
        /// What the bucket has.
        most: usize,
    },
    /// No captured bucket fits and `strict` is on.
    #[error("{owner}: no captured bucket fits ({miss}) and strict mode is on")]
    Strict {
        /// `node.name` of the region or forward.
        owner: String,
        /// Why nothing fits.
        miss: Miss,
    },
    /// A slot that is leased and not yet launched.
    #[error("{owner}: slot {slot} is leased; launch or drop that lease first, or use another slot")]
    SlotLeased {
        /// `node.name` of the region or forward.
        owner: String,
        /// The slot.
        slot: usize,
    },
    /// An output of an earlier step that somebody still holds.
    #[error(
        "{owner}: output `{output}` of slot {slot} is still held; pass it on by value, drop it, detach it, or use another slot"
    )]
    OutputHeld {
        /// `node.name` of the region or forward.
        owner: String,
        /// The output.
        output: &'static str,
        /// The slot.
        slot: usize,
    },
    /// Staging an input would write over a buffer that somebody holds.
    #[error(
        "{owner}: staging input `{input}` of slot {slot} would overwrite an output that is still held; pass that output itself (not a view of it), drop it, detach it, or use another slot"
    )]
    InputHeld {
        /// `node.name` of the region or forward.
        owner: String,
        /// The input.
        input: &'static str,
        /// The slot.
        slot: usize,
    },
    /// A lease of another executor.
    #[error("{owner}: this lease was given by another runner")]
    ForeignLease {
        /// Who was asked.
        owner: String,
    },
    /// A step that was planned for one slot, staged into another.
    #[error("{node}: the step was planned for slot {planned}, its lease is of slot {leased}")]
    OtherSlot {
        /// The node.
        node: &'static str,
        /// The slot of its `StepContext`.
        planned: usize,
        /// The slot of its lease.
        leased: usize,
    },
    /// The slot's last launch did not complete although the stream was waited for.
    #[error("{owner}: the last replay on slot {slot} never completed")]
    NeverCompleted {
        /// `node.name` of the region or forward.
        owner: String,
        /// The slot.
        slot: usize,
    },
    /// A runner was called while its stream captures an outer graph.
    #[error("{owner}: called inside a capture; call the region's `forward` there instead of `run`")]
    InsideCapture {
        /// `node.name` of the region.
        owner: String,
    },
    /// A value of the host was asked for inside a capture, where it would be baked into the graph.
    #[error("{owner}: the host values of `{input}` would be baked into the graph; read them on the device")]
    BakedHostValue {
        /// `node.name` of the forward.
        owner: String,
        /// The input.
        input: String,
    },
    /// One bucket could not be captured.
    #[error("{owner}: bucket (bs {bs}, tokens {tokens}), slot {slot}, failed at {stage}: {cause}")]
    Capture {
        /// `node.name` of the region or forward.
        owner: String,
        /// Requests of the bucket.
        bs: usize,
        /// Tokens of the bucket.
        tokens: usize,
        /// The slot that failed.
        slot: usize,
        /// Where in the capture.
        stage: &'static str,
        /// Why.
        cause: Error,
    },
    /// The forward panicked.
    #[error("the forward panicked: {0}")]
    Panicked(String),
    /// What ran eagerly and what the graph recorded are not the same operations.
    #[error(
        "the warm-up issued {issued} operation(s), the graph recorded {recorded}: {recorded_names}; a launch on another stream is not captured"
    )]
    OperationsDiffer {
        /// Operations that the warm-up issued, on any stream of the device.
        issued: u64,
        /// Operations in the graph, head and tail left out.
        recorded: u64,
        /// The recorded ones by name.
        recorded_names: String,
    },
    /// A driver call failed, or a rule of capture was broken.
    #[error("{backend}: {call} failed: {name} ({code}){detail}")]
    Driver {
        /// The backend.
        backend: &'static str,
        /// The driver call, or the operation by name.
        call: String,
        /// The driver's numeric code.
        code: u32,
        /// The driver's name for it.
        name: &'static str,
        /// More, starting with `: `, or nothing.
        detail: String,
    },
    /// More memory on the device than [`CaptureOptions::memory_budget`](crate::CaptureOptions::memory_budget) allows.
    #[error(
        "{} bytes on the device are needed and the budget is {budget}: {needed} (bytes); capture smaller buckets or \
         fewer slots, or give resources less",
        needed.total()
    )]
    OverBudget {
        /// The budget in bytes.
        budget: usize,
        /// What is needed.
        needed: Box<crate::Ledger>,
    },
    /// Bytes that lie outside a buffer.
    #[error("{what}: bytes {from}..{to} lie outside a buffer of {bytes} bytes")]
    OutOfBounds {
        /// The operation.
        what: &'static str,
        /// First byte.
        from: usize,
        /// One past the last byte.
        to: usize,
        /// Bytes of the buffer.
        bytes: usize,
    },
    /// Host data whose length is not the product of the dimensions.
    #[error("{len} element(s) cannot be a tensor of {dims:?}, which has {want}")]
    DataLength {
        /// Elements given.
        len: usize,
        /// Dimensions asked for.
        dims: Vec<usize>,
        /// Their product.
        want: usize,
    },
    /// A static buffer's axis that varies although another one is declared as the varying axis.
    #[error(
        "{owner}: axis {axis} of `{name}` is {a} at one bucket and {b} at another; only axis {declared} may vary"
    )]
    AxisVaries {
        /// `node.name` of the region or forward.
        owner: String,
        /// The input or output.
        name: &'static str,
        /// The axis that varies.
        axis: usize,
        /// Its length at one bucket.
        a: usize,
        /// Its length at another.
        b: usize,
        /// The axis that may vary.
        declared: usize,
    },
    /// A device tensor for an input that is declared `host`.
    #[error("{owner}: input `{input}` is host-side; pass a slice, or declare it device-side")]
    HostInputOnDevice {
        /// `node.name` of the region or forward.
        owner: String,
        /// The input.
        input: &'static str,
    },
    /// More inputs or outputs than a region can have.
    #[error("{owner}: {got} {what}, at most {most}")]
    TooMany {
        /// `node.name` of the region or forward.
        owner: String,
        /// `inputs` or `outputs`.
        what: &'static str,
        /// How many there are.
        got: usize,
        /// How many there may be.
        most: usize,
    },
    /// More or fewer of something than declared: a mistake of a hand-written region or node.
    #[error("{owner}: {got} {what}, {want} declared")]
    WrongCount {
        /// `node.name` of the region or forward.
        owner: String,
        /// What was counted.
        what: &'static str,
        /// How many there are.
        got: usize,
        /// How many are declared.
        want: usize,
    },
    /// Two buffers of one region that are the same memory.
    #[error(
        "{owner}: `{first}` and `{second}` are on the same wire buffer; give them indices of different parity"
    )]
    WireClash {
        /// `node.name` of the region.
        owner: String,
        /// One.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A declaration that contradicts itself.
    #[error("{owner}: `{input}`: {why}")]
    BadDeclaration {
        /// `node.name` of the region or forward.
        owner: String,
        /// The input.
        input: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A bucket list without sizes.
    #[error("{name}: `{list}` is empty; leave it out for the default sizes")]
    EmptySizes {
        /// Whose list.
        name: String,
        /// Which list.
        list: &'static str,
    },
    /// A bucket list with a zero.
    #[error("{name}: `{list}` contains 0; sizes start at 1")]
    ZeroSize {
        /// Whose list.
        name: String,
        /// Which list.
        list: &'static str,
    },
    /// A bucket list with a size that no capture has.
    #[error("{name}: `{list}` contains {size}; sizes end at {most}")]
    SizeTooLarge {
        /// Whose list.
        name: String,
        /// Which list.
        list: &'static str,
        /// The size.
        size: usize,
        /// The largest that there may be.
        most: usize,
    },
    /// A bucket list for something that cannot have it.
    #[error("{name}: `{list}` does not apply to a {kind} configuration; use {use_instead}")]
    WrongList {
        /// Whose list.
        name: String,
        /// Which list.
        list: &'static str,
        /// The configuration's type.
        kind: &'static str,
        /// The list that does apply.
        use_instead: &'static str,
    },
    /// Two configurations that produce one bucket key.
    #[error(
        "{node}: configurations {first} and {second} both produce bucket {key}; change a size or `additional_key_info`"
    )]
    SameKey {
        /// The node.
        node: String,
        /// One configuration, by walk and position.
        first: String,
        /// The other.
        second: String,
        /// The bucket.
        key: String,
    },
    /// A bucket file that cannot be read.
    #[error("bucket file {path}: {cause}")]
    BucketFile {
        /// The file.
        path: String,
        /// Why.
        cause: String,
    },
    /// Two entries with one name.
    #[error("two {what}s are named `{name}`: {first} and {second}; rename one of them")]
    Duplicate {
        /// `region` or `node`.
        what: &'static str,
        /// The name.
        name: String,
        /// Crate, file and line of one.
        first: String,
        /// Crate, file and line of the other.
        second: String,
    },
    /// Nothing of that name was linked into the binary.
    #[error(
        "{what} `{name}` is not registered; link its plugin, for example `use {crate_hint} as _;`. Registered: {known}"
    )]
    NotRegistered {
        /// `node` or `region`.
        what: &'static str,
        /// The name.
        name: String,
        /// A crate name to try.
        crate_hint: String,
        /// What is registered.
        known: String,
    },
    /// Registered, but not for this backend.
    #[error("{what} `{name}` ({at}) is not registered for backend `{backend}`, only for: {known}")]
    NotOnBackend {
        /// `node` or `region`.
        what: &'static str,
        /// The name.
        name: String,
        /// Crate, file and line.
        at: String,
        /// The backend asked for.
        backend: &'static str,
        /// The backends it is registered for.
        known: String,
    },
    /// A runner that is asked for a second time, or was never built.
    #[error("no runner of region `{region}` ({rust_type}) on {backend}: {why}")]
    NoRunner {
        /// The region.
        region: String,
        /// Its Rust type.
        rust_type: &'static str,
        /// The backend.
        backend: &'static str,
        /// Why there is none.
        why: String,
    },
    /// A resource that nobody added.
    #[error("no resource of type {rust_type}; the node's `bind` must add it")]
    NoResource {
        /// Its Rust type.
        rust_type: &'static str,
    },
    /// A resource does not have what a step needs; nothing was reserved.
    #[error("{node}: resource `{resource}` does not admit the step: {outcome}")]
    Refused {
        /// The node.
        node: &'static str,
        /// The resource.
        resource: &'static str,
        /// What is missing.
        outcome: AdmitOutcome,
    },
    /// A step for a request that was never ingested, or was removed.
    #[error("{node}: request {} is not known; ingest it before its first step", request.0)]
    RequestUnknown {
        /// The node.
        node: &'static str,
        /// The request.
        request: RequestId,
    },
    /// A request that is ingested twice.
    #[error("{node}: request {} is known already; remove it first", request.0)]
    RequestKnown {
        /// The node.
        node: &'static str,
        /// The request.
        request: RequestId,
    },
    /// A region that brings its own step, run without one.
    #[error("{owner}: it reads resource `{resource}`; call `run_step` with the node's steps")]
    StepMissing {
        /// `node.name` of the region.
        owner: String,
        /// The resource.
        resource: &'static str,
    },
    /// Two steps, or two parts of one step, on one resource.
    #[error("{node}: resource `{resource}` is already part of an open step")]
    ResourceInStep {
        /// The node.
        node: &'static str,
        /// The resource.
        resource: &'static str,
    },
    /// A forward reads a resource that the step does not declare.
    #[error("{node}: the forward reads resource `{resource}`, which the step does not declare")]
    ResourceNotDeclared {
        /// The node.
        node: &'static str,
        /// The resource.
        resource: &'static str,
    },
    /// Two segments of one step that continue one stream.
    #[error("resource `{resource}`: the step continues request {} ({label}) twice; declare one segment", request.0)]
    SegmentTwice {
        /// The resource.
        resource: &'static str,
        /// The request.
        request: RequestId,
        /// Its stream.
        label: Label,
    },
    /// More requests at a time than a resource has room for.
    #[error("resource `{resource}` has room for {most} request(s) at a time; remove one first")]
    TooManyRequests {
        /// The resource.
        resource: &'static str,
        /// Requests that it has room for.
        most: usize,
    },
    /// A resource asks for one that it does not depend on.
    #[error("resource `{resource}` asks for {rust_type}, which its `depends_on` does not name")]
    NoDependency {
        /// The resource.
        resource: &'static str,
        /// The Rust type it asked for.
        rust_type: &'static str,
    },
    /// Resources that cannot be put in order.
    #[error("{node}: resource `{resource}` cannot be ordered: {why}")]
    ResourceOrder {
        /// The node.
        node: &'static str,
        /// The resource.
        resource: &'static str,
        /// Why.
        why: &'static str,
    },
    /// Warm-ups and captures run on padding, and yet state that requests own is not as it was.
    #[error("resource `{resource}`: the captures changed {what}; a forward writes past its padding rows")]
    StateChanged {
        /// The resource.
        resource: &'static str,
        /// What changed.
        what: String,
    },
    /// A graph buffer that is claimed, or asked for, beyond what was allocated.
    #[error("{owner}: graph buffer `{name}` of {asked} bytes; {has} were claimed before the first capture")]
    ClaimsClosed {
        /// The resource.
        owner: &'static str,
        /// The buffer.
        name: &'static str,
        /// Bytes asked for.
        asked: usize,
        /// Bytes claimed.
        has: usize,
    },
    /// A step whose plan does not suit the captured graph.
    #[error("{owner}: the plan launches {planned}, the graph was captured with {captured}")]
    LaunchShape {
        /// The resource.
        owner: &'static str,
        /// What the plan needs.
        planned: String,
        /// What was captured.
        captured: String,
    },
    /// A plugin's own error.
    #[error("{0}")]
    Plugin(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl<K: Into<ErrorKind>> From<K> for Error {
    #[cold]
    fn from(kind: K) -> Self {
        Error(Box::new(kind.into()))
    }
}

/// The message, for `main` and `unwrap` print errors this way; `{:?}` of [`Error::kind`] has the data.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}
