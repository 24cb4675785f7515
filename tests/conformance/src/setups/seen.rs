//! A resource that remembers what a region's step told it.

use graph_core::{
    AdmitOutcome, BindCx, CallInputs, Cx, Dependencies, ErrorKind, LoadCx, Location, NoModel, Node,
    NodeEntry, On, Options, RequestId, Resource, ResourceStep, Result, Row, Shape, Source, Statics,
    StepContext,
};
use graph_host::Host;

/// Its name in steps.
pub(crate) const SEEN: &str = "seen";

/// A node that has the resource and nothing else.
pub(crate) static ENTRY: NodeEntry = NodeEntry {
    name: "node",
    forwards: &[],
    at: Location { krate: env!("CARGO_PKG_NAME"), file: file!(), line: line!() },
    on: &[On::node::<Host, Holder>()],
};

/// What the last committed step was about.
#[derive(Default)]
pub(crate) struct Seen {
    planned: Vec<Row>,
    /// The rows of the step, padding last.
    pub(crate) rows: Vec<Row>,
    /// The padding rows that were reset after it.
    pub(crate) reset: Vec<Row>,
}

impl Resource<Host> for Seen {
    fn name(&self) -> &'static str {
        SEEN
    }
    fn ingest(&mut self, _: RequestId, _: &Options) -> Result<()> {
        Ok(())
    }
    fn remove(&mut self, _: RequestId) {}
    fn admit(&mut self, _: &ResourceStep<'_>) -> Result<AdmitOutcome> {
        Ok(AdmitOutcome::Admitted)
    }
    fn plan(&mut self, _: &ResourceStep<'_>, cx: &StepContext<'_>, _: Dependencies<'_, Host>) -> Result<()> {
        self.planned = cx.rows.to_vec();
        Ok(())
    }
    fn planned(&self, _: usize, _: usize) -> Source<'_, Host> {
        // Never asked for: there are no planned inputs.
        const NONE: &[u32] = &[];
        Source::host(&NONE)
    }
    fn commit(&mut self, _: &ResourceStep<'_>) {
        self.rows = std::mem::take(&mut self.planned);
    }
    fn rollback(&mut self, _: &ResourceStep<'_>) {
        self.planned.clear();
    }
    fn reset(&mut self, padding: &[Row]) {
        self.reset = padding.to_vec();
    }
}

struct Holder;

impl Node<Host> for Holder {
    type Submodule = NoModel;

    fn make_static_inputs(_: &NoModel, _: &str, _: &Shape, _: &mut Statics) {}
    fn resources(_: &std::sync::Arc<NoModel>, _: &LoadCx<'_, Host>) -> Result<Vec<Box<dyn Resource<Host>>>> {
        Ok(vec![Box::new(Seen::default())])
    }
    fn bind(_: std::sync::Arc<NoModel>, _: &mut BindCx<'_, Host>) -> Result<Self> {
        Ok(Holder)
    }
    fn forward(&mut self, forward: &str, _: &mut Cx<'_, Host>, _: &CallInputs<'_, Host>) -> Result<()> {
        let (owner, what, got) = ("node".into(), "forward", forward.into());
        Err(ErrorKind::UnknownName { owner, what, got, known: String::new() }.into())
    }
}
