//! Answers of a region's runner: real calls, with everything that they leave behind.

use graph_core::{Dims, IoSchema, NamedArgs, Options, Outcome, RequestId, Row, StepRequests};
use serde_json::{Value, json};

use super::{
    Answer,
    piecewise::{shape_at, without_lengths},
    step::rows_json,
};
use crate::{
    args::{Resolve, Run},
    errors::{Stop, miss_json},
    setups::{
        Setups,
        data::Data,
        piecewise::{Piecewise, Region, schema},
        probe::{Rest, Rows},
        seen::Seen,
        spec::Kind,
    },
    vectors::{Problem, Vector},
};

/// Runs a call of this size on the given slot, and finds out which one it ran on.
pub(super) fn lease_slot(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let args: Resolve = vector.args()?;
    let piecewise = setups.piecewise(&args.setup)?;
    let call = Call::new(&piecewise)?;
    let (bs, spec) = (args.batch_size, &piecewise.spec);
    let lens = match (spec.kind, args.total_tokens, bs) {
        (_, _, 0) => Vec::new(),
        (Kind::Packed, None, _) => return without_lengths(call.region.runner.borrow().config(), bs),
        (_, tokens, _) => spec.lengths(bs, tokens.unwrap_or(0))?,
    };
    call.region.runner.borrow_mut().set_slot(args.set_slot);
    let rows = call.rows(&lens);
    let data = call.inputs.iter().map(|io| Data::real(io.name, &call.dims(io, rows)));
    let ran = call.run(&data.collect::<Result<Vec<_>, _>>()?, &lens);
    call.region.runner.borrow_mut().set_slot(0);
    let Ran::Replayed { bucket, .. } = ran? else { return Ok(Value::Null) };
    let slot = call.region.probe.slot(&call.region.stream)?;
    // The reference implementation files regions under a walk of their own, by name.
    let (name, Dims { bs, tokens }) = (schema(spec.kind).name, bucket);
    Ok(json!({"slot": slot, "bucket": {"walk": "__piecewise__", "bs": bs, "tokens": tokens, "key": name}}))
}

pub(super) fn run(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let args: Run = vector.args()?;
    let piecewise = setups.piecewise(&args.setup)?;
    let call = Call::new(&piecewise)?;
    // A call is its lengths: without any there is no request.
    let Some(requests) = args.requests().filter(|n| *n > 0) else {
        call.run(&[], &[])?;
        return Err("a call without requests is accepted".to_string().into());
    };
    let lens = match (piecewise.spec.kind, &args.seq_lens) {
        (_, Some(lens)) => lens.clone(),
        (Kind::Batched, None) => piecewise.spec.lengths(args.named().unwrap_or(requests), 0)?,
        (Kind::Packed, None) => return without_lengths(call.region.runner.borrow().config(), requests),
    };
    // One length per request, whoever counts them.
    let others = [Some(requests), args.named()];
    if let Some(requests) = others.into_iter().flatten().find(|n| *n != lens.len()) {
        let runner = call.region.runner.borrow();
        let shapes = runner.config().capture_shapes(&[lens.len().max(requests)])?;
        let shape = shapes.first().ok_or_else(|| "the configuration has no shape".to_string())?;
        return Ok(json!(runner.config().replay_seq_lens(shape, Some(&lens), requests)?));
    }
    let data = args.static_inputs.iter().map(|(name, dims)| Data::real(name, dims));
    let data = data.collect::<Result<Vec<_>, _>>()?;
    let unknown = args.unknown(call.inputs);
    for name in &unknown {
        call.refuses(&data, name, &lens)?;
    }
    let known = data.into_iter().filter(|d| !unknown.contains(&d.name.as_str()));
    let mut answer = match call.answer(&args, &known.collect::<Vec<_>>(), &lens) {
        Ok(answer) | Err(Stop::Refused(answer)) => answer,
        Err(problem) => return Err(problem),
    };
    if !unknown.is_empty() {
        answer["refused"] = json!(unknown);
    }
    Ok(answer)
}

