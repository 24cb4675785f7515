//! Eager execution of the same forward, at the exact shape of a call.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use crate::{
    AnyView, Backend, Cx, Elem, Error, ErrorKind, Kwargs, Mode, ModelInputsFromEngine, Planned, RawOut,
    Resources, Result, Row, Shape, Source, Statics, Step, Steps,
    check::check_sources,
    claim::{Program, io_plans},
    cx::Workspace,
    lease::Keep,
    resource::PlannedViews,
    source::At,
    tensor::MAX_RANK,
};

/// Everything about an eager call but its inputs.
pub(crate) struct EagerCall<'c, B: Backend> {
    pub(crate) device: &'c B,
    pub(crate) stream: &'c B::Stream,
    pub(crate) owner: &'c str,
    pub(crate) shape: &'c Shape,
    pub(crate) request_ids: &'c [Row],
    pub(crate) kwargs: &'c Kwargs,
    pub(crate) resources: &'c Resources,
}

impl<B: Backend> EagerCall<'_, B> {
    /// Checks the inputs, uploads those of the host, and runs the forward into outputs of their own memory.
    pub(crate) fn run(
        &self,
        program: &mut dyn Program<B>,
        sources: &[Source<'_, B>],
        planned: &UploadedPlan<B>,
        steps: Option<&mut Steps<B>>,
    ) -> Result<Vec<RawOut<'static, B>>> {
        let schema = program.schema();
        let mut statics = Statics::default();
        program.statics(self.shape, &mut statics)?;
        statics.check(self.owner, schema.inputs, schema.outputs)?;
        let inputs = io_plans(schema.inputs, &statics.inputs);
        let outputs = io_plans(schema.outputs, &statics.outputs);
        let rows: Vec<usize> = inputs.iter().map(|plan| plan.dims[plan.axis]).collect();
        check_sources(self.owner, &inputs, self.shape.dims(), &rows, sources)?;

        let uploads = sources.iter().map(|s| self.upload(s)).collect::<Result<Vec<_>>>()?;
        let x: Vec<_> = sources
            .iter()
            .zip(&uploads)
            .filter_map(|(source, upload)| view(source, upload.as_ref()))
            .collect();
        let mut memory = Vec::new();
        for plan in &outputs {
            memory.push(self.device.alloc(plan.bytes(plan.dims[plan.axis]))?);
        }
        let y: Vec<_> = outputs
            .iter()
            .zip(&memory)
            .map(|(p, buffer)| AnyView { buffer, offset: 0, elem: p.elem, dims: p.dims, rank: p.rank })
            .collect();
        let mut cx = Cx {
            device: self.device,
            stream: self.stream,
            dims: self.shape.dims(),
            slot: 0,
            mode: Mode::Eager,
            workspace: &mut Workspace::fresh(),
            engine_inputs: ModelInputsFromEngine {
                request_ids: self.request_ids,
                seq_lens: &self.shape.seq_lens,
            },
            kwargs: self.kwargs,
            resources: self.resources,
            planned: PlannedViews { names: &planned.names, views: &planned.views() },
            steps,
        };
        no_panic(|| program.record(&mut cx, &x, &y, sources))?;
        let raw = |(plan, buffer): (&crate::executor::IoPlan, B::Buffer)| RawOut {
            keep: Keep::Owned(buffer, 0),
            elem: plan.elem,
            dims: plan.dims,
            rank: plan.rank,
        };
        Ok(outputs.iter().zip(memory).map(raw).collect())
    }

    /// Uploads the planned inputs of a step for the forward that reads them.
    pub(crate) fn upload_planned(
        &self,
        step: &Step<'_, B, Planned>,
        resources: &[&'static str],
    ) -> Result<UploadedPlan<B>> {
        let mut plan = UploadedPlan::none();
        step.planned(resources, 0, |resource, name, source| {
            source.check_data()?;
            let buffer = self.upload(&source)?;
            let Some(buffer) = buffer else {
                return Err(ErrorKind::HostInputOnDevice { owner: resource.into(), input: name }.into());
            };
            plan.names.push((resource, name));
            plan.memory.push(buffer);
            plan.shapes.push((source.elem, source.dims, source.rank));
            Ok(())
        })?;
        Ok(plan)
    }

    fn upload(&self, source: &Source<'_, B>) -> Result<Option<B::Buffer>> {
        let At::Host(data) = source.at else { return Ok(None) };
        let buffer = self.device.alloc(data.len())?;
        B::upload(self.stream, data, &buffer, 0)?;
        Ok(Some(buffer))
    }
}

/// The planned inputs of an eager step, in memory of their own.
pub(crate) struct UploadedPlan<B: Backend> {
    names: Vec<(&'static str, &'static str)>,
    memory: Vec<B::Buffer>,
    shapes: Vec<(Elem, [usize; MAX_RANK], usize)>,
}

impl<B: Backend> UploadedPlan<B> {
    /// Of a forward that reads no resource.
    pub(crate) fn none() -> Self {
        UploadedPlan { names: Vec::new(), memory: Vec::new(), shapes: Vec::new() }
    }

    fn views(&self) -> Vec<AnyView<'_, B>> {
        let view = |(buffer, shape): (_, &(Elem, [usize; MAX_RANK], usize))| {
            let (elem, dims, rank) = *shape;
            AnyView { buffer, offset: 0, elem, dims, rank }
        };
        self.memory.iter().zip(&self.shapes).map(view).collect()
    }
}

/// An input where it lies: in an upload of its own, or where the caller has it.
fn view<'v, B: Backend>(source: &Source<'v, B>, upload: Option<&'v B::Buffer>) -> Option<AnyView<'v, B>> {
    let (buffer, offset) = match (source.at, upload) {
        (_, Some(buffer)) => (buffer, 0),
        (At::Device { buffer, offset }, None) => (buffer, offset),
        (At::Lent(place), None) => (&place.buffer, place.offset),
        (At::Host(_), None) => return None,
    };
    Some(AnyView { buffer, offset, elem: source.elem, dims: source.dims, rank: source.rank })
}

/// Runs an author's code; a panic becomes an error (invariant 9).
pub(crate) fn no_panic(call: impl FnOnce() -> Result<()>) -> Result<()> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(panicked(panic)))
}

fn panicked(panic: Box<dyn Any + Send>) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let error = ErrorKind::Panicked(text.unwrap_or("(no message)").into());
    if text.is_none() {
        std::mem::forget(panic); // its destructor is unknown code, which may panic again
    }
    error.into()
}
