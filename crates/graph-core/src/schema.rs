//! What a region or a forward declares: its inputs, outputs and padding. Written by the derive, or by hand.

use half::{bf16, f16};

use crate::Elem;

/// What the padded rows of an input hold.
///
/// ```
/// use graph_core::Pad;
/// assert_eq!(Pad::i32(-1).to_string(), "value(-1)");
/// assert_eq!(Pad::RepeatLast.to_string(), "repeat_last");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pad {
    /// Zero bytes.
    Zero,
    /// The last real row again; zero when there is no real row.
    RepeatLast,
    /// One value in every element.
    Value(PadValue),
}

/// The value of [`Pad::Value`]: an element and its bytes.
///
/// ```
/// use graph_core::Pad;
///
/// // What a backend's `pad_rows` does with it.
/// fn fill(padding: &mut [u8], pad: Pad) {
///     if let Pad::Value(value) = pad {
///         padding.chunks_exact_mut(value.elem().bytes()).for_each(|e| e.copy_from_slice(value.bytes()));
///     }
/// }
/// let mut padding = [0; 8];
/// fill(&mut padding, Pad::i32(-1));
/// assert_eq!(padding, [0xff; 8]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PadValue {
    elem: Elem,
    bytes: [u8; 8],
}

macro_rules! pad_values {
    ($($name:ident: $rust:ty = $elem:ident),*) => {
        impl Pad {
            $(
                #[doc = concat!("`value(x)` for an input of `", stringify!($name), "`.")]
                pub const fn $name(x: $rust) -> Pad {
                    let from = x.to_ne_bytes();
                    let mut bytes = [0; 8];
                    let mut i = 0;
                    while i < from.len() {
                        bytes[i] = from[i];
                        i += 1;
                    }
                    Pad::Value(PadValue { elem: Elem::$elem, bytes })
                }
            )*
        }
    };
}
pad_values!(f32: f32 = F32, f16: f16 = F16, bf16: bf16 = BF16, i32: i32 = I32, i64: i64 = I64, u32: u32 = U32, u8: u8 = U8);

impl PadValue {
    /// The element that this value is for.
    pub const fn elem(&self) -> Elem {
        self.elem
    }

    /// The bytes of one element.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.elem.bytes()]
    }
}

impl std::fmt::Display for Pad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Pad::Value(v) = self else {
            return f.write_str(if matches!(self, Pad::Zero) { "zero" } else { "repeat_last" });
        };
        let b = v.bytes;
        match v.elem {
            Elem::F32 => write!(f, "value({})", f32::from_ne_bytes([b[0], b[1], b[2], b[3]])),
            Elem::F16 => write!(f, "value({})", f16::from_ne_bytes([b[0], b[1]])),
            Elem::BF16 => write!(f, "value({})", bf16::from_ne_bytes([b[0], b[1]])),
            Elem::I32 => write!(f, "value({})", i32::from_ne_bytes([b[0], b[1], b[2], b[3]])),
            Elem::U32 => write!(f, "value({})", u32::from_ne_bytes([b[0], b[1], b[2], b[3]])),
            Elem::I64 => write!(f, "value({})", i64::from_ne_bytes(b)),
            Elem::U8 => write!(f, "value({})", b[0]),
        }
    }
}

/// Where the rows of an input come from.
///
/// ```
#[doc = include_str!("doc/region.md")]
#[doc = include_str!("doc/copy.md")]
/// # let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// # let mut region = engine.runners().take_named::<HandWritten<Host>>("toy.region")?.remove(0);
/// # let x = Tensor::from_slice(engine.device(), engine.stream(), &[1.0_f32], [1])?;
/// assert_eq!(region.region().schema().inputs[0].side, Side::Host);
/// let args = [("x", Source::from(x.view()))];
/// let error = region.run(NamedArgs(&args), &[1]).expect_err("the host cannot read it");
/// assert!(matches!(error.kind(), ErrorKind::HostInputOnDevice { input: "x", .. }));
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Slices of the host, packed into the slot's block and uploaded with one copy.
    Host,
    /// Device memory: tensors, views, outputs of other regions; each has a static buffer of its own.
    Device,
}

impl Side {
    /// The word that tables and messages use.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Host => "host",
            Side::Device => "device",
        }
    }
}

/// One declared input or output.
///
/// ```
/// use graph_core::{Elem, IoSchema, Pad, Side};
/// const IDS: IoSchema = IoSchema::host("mrope", Elem::I32, 2, "[3, tokens]").axis(1).pad(Pad::RepeatLast);
/// assert_eq!((IDS.side, IDS.axis, IDS.rank), (Side::Host, 1, 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IoSchema {
    /// Its name.
    pub name: &'static str,
    /// Its element.
    pub elem: Elem,
    /// Its number of axes, 1 to 4.
    pub rank: usize,
    /// Its dimensions as the author wrote them.
    pub dims: &'static str,
    /// The axis that varies with the call (`tokens` or `bs`).
    pub axis: usize,
    /// What padded rows hold. Outputs are not padded.
    pub pad: Pad,
    /// Where its rows come from.
    pub side: Side,
}

impl IoSchema {
    /// A device-side input (or an output): its first axis varies; padded with zeros unless said otherwise.
    pub const fn device(name: &'static str, elem: Elem, rank: usize, dims: &'static str) -> Self {
        IoSchema { name, elem, rank, dims, axis: 0, pad: Pad::Zero, side: Side::Device }
    }

