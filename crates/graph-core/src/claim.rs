//! Claiming: what an executor will need, worked out from every shape before anything is allocated or captured.

use crate::{
    Backend, Dims, ErrorKind, IoSchema, Kwargs, Pad, Result, Schema, Shape, Side, Source, Statics, Steps,
    arena::{Claims, PlaceId},
    cx::Cx,
    executor::{IoPlan, Layout},
    statics::StaticBuffer,
    tensor::{AnyView, MAX_RANK, elements},
};

/// What is captured: sizes and a body. Regions and whole forwards are its two faces.
pub(crate) trait Program<B: Backend> {
    fn schema(&self) -> &'static Schema;
    fn statics(&self, shape: &Shape, statics: &mut Statics) -> Result<()>;
    fn kwargs(&self) -> Kwargs;
    /// The resources whose planned inputs the body reads.
    fn resources(&self) -> &'static [&'static str];
    /// Once per configuration and shape that asks for it, before the warm-up.
    fn prepare(&mut self, cx: &mut Cx<'_, B>) -> Result<()>;
    /// The body. `host` has the inputs as they were passed when it runs eagerly, and is empty otherwise.
    fn record(
        &mut self,
        cx: &mut Cx<'_, B>,
        x: &[AnyView<'_, B>],
        y: &[AnyView<'_, B>],
        host: &[Source<'_, B>],
    ) -> Result<()>;
}

/// One shape to capture.
pub(crate) struct Target {
    pub(crate) shape: Shape,
    pub(crate) batched: bool,
    /// Whether the `prepare` hook runs.
    pub(crate) compile: bool,
}

/// An executor before its memory exists.
pub(crate) struct Claimed {
    pub(crate) schema: &'static Schema,
    pub(crate) kwargs: Kwargs,
    /// The schema's, then the planned ones.
    pub(crate) inputs: Box<[IoPlan]>,
    pub(crate) outputs: Box<[IoPlan]>,
    /// Resource and name of each planned input.
    pub(crate) planned: Box<[(&'static str, &'static str)]>,
    /// Largest first.
    pub(crate) targets: Vec<(Target, Layout)>,
    pub(crate) slots: Vec<SlotClaim>,
}

impl Claimed {
    /// Bytes of a slot's block: that of the largest bucket.
    pub(crate) fn block_bytes(&self) -> usize {
        self.targets.iter().map(|(_, layout)| layout.block_bytes).max().unwrap_or(4)
    }

    /// Bytes of the blocks of all slots.
    pub(crate) fn blocks_bytes(&self) -> usize {
        self.block_bytes().saturating_mul(self.slots.len())
    }
}

pub(crate) struct SlotClaim {
    /// `None` for host-side inputs.
    pub(crate) inputs: Vec<Option<PlaceId>>,
    pub(crate) outputs: Vec<PlaceId>,
}

/// Inputs, and outputs, of one region at the most: holds are counted in one word.
const MOST_BUFFERS: usize = 32;

/// Bytes of one buffer at the most, so that no sum over the buffers of a region wraps. Rows are counted in one word of
/// the header.
const MOST_BYTES: usize = isize::MAX as usize / (4 * MOST_BUFFERS);

/// Works out sizes at every shape and claims them. `targets` come largest first.
pub(crate) fn claim<B: Backend>(
    program: &dyn Program<B>,
    targets: Vec<Target>,
    slots: usize,
    claims: &mut Claims,
    steps: &mut Steps<B>,
) -> Result<Claimed> {
    let schema = program.schema();
    let owner = || schema.full_name();
    let uses = program.resources();
    let (mut declared, mut planned): (Vec<&'static IoSchema>, Vec<_>) =
        (schema.inputs.iter().collect(), Vec::new());
    for name in uses {
        let resource = steps.resource(name)?;
        for io in resource.inputs() {
            check_declaration(resource.name(), io)?;
            declared.push(io);
            planned.push((resource.name(), io.name));
        }
    }
    for target in &targets {
        steps.claim(uses, &target.shape)?;
    }
    check_schema(schema)?;
    if declared.len() > MOST_BUFFERS {
        let (what, got) = ("inputs", declared.len());
        return Err(ErrorKind::TooMany { owner: owner(), what, got, most: MOST_BUFFERS }.into());
    }
    let statics = |shape: &Shape| -> Result<Statics> {
        let mut statics = Statics::default();
        program.statics(shape, &mut statics)?;
        statics.check(&owner(), schema.inputs, schema.outputs)?;
        for name in uses {
            let resource = steps.resource(name)?;
            let mut more = Statics::default();
            resource.make_static_inputs(shape, &mut more);
            more.check(name, resource.inputs(), &[])?;
            statics.inputs.append(&mut more.inputs);
        }
        Ok(statics)
    };
    let none = Shape::default();
    let first = statics(targets.first().map_or(&none, |t| &t.shape))?;
    let inputs = io_plans(declared, &first.inputs);
    let outputs = io_plans(schema.outputs, &first.outputs);

    let mut laid_out = Vec::new();
    for target in targets {
        let here = statics(&target.shape)?;
        let in_rows = rows(schema, &inputs, &here.inputs)?;
        let out_rows = rows(schema, &outputs, &here.outputs)?;
        let layout = layout(target.shape.dims(), target.batched, &inputs, in_rows, out_rows);
        laid_out.push((target, layout));
    }
    let most = |rows: &dyn Fn(&Layout) -> usize| laid_out.iter().map(|(_, l)| rows(l)).max().unwrap_or(0);

    let slots = (0..slots)
        .map(|slot| {
            let mut places = SlotClaim { inputs: Vec::new(), outputs: Vec::new() };
            for (i, plan) in inputs.iter().enumerate() {
                let bytes = plan.bytes(most(&|l| l.in_rows[i]));
                let id = match (plan.side, first.inputs[i].wire) {
                    (Side::Host, _) => None,
                    (Side::Device, Some(wire)) => Some(claims.wire(schema.node, wire, slot, bytes)),
                    (Side::Device, None) => {
                        Some(claims.input(schema.node, schema.name, plan.name, slot, bytes))
                    }
                };
                // Two inputs on one wire would be padded twice, by two policies.
                if let Some(first) = places.inputs.iter().position(|p| id.is_some() && *p == id) {
                    let (first, second) = (inputs[first].name, plan.name);
                    return Err(ErrorKind::WireClash { owner: owner(), first, second }.into());
                }
                places.inputs.push(id);
            }
            for (i, plan) in outputs.iter().enumerate() {
                let bytes = plan.bytes(most(&|l| l.out_rows[i]));
                let id = match first.outputs[i].wire {
                    Some(wire) => claims.wire(schema.node, wire, slot, bytes),
                    None => claims.own(schema.node, bytes),
                };
                let clash = places.inputs.iter().position(|p| *p == Some(id)).map(|i| inputs[i].name);
                let clash =
                    clash.or_else(|| places.outputs.iter().position(|p| *p == id).map(|i| outputs[i].name));
                if let Some(first) = clash {
                    return Err(ErrorKind::WireClash { owner: owner(), first, second: plan.name }.into());
                }
                places.outputs.push(id);
            }
            Ok(places)
        })
        .collect::<Result<_>>()?;
    let (kwargs, planned) = (program.kwargs(), planned.into());
    Ok(Claimed { schema, kwargs, inputs, outputs, planned, targets: laid_out, slots })
}

pub(crate) fn io_plans(
    declared: impl IntoIterator<Item = &'static IoSchema>,
    sizes: &[StaticBuffer],
) -> Box<[IoPlan]> {
    let plan = |(io, size): (&'static IoSchema, &StaticBuffer)| IoPlan {
        name: io.name,
        elem: io.elem,
        declared: io.dims,
        dims: size.dims,
        rank: size.rank,
        axis: io.axis,
        outer: elements(&size.dims[..io.axis]),
        row_bytes: elements(&size.dims[io.axis + 1..size.rank]).saturating_mul(io.elem.bytes()),
        pad: io.pad,
        side: io.side,
    };
    declared.into_iter().zip(sizes).map(plan).collect()
}

/// The varying axis of each buffer at one shape; any other axis that differs is an error.
fn rows(schema: &Schema, plans: &[IoPlan], sizes: &[StaticBuffer]) -> Result<Box<[usize]>> {
    plans
        .iter()
        .zip(sizes)
        .map(|(plan, size)| {
            let other = (0..MAX_RANK).find(|a| *a != plan.axis && size.dims[*a] != plan.dims[*a]);
            let rows = size.dims[plan.axis];
            match other {
                None if u32::try_from(rows).is_err() || plan.bytes(rows) > MOST_BYTES => {
                    let why = format!("a size of {:?} is beyond any memory", &size.dims[..size.rank]);
                    Err(ErrorKind::BadDeclaration { owner: schema.full_name(), input: plan.name, why }.into())
                }
                None => Ok(rows),
                Some(axis) => Err(ErrorKind::AxisVaries {
                    owner: schema.full_name(),
                    name: plan.name,
                    axis,
                    a: plan.dims[axis],
                    b: size.dims[axis],
                    declared: plan.axis,
                }
                .into()),
            }
        })
        .collect()
}

/// What a declaration may get wrong by itself, whether or not it is captured.
pub(crate) fn check_schema(schema: &Schema) -> Result<()> {
    let owner = schema.full_name();
    for (what, all) in [("inputs", schema.inputs), ("outputs", schema.outputs)] {
        if all.len() > MOST_BUFFERS {
            return Err(ErrorKind::TooMany { owner, what, got: all.len(), most: MOST_BUFFERS }.into());
        }
        for (i, io) in all.iter().enumerate() {
            check_declaration(&owner, io)?;
            if all[..i].iter().any(|earlier| earlier.name == io.name) {
                let why = format!("two {what} have this name");
                return Err(ErrorKind::BadDeclaration { owner, input: io.name, why }.into());
            }
        }
    }
    Ok(())
}

fn check_declaration(owner: &str, io: &IoSchema) -> Result<()> {
    let why = match io.pad {
        Pad::Value(v) if v.elem() != io.elem => {
            format!("its pad value is {}, its element {}", v.elem().name(), io.elem.name())
        }
        _ if io.rank == 0 || io.rank > MAX_RANK => format!("rank {} is not 1 to {MAX_RANK}", io.rank),
        _ if io.axis >= io.rank => format!("axis {} varies, its rank is {}", io.axis, io.rank),
        _ if io.side == Side::Device && io.axis != 0 => {
            format!("axis {} varies; on the device side it is the first that may", io.axis)
        }
        _ => return Ok(()),
    };
    Err(ErrorKind::BadDeclaration { owner: owner.into(), input: io.name, why }.into())
}

/// Host-side inputs start at multiples of this within the block, which suits vector loads.
const BLOCK_ALIGN: usize = 16;

fn layout(
    dims: Dims,
    batched: bool,
    inputs: &[IoPlan],
    in_rows: Box<[usize]>,
    out_rows: Box<[usize]>,
) -> Layout {
    let mut end = (inputs.len() + 1) * 4;
    let host_at = inputs
        .iter()
        .zip(&in_rows)
        .map(|(plan, rows)| {
            if plan.side == Side::Device {
                return 0;
            }
            let at = end.next_multiple_of(BLOCK_ALIGN);
            end = at + plan.bytes(*rows);
            at
        })
        .collect();
    Layout { dims, batched, in_rows, out_rows, host_at, block_bytes: end }
}
