//! Answers about a step of a whole forward: its lease, its rows, what it writes.

use graph_core::{BucketIx, Dims, IoSchema, NodeInputs, RequestId, Row, Shape, StepContext, Steps};
use serde_json::{Value, json};

use super::Answer;
use crate::{
    args::{Lease, OneQuery, PadInputs, Queries, Query, Stage, StepIds},
    errors::{Stop, error_json},
    setups::{
        Setups,
        data::Data,
        probe::{Rest, Rows},
        whole::{INPUTS, POS3_RUNS, WholeEngine, X_BYTES, exactly},
    },
    vectors::{Bucket, Problem, Vector},
};

pub(super) fn lease_slot(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let OneQuery { setup, query } = vector.args()?;
    let whole = setups.whole(&setup)?;
    leased(whole.engine()?, &query)
}

pub(super) fn lease_sequence(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let Queries { setup, calls } = vector.args()?;
    let whole = setups.whole(&setup)?;
    let engine = whole.engine()?;
    calls.iter().map(|query| leased(engine, query)).collect()
}

/// Chooses and leases. Without a slot there is nothing to lease: the caller has to know which step runs on which.
fn leased(engine: &WholeEngine, query: &Query) -> Answer {
    let lease = engine.with(|runner| {
        let info = query.key.as_ref().map(|key| key.info());
        let Some(walk) = runner.walk(&query.walk, info.as_ref()) else { return Ok(Value::Null) };
        let found = match query.num_tokens {
            Some(tokens) => runner.select_bucket(walk, query.bs, tokens),
            None => runner.select_batched_bucket(walk, query.bs),
        };
        let Ok(found) = found else { return Ok(Value::Null) };
        let (bucket, slot) = match query.slot {
            Some(slot) => {
                let lease = runner.lease_slot(found, slot)?;
                (lease.bucket(), Some(lease.slot()))
            }
            None => (found, None),
        };
        let key = runner.key(bucket)?;
        Ok(json!({"slot": slot, "bucket": Bucket::of(key, &key.walk)}))
    });
    Ok(lease?)
}

/// Padding depends on the configuration that the bucket is filed under, not on how its capture ended.
pub(super) fn pad_inputs(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let PadInputs { setup, bucket, real_lens } = vector.args()?;
    let whole = setups.whole(&setup)?;
    let config =
        whole.registered.config_of(&bucket).ok_or_else(|| format!("{bucket:?} is not registered"))?;
    let configs = whole.configs();
    let config = configs.get(config).ok_or_else(|| format!("there is no configuration {config}"))?;
    let rows: Vec<_> = real_lens.iter().map(|len| NodeInputs::new(*len)).collect();
    let lens = |rows: Vec<NodeInputs>| rows.iter().map(|row| row.input_seq_len).collect::<Vec<_>>();
    let by_config = config.pad_inputs(&bucket.key(), rows.clone()).map(lens);
    if let Ok(engine) = whole.engine() {
        let by_runner = engine.with(|runner| {
            exactly(runner, &bucket).map(|at| runner.pad_inputs(at, rows).map(lens)).transpose()
        });
        let agrees = match (&by_runner, &by_config) {
            (Ok(None), _) => true,
            (Ok(Some(a)), Ok(b)) => a == b,
            (Err(a), Err(b)) => error_json(a) == error_json(b),
            _ => false,
        };
        if !agrees {
            return Err(
                format!("the runner pads to {by_runner:?}, its configuration to {by_config:?}").into()
            );
        }
    }
    Ok(json!(by_config?))
}

/// What is said of a bucket whose capture failed on some slot.
fn dropped(bucket: &Bucket) -> Value {
    json!({"dropped": bucket})
}

pub(super) fn step_ids(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let StepIds { setup, lease: Lease { slot, bucket }, request_ids } = vector.args()?;
    let whole = setups.whole(&setup)?;
    let rows = whole.engine()?.with(|runner| {
        let Some(at) = exactly(runner, &bucket) else { return Ok(None) };
        let requests: Vec<_> = (0..).take(request_ids.len()).map(RequestId).collect();
        runner.step_rows(&runner.lease_slot(at, slot)?, &requests).map(Some)
    })?;
    Ok(rows.map_or(dropped(&bucket), |rows| rows_json(&rows, &request_ids)))
}

/// Requests by their name, padding rows as what they are.
pub(super) fn rows_json(rows: &[Row], names: &[String]) -> Value {
    let name = |row: &Row| match row {
        Row::Request(RequestId(i)) => json!(usize::try_from(*i).ok().and_then(|i| names.get(i))),
        Row::Padding { slot, row } => json!({"padding": row, "slot": slot}),
    };
    rows.iter().map(name).collect()
}