    /// A host-side input: slices, packed into the slot's block.
    pub const fn host(name: &'static str, elem: Elem, rank: usize, dims: &'static str) -> Self {
        IoSchema { side: Side::Host, ..Self::device(name, elem, rank, dims) }
    }

    /// The same with another pad policy.
    pub const fn pad(self, pad: Pad) -> Self {
        IoSchema { pad, ..self }
    }

    /// The same with another varying axis (host-side inputs only).
    pub const fn axis(self, axis: usize) -> Self {
        IoSchema { axis, ..self }
    }
}

/// What a region or a forward is called and what it takes and gives.
///
/// ```
/// use graph_core::{Elem, IoSchema, Schema};
/// static SCALE: Schema = Schema::new(
///     "toy",
///     "scale",
///     "batched(seq_len = 1), batch_sizes = [1, 2, 4]",
///     &[IoSchema::host("x", Elem::F32, 1, "[bs]")],
///     &[IoSchema::device("y", Elem::F32, 1, "[bs]")],
/// );
/// assert_eq!(SCALE.full_name(), "toy.scale");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schema {
    /// The node it belongs to.
    pub node: &'static str,
    /// Its own name, unique within the node.
    pub name: &'static str,
    /// Its default sizes, as the author wrote them.
    pub buckets: &'static str,
    /// Its inputs, in declared order.
    pub inputs: &'static [IoSchema],
    /// Its outputs, in declared order.
    pub outputs: &'static [IoSchema],
    /// Whether any dimension names `bs`. Where none does, a packed region is captured once per total.
    pub names_bs: bool,
}

impl Schema {
    /// A schema written by hand.
    pub const fn new(
        node: &'static str,
        name: &'static str,
        buckets: &'static str,
        inputs: &'static [IoSchema],
        outputs: &'static [IoSchema],
    ) -> Self {
        Schema { node, name, buckets, inputs, outputs, names_bs: true }
    }

    /// The same, none of whose dimensions names `bs`: a packed region is captured once per total.
    pub const fn per_total(self) -> Self {
        Schema { names_bs: false, ..self }
    }

    /// `node.name`: the name that messages, bucket files and tables use.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.node, self.name)
    }
}

/// A static buffer that regions of one node share by name: `h[self.layer]` is index `layer` of wire `h`, modulo two.
///
/// Two layers, joined: layer 0 reads `h[0]` and writes `h[1]`, layer 1 reads `h[1]` and writes `h[2]`, which is `h[0]`
/// again.
/// With the derive it is `#[input(h: f32 [bs], wire = h[self.layer])]` and
/// `#[output(h: f32 [bs], wire = h[self.layer + 1])]`.
///
/// ```
/// use graph_core::*;
/// use graph_host::Host;
///
/// # static LAYER: Schema = Schema::new(
/// #     "toy",
/// #     "layer",
/// #     "batched(seq_len = 1), batch_sizes = [4]",
/// #     &[IoSchema::device("h", Elem::F32, 1, "[bs]")],
/// #     &[IoSchema::device("h", Elem::F32, 1, "[bs]")],
/// # );
/// fn layer(index: usize) -> HandWritten<Host> {
///     let wire = |index| Wire { name: "h", index };
///     HandWritten::new(
///         &LAYER,
///         PiecewiseBatchedConfig::new(1).capture_batch_sizes([4]),
///         move |shape: &Shape, statics: &mut Statics| {
///             statics.wired_input("h", [shape.bs], wire(index)).wired_output("h", [shape.bs], wire(index + 1));
///         },
///         |cx: &mut Cx<'_, Host>, call: &CallInputs<'_, Host>| {
///             let (x, y) = (call.inputs.get::<f32, 1>("h")?, call.outputs.get::<f32, 1>("h")?);
///             cx.stream().kernel("layer", (x,), (y,), |(x,), (y,)| {
///                 y.iter_mut().zip(x).for_each(|(y, x)| *y = 10.0 * x);
///             })
///         },
///     )
/// }
/// # static TABLE: HandWrittenTable<Host> = HandWrittenTable(|_| Ok(vec![layer(0), layer(1)]));
/// # static ENTRY: RegionEntry = RegionEntry {
/// #     schema: &LAYER,
/// #     at: Location { krate: "toy", file: "lib.rs", line: 1 },
/// #     on: &[On::hand_written(&TABLE)],
/// # };
/// # let registry = Registry::from_entries(vec![&ENTRY], vec![], vec![])?;
/// # let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// # let (host, stream) = (engine.device().clone(), engine.stream().clone());
/// let mut layers = engine.runners().take_named::<HandWritten<Host>>("toy.layer")?;
/// let [first, second] = &mut layers[..] else { panic!("two layers") };
///
/// let issued = host.issued();
/// let x = [("h", Source::slice(&[1.0_f32, 2.0, 3.0]))];
/// let h = first.run(NamedArgs(&x), &[1; 3])?.into_out().take::<f32, 1>("h")?;
/// let y = second.run(NamedArgs(&[("h", Source::device(&h))]), &[1; 3])?.into_out().take::<f32, 1>("h")?;
/// assert_eq!(host.issued() - issued, 3, "an upload of `x` and two launches: nothing is copied between them");
/// assert_eq!(y.to_vec(&stream)?, [100.0, 200.0, 300.0]);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Its name within the node.
    pub name: &'static str,
    /// Its index; even and odd indices are two buffers.
    pub index: usize,
}
