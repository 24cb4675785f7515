//! A region of three host-side inputs: the least that a call of several inputs can be.

use graph_core::{
    CallInputs, CaptureOptions, Cx, Elem, Engine, HostTensor, IoSchema, NamedArgs, Outcome, Result, Schema,
    Shape, Source, Statics,
};

use super::region::{ByHand, Toys, one_region};
use crate::SuiteOps;

static THREE: Schema = Schema::new(
    "toy",
    "three",
    "batch_sizes = [1, 2, 4, 8, 16, 32]",
    &[
        IoSchema::host("x", Elem::F32, 2, "[bs, 2]"),
        IoSchema::host("scale", Elem::F32, 1, "[bs]"),
        IoSchema::host("sum", Elem::F32, 1, "[bs]"),
    ],
    &[IoSchema::device("y", Elem::F32, 2, "[bs, 2]")],
);

/// The region with its engine: one kernel over three inputs of the host.
pub struct ThreeInputs<B: SuiteOps> {
    engine: Engine<B>,
    runner: ByHand<B>,
    x: Vec<f32>,
    row: Vec<f32>,
    ones: Vec<usize>,
}

impl<B: SuiteOps> ThreeInputs<B> {
    /// The sizes that are captured.
    pub const SIZES: [usize; 6] = [1, 2, 4, 8, 16, 32];

    /// Captures every size.
    ///
    /// # Errors
    /// As the engine's.
    pub fn new(device: B) -> Result<Self> {
        let statics = |shape: &Shape, s: &mut Statics| {
            s.input("x", [shape.bs, 2]).input("scale", [shape.bs]).input("sum", [shape.bs]);
            s.output("y", [shape.bs, 2]);
        };
        let forward = |cx: &mut Cx<'_, B>, call: &CallInputs<'_, B>| {
            let x = call.inputs;
            B::spread(cx.stream(), x.get("x")?, x.get("scale")?, x.get("sum")?, call.outputs.get("y")?)
        };
        let options = CaptureOptions::default();
        let Toys { engine, runner } = one_region(device, &THREE, &Self::SIZES, options, statics, forward)?;
        let numbers = |n: usize| (0..n).map(|i| i as f32).collect();
        Ok(ThreeInputs { engine, runner, x: numbers(64), row: numbers(32), ones: vec![1; 32] })
    }

    /// One call of that many rows, 32 at the most. Whether it was replayed.
    ///
    /// # Errors
    /// As the call's.
    pub fn run(&mut self, rows: usize) -> Result<bool> {
        let x = HostTensor::new(&self.x[..2 * rows], [rows, 2])?;
        let row = &self.row[..rows];
        let args = [("x", Source::host(&x)), ("scale", Source::host(&row)), ("sum", Source::host(&row))];
        let outcome = self.runner.run(NamedArgs(&args), &self.ones[..rows])?;
        Ok(matches!(outcome, Outcome::Replayed(_)))
    }

    /// Whether calls are forced to run eagerly.
    pub fn set_eager(&mut self, eager: bool) {
        self.runner.set_eager(eager);
    }

    /// Its engine.
    pub fn engine(&self) -> &Engine<B> {
        &self.engine
    }
}
