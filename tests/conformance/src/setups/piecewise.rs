//! A region's runner built from a setup: a hand-written region that fails where the setup says so.

use std::{cell::RefCell, sync::Arc};

use graph_core::{
    Backend, CaptureOptions, Cx, Elem, Engine, Error, HandWritten, HandWrittenTable, IoSchema, Location, On,
    Options, PiecewiseCallInputs, RegionEntry, Registry, Result, Runner, Schema, Shape, Statics,
};
use graph_host::Host;
use serde_json::Value;

use super::{
    probe::{Probe, Stream},
    seen::{self, SEEN},
    spec::{Kind, PiecewiseSpec},
};
use crate::errors::error_json;

/// Bytes of one token of input `x`.
pub(crate) const X_BYTES: usize = 8;

static BATCHED_INPUTS: [IoSchema; 2] =
    [IoSchema::device("x", Elem::U8, 3, "[bs, seq_len, 8]"), IoSchema::host("scale", Elem::U32, 1, "[bs]")];
static BATCHED_OUTPUTS: [IoSchema; 1] = [IoSchema::device("y", Elem::U8, 3, "[bs, seq_len, 8]")];
static PACKED_INPUTS: [IoSchema; 2] =
    [IoSchema::device("x", Elem::U8, 2, "[tokens, 8]"), IoSchema::host("pos", Elem::U32, 1, "[tokens]")];
static PACKED_OUTPUTS: [IoSchema; 1] = [IoSchema::device("y", Elem::U8, 2, "[tokens, 8]")];

static BATCHED: Schema = Schema::new("node", "blk", "from the setup", &BATCHED_INPUTS, &BATCHED_OUTPUTS);
static PACKED: Schema = Schema::new("node", "blk", "from the setup", &PACKED_INPUTS, &PACKED_OUTPUTS);

/// Where a region is registered.
static ON: [On; 1] = [On::hand_written(&TABLE)];
static TABLE: HandWrittenTable<Host> =
    HandWrittenTable(|loader| match loader.options().get::<(Arc<PiecewiseSpec>, Arc<Probe>)>() {
        Some((spec, probe)) => Ok(vec![region(spec, probe)]),
        None => Err(Error::plugin("the options have no setup")),
    });

const fn entry(schema: &'static Schema) -> RegionEntry {
    RegionEntry {
        schema,
        at: Location { krate: env!("CARGO_PKG_NAME"), file: file!(), line: line!() },
        on: &ON,
    }
}
static BATCHED_ENTRY: RegionEntry = entry(&BATCHED);
static PACKED_ENTRY: RegionEntry = entry(&PACKED);

/// What a region of this kind declares.
pub(crate) fn schema(kind: Kind) -> &'static Schema {
    match kind {
        Kind::Batched => &BATCHED,
        Kind::Packed => &PACKED,
    }
}

fn region(spec: &Arc<PiecewiseSpec>, probe: &Arc<Probe>) -> HandWritten<Host> {
    let (seq_len, kind) = (spec.seq_len, spec.kind);
    let statics = move |shape: &Shape, statics: &mut Statics| {
        match kind {
            Kind::Batched => statics
                .input("x", [shape.bs, seq_len, X_BYTES])
                .input("scale", [shape.bs])
                .output("y", [shape.bs, seq_len, X_BYTES]),
            Kind::Packed => statics
                .input("x", [shape.total_tokens, X_BYTES])
                .input("pos", [shape.total_tokens])
                .output("y", [shape.total_tokens, X_BYTES]),
        };
    };
    let (failing, probe) = (spec.clone(), probe.clone());
    let capture = move |cx: &mut Cx<'_, Host>, call: &PiecewiseCallInputs<'_, Host>| {
        let dims = cx.dims();
        if cx.mode() == graph_core::Mode::Eager {
            return copy_x(cx, call, kind);
        }
        if failing.fails(dims.bs, dims.tokens, cx.slot()) {
            return Err(Error::plugin("the setup says that this capture fails"));
        }
        match kind {
            Kind::Batched => {
                let (x, scale) = (call.inputs.get::<u8, 3>("x")?, call.inputs.get::<u32, 1>("scale")?);
                probe.record(cx, &[x.into(), scale.into()])?;
            }
            Kind::Packed => {
                let (x, pos) = (call.inputs.get::<u8, 2>("x")?, call.inputs.get::<u32, 1>("pos")?);
                probe.record(cx, &[x.into(), pos.into()])?;
            }
        }
        copy_x(cx, call, kind)
    };
    let region = match spec.kind {
        Kind::Batched => HandWritten::new(&BATCHED, spec.batched(), statics, capture),
        Kind::Packed => HandWritten::new(&PACKED, spec.packed(), statics, capture),
    };
    if spec.declares { region.with_resources(&[SEEN]) } else { region }
}