/// How a call went.
enum Ran {
    Replayed { bucket: Dims, y: Vec<u8>, rows: usize, step: StepRows },
    Eager { reason: Value, y: Vec<u8>, rows: usize },
}

/// The rows of a step, and the padding rows that are reset after it.
struct StepRows {
    rows: Vec<Row>,
    reset: Vec<Row>,
}

struct Call<'p> {
    piecewise: &'p Piecewise,
    region: &'p Region,
    inputs: &'static [IoSchema],
}

impl<'p> Call<'p> {
    fn new(piecewise: &'p Piecewise) -> Result<Self, Stop> {
        Ok(Call { piecewise, region: piecewise.region()?, inputs: schema(piecewise.spec.kind).inputs })
    }

    /// Rows of every input of a call.
    fn rows(&self, lens: &[usize]) -> usize {
        match self.piecewise.spec.kind {
            Kind::Batched => lens.len(),
            Kind::Packed => lens.iter().sum(),
        }
    }

    /// The size of an input with this many rows.
    fn dims(&self, io: &IoSchema, rows: usize) -> Vec<usize> {
        match (self.piecewise.spec.kind, io.name) {
            (Kind::Batched, "x") => vec![rows, self.piecewise.spec.seq_len, 8],
            (Kind::Packed, "x") => vec![rows, 8],
            _ => vec![rows],
        }
    }

    /// Runs the call with these inputs, given in the order that the region declares, unknown ones last.
    fn run(&self, data: &[Data], lens: &[usize]) -> Result<Ran, Stop> {
        let order = |d: &&Data| self.inputs.iter().position(|io| io.name == d.name).unwrap_or(usize::MAX);
        let mut data: Vec<&Data> = data.iter().collect();
        data.sort_by_key(order);
        let mut named = Vec::new();
        for d in data {
            let declared = self.inputs.iter().find(|io| io.name == d.name);
            named.push((declared.map_or("not declared", |io| io.name), d.source()?));
        }
        let mut runner = self.region.runner.borrow_mut();
        let bucket = runner.bucket_for(runner.config().real_dims(lens));
        let requests: Vec<_> = (0..).take(lens.len()).map(RequestId).collect();
        let mut step =
            bucket.ok().map(|bucket| runner.step_rows(bucket, &requests)).transpose()?.map(unresourced);
        let outcome = if self.piecewise.spec.declares {
            let mut engine = self.region.engine.borrow_mut();
            let steps = engine.node("node")?.steps();
            requests.iter().try_for_each(|r| steps.ingest(*r, &Options::default()))?;
            let call = StepRequests { requests: &requests, seq_lens: lens };
            let outcome = runner.run_step(NamedArgs(&named), call, steps);
            requests.iter().for_each(|r| steps.remove(*r));
            step = steps
                .get::<Seen>()
                .map(|seen| StepRows { rows: seen.rows.clone(), reset: seen.reset.clone() });
            outcome
        } else {
            runner.run(NamedArgs(&named), lens)
        };
        let (mut out, reason) = match outcome? {
            Outcome::Replayed(out) => (out, None),
            Outcome::Eager { out, reason } => (out, Some(miss_json(reason))),
        };
        let (y, rows) = match self.piecewise.spec.kind {
            Kind::Batched => {
                let y = out.take::<u8, 3>("y")?;
                (y.to_vec(&self.region.stream)?, y.dims()[0])
            }
            Kind::Packed => {
                let y = out.take::<u8, 2>("y")?;
                (y.to_vec(&self.region.stream)?, y.dims()[0])
            }
        };
        match (reason, bucket, step) {
            (Some(reason), ..) => Ok(Ran::Eager { reason, y, rows }),
            (None, Ok(bucket), Some(step)) => Ok(Ran::Replayed { bucket, y, rows, step }),
            _ => Err("replayed although no bucket fits".to_string().into()),
        }
    }