pub(super) fn stage(vector: &Vector, setups: &Setups<'_>) -> Answer {
    let args: Stage = vector.args()?;
    let whole = setups.whole(&args.setup)?;
    let engine = whole.engine()?;
    let bucket = &args.lease.bucket;
    let Some(at) = engine.with(|runner| Ok(exactly(runner, bucket)))? else { return Ok(dropped(bucket)) };
    let step = Step { engine, at, slot: args.lease.slot, bs: bucket.bs, tokens: bucket.tokens };

    let data =
        args.inputs.iter().map(|(name, dims)| Data::real(name, dims)).collect::<Result<Vec<_>, _>>()?;
    let unknown = args.unknown(&INPUTS);
    for name in &unknown {
        step.refuses(&data, name)?;
    }
    let known: Vec<Data> = data.into_iter().filter(|d| !unknown.contains(&d.name.as_str())).collect();
    let mut answer = match step.writes(&known) {
        Ok(answer) | Err(Stop::Refused(answer)) => answer,
        Err(problem) => return Err(problem),
    };
    if !unknown.is_empty() {
        answer["refused"] = json!(unknown);
    }
    Ok(answer)
}

/// A step in one bucket on one slot.
struct Step<'e> {
    engine: &'e WholeEngine,
    at: BucketIx,
    slot: usize,
    bs: usize,
    tokens: usize,
}

impl Step<'_> {
    /// Leases, stages, replays; gives the bytes of output `y`.
    fn run(&self, data: &[Data], tokens: usize) -> Result<Vec<u8>, Stop> {
        let sources = data.iter().map(|d| Ok((d.name.as_str(), d.source()?)));
        let sources = sources.collect::<Result<Vec<_>, Problem>>()?;
        // The requests of a step are no part of the vectors: any lengths do that give this many tokens.
        let shape = Shape::packed(tokens, self.bs)?;
        let mut steps = Steps::new("node", Vec::new())?;
        let y = self.engine.with(|runner| {
            let lease = runner.lease_slot(self.at, self.slot)?;
            let rows = runner.step_rows(&lease, &[])?;
            let padded = Dims { bs: self.bs, tokens: self.tokens };
            let cx = StepContext { slot: lease.slot(), rows: &rows, real_bs: 0, padded, captured: true };
            let step = steps.declare(|_| Ok(()))?.admit()?.plan(&cx)?;
            let staged = runner.stage(lease, &shape, &sources, &step)?;
            let y = runner.replay(staged, &shape)?.take::<u8, 2>("y")?.to_vec(&self.engine.stream)?;
            step.commit(&rows);
            Ok(y)
        });
        Ok(y?)
    }

    /// An input that the forward does not declare.
    fn refuses(&self, data: &[Data], unknown: &str) -> Result<(), Stop> {
        let known = data.iter().find(|d| d.name == "x").map_or(0, |d| d.value.dims()[0]);
        let with: Vec<_> = data.iter().filter(|d| d.name == unknown || declared(&d.name).is_some()).collect();
        let with = with.into_iter().map(|d| Data { name: d.name.clone(), value: d.value.clone() });
        match self.run(&with.collect::<Vec<_>>(), known) {
            Err(Stop::Refused(e)) if e["error"] == "UnknownName" && e["got"] == unknown => Ok(()),
            other => Err(format!("input `{unknown}` is not refused: {other:?}").into()),
        }
    }

    /// What the step writes to the static buffers.
    fn writes(&self, data: &[Data]) -> Answer {
        let dirt =
            [Data::dirt("x", &[self.tokens, X_BYTES])?, Data::dirt("pos3", &[POS3_RUNS, self.tokens])?];
        self.run(&dirt, self.tokens)?;
        // The tokens of the step are the rows of its first input.
        let rows =
            |io: &IoSchema| data.iter().find(|d| d.name == io.name)?.value.dims().get(io.axis).copied();
        let real = INPUTS.iter().find_map(rows).unwrap_or(0);
        let y = self.run(data, real)?;

        let (mut writes, mut padded) = (Vec::new(), false);
        for (i, io) in INPUTS.iter().enumerate() {
            let (runs, bytes) = if io.name == "x" { (1, X_BYTES) } else { (POS3_RUNS, size_of::<u32>()) };
            let rows = Rows { runs, bytes, all: self.tokens, real };
            let buffer = self.engine.probe.read(&self.engine.stream, i, runs * bytes * self.tokens)?;
            let given = data.iter().find(|d| d.name == io.name);
            let (copied, rest) = rows.seen(given.map_or(&[], |d| d.value.bytes()), &buffer);
            writes.push(json!({"op": "copy", "dim": io.axis, "start": 0, "rows": copied}));
            match rest {
                Rest::Zero => padded = true,
                Rest::Nothing => {}
                rest => return Err(format!("behind the rows of `{}`: {rest:?}", io.name).into()),
            }
            if io.name == "x" && given.is_some_and(|d| d.value.bytes() != y) {
                return Err("the output is not the input".to_string().into());
            }
        }
        Ok(json!({"writes": writes, "rest": if padded { "padded" } else { "not written" }}))
    }
}

fn declared(name: &str) -> Option<&'static IoSchema> {
    INPUTS.iter().find(|io| io.name == name)
}