fn copy_x(cx: &Cx<'_, Host>, call: &PiecewiseCallInputs<'_, Host>, kind: Kind) -> Result<()> {
    match kind {
        Kind::Batched => {
            call.outputs.get::<u8, 3>("y")?.copy_from(cx.stream(), call.inputs.get::<u8, 3>("x")?)
        }
        Kind::Packed => {
            call.outputs.get::<u8, 2>("y")?.copy_from(cx.stream(), call.inputs.get::<u8, 2>("x")?)
        }
    }
}

/// A built runner, or the error that graph-core refuses the configuration with.
pub(crate) struct Piecewise {
    /// The setup.
    pub(crate) spec: Arc<PiecewiseSpec>,
    /// The runner and what it runs with.
    pub(crate) built: Result<Region>,
}

/// A region's runner and what it runs with.
pub(crate) struct Region {
    /// The engine, whose node has the resources.
    pub(crate) engine: RefCell<Engine<Host>>,
    /// The runner.
    pub(crate) runner: RefCell<Runner<HandWritten<Host>>>,
    /// What the graphs saw.
    pub(crate) probe: Arc<Probe>,
    /// The stream that they run on.
    pub(crate) stream: Stream,
}

impl Piecewise {
    /// Captures everything that the setup names.
    pub(crate) fn build(spec: PiecewiseSpec) -> Piecewise {
        let spec = Arc::new(spec);
        Piecewise { built: Region::build(&spec), spec }
    }
}

impl Piecewise {
    /// Requests and tokens of what was captured, in order.
    pub(super) fn shapes(&self) -> Result<Vec<(usize, usize)>, Value> {
        let region = self.built.as_ref().map_err(error_json)?;
        Ok(region.runner.borrow().stats().buckets.iter().map(|b| (b.dims.bs, b.dims.tokens)).collect())
    }
}

impl Region {
    fn build(spec: &Arc<PiecewiseSpec>) -> Result<Region> {
        let device = Host::new();
        let stream = device.stream()?;
        let shapes = spec.config().shapes("node.blk", true, &spec.default_batch_sizes)?;
        let rows = shapes.iter().map(|s| s.bs.max(s.total_tokens)).max().unwrap_or(0);
        let bytes = [rows * X_BYTES, rows * size_of::<u32>()];
        let probe = Arc::new(Probe::new(&device, &stream, &bytes, spec.slots())?);
        let entry = match spec.kind {
            Kind::Batched => &BATCHED_ENTRY,
            Kind::Packed => &PACKED_ENTRY,
        };
        let mut engine = Engine::builder(device)
            .options(Options::default().with((spec.clone(), probe.clone())))
            .capture_options(CaptureOptions {
                slots: Some(spec.slots()),
                warm_ups: 1,
                default_batch_sizes: spec.default_batch_sizes.clone(),
                ..CaptureOptions::default()
            })
            .build(&Registry::from_entries(vec![entry], vec![&seen::ENTRY], vec![])?)?;
        let stream = engine.stream().clone();
        let mut runners = engine.runners().take_named::<HandWritten<Host>>("node.blk")?;
        let runner = runners.pop().ok_or_else(|| Error::plugin("the region has no instance"))?;
        Ok(Region { engine: RefCell::new(engine), runner: RefCell::new(runner), probe, stream })
    }
}