    /// An input that the region does not declare.
    fn refuses(&self, data: &[Data], unknown: &str, lens: &[usize]) -> Result<(), Stop> {
        let with =
            data.iter().filter(|d| d.name == unknown || self.inputs.iter().any(|io| io.name == d.name));
        let with = with.map(|d| Data { name: d.name.clone(), value: d.value.clone() });
        match self.run(&with.collect::<Vec<_>>(), lens) {
            Err(Stop::Refused(e)) if e["error"] == "UnknownName" => Ok(()),
            Err(other) => Err(other),
            Ok(_) => Err(format!("input `{unknown}` is not refused").into()),
        }
    }

    /// The call's answer: where it ran, what it wrote, what it declares, what comes out.
    fn answer(&self, args: &Run, data: &[Data], lens: &[usize]) -> Answer {
        let runner = || self.region.runner.borrow();
        let expected = runner().bucket_for(runner().config().real_dims(lens));
        if let Ok(bucket) = expected {
            self.fill(bucket)?;
        }
        let (bucket, y, rows, step) = match self.run(data, lens)? {
            Ran::Eager { reason, y, rows } => {
                same_as_x(&y, data)?;
                return Ok(json!({"eager": reason, "output_rows": rows}));
            }
            Ran::Replayed { bucket, y, rows, step } => (bucket, y, rows, step),
        };
        same_as_x(&y, data)?;
        let shape = shape_at(runner().config(), bucket)?;
        let declared_lens = runner().config().replay_seq_lens(&shape, Some(lens), lens.len())?;
        let declared = match (&args.request_ids, self.piecewise.spec.declares) {
            (Some(ids), true) => json!({"ids": rows_json(&step.rows, ids), "seq_lens": declared_lens}),
            _ => Value::Null,
        };
        Ok(json!({
            "bucket": [bucket.bs, bucket.tokens],
            "writes": self.writes(data, self.rows(lens), bucket)?,
            "declared": declared,
            "reset": rows_json(&step.reset, &[]),
            "output_rows": rows,
        }))
    }

    /// A call that fills a bucket with dirt.
    fn fill(&self, bucket: Dims) -> Result<(), Stop> {
        let lens = shape_at(self.region.runner.borrow().config(), bucket)?.seq_lens;
        let dirt = self.inputs.iter().map(|io| Data::dirt(io.name, &self.dims(io, self.rows(&lens))));
        match self.run(&dirt.collect::<Result<Vec<_>, _>>()?, &lens)? {
            Ran::Replayed { bucket: at, .. } if at == bucket => Ok(()),
            _ => Err(format!("a call of the size of bucket {bucket:?} does not run in it").into()),
        }
    }

    /// What the call wrote to the static buffers.
    fn writes(&self, data: &[Data], real: usize, bucket: Dims) -> Result<Vec<Value>, Stop> {
        let all = match self.piecewise.spec.kind {
            Kind::Batched => bucket.bs,
            Kind::Packed => bucket.tokens,
        };
        let mut writes = Vec::new();
        for (i, io) in self.inputs.iter().enumerate() {
            let bytes = self.dims(io, 1).iter().product::<usize>() * io.elem.bytes();
            let buffer = self.region.probe.read(&self.region.stream, i, all * bytes)?;
            let given = data.iter().find(|d| d.name == io.name).map_or(&[][..], |d| d.value.bytes());
            let (copied, rest) = Rows { runs: 1, bytes, all, real }.seen(given, &buffer);
            writes.push(json!({"op": "copy", "name": io.name, "start": 0, "rows": copied}));
            match rest {
                Rest::Zero => {
                    writes.push(json!({"op": "zero", "name": io.name, "start": real, "rows": all - real}));
                }
                Rest::Nothing => {}
                rest => return Err(format!("behind the rows of `{}`: {rest:?}", io.name).into()),
            }
        }
        Ok(writes)
    }
}

/// The rows of a region without resources: nothing is declared, and padding is what nobody owns.
fn unresourced(rows: Vec<Row>) -> StepRows {
    let reset = rows.iter().filter(|row| matches!(row, Row::Padding { .. })).copied().collect();
    StepRows { rows, reset }
}

fn same_as_x(y: &[u8], data: &[Data]) -> Result<(), Problem> {
    match data.iter().find(|d| d.name == "x") {
        Some(x) if x.value.bytes() != y => Err("the output is not the input".into()),
        _ => Ok(()),
    }
}
