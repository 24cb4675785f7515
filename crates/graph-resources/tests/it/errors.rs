//! What types cannot refuse is a typed error, and leaves nothing reserved.

use graph_core::{
    AdmitOutcome, CaptureOptions, Dependencies, Dims, ErrorKind, GraphBuffers, Label, Options, RequestId,
    Resource, ResourceStep, Result, Source, StepContext, Steps, SubmoduleStep,
};
use graph_host::Host;
use graph_resources::{AttentionPlan, KvOptions, LaunchShape, PagedKv, Positions, SampleParams, Sampler};

use crate::toy::{Toy, build, build_with};

fn steps(resources: Vec<Box<dyn Resource<Host>>>) -> Result<Steps<Host>> {
    Steps::new("node", resources)
}

fn with_kv(pages: usize) -> Steps<Host> {
    let mut steps = steps(vec![Box::new(PagedKv::<Host>::new(KvOptions::new(pages, 4)).unwrap())]).unwrap();
    steps.ingest(RequestId(1), &Options::default()).unwrap();
    steps
}

fn one(resource: &'static str, request: u64, tokens: usize) -> impl Fn(&mut SubmoduleStep) -> Result<()> {
    move |step| {
        step.resource(resource).segment(RequestId(request), Label::MAIN, tokens);
        Ok(())
    }
}

#[track_caller]
fn fails<T>(result: Result<T>, is: impl Fn(&ErrorKind) -> bool, text: &str) {
    let error = result.err().expect("an error");
    assert!(is(error.kind()) && error.to_string().contains(text), "{error}");
}

#[test]
fn requests_are_ingested_once_and_known() {
    let mut steps = with_kv(4);
    let again = steps.ingest(RequestId(1), &Options::default());
    fails(again, |k| matches!(k, ErrorKind::RequestKnown { .. }), "request 1 is known already");
    let unknown = |k: &ErrorKind| matches!(k, ErrorKind::RequestUnknown { request: RequestId(9), .. });
    fails(steps.declare(one("kv", 9, 1)), unknown, "request 9 is not known");
    steps.remove(RequestId(1));
    fails(
        steps.declare(one("kv", 1, 1)),
        |k| matches!(k, ErrorKind::RequestUnknown { .. }),
        "ingest it before",
    );
    steps.remove(RequestId(1)); // no matter
}

#[test]
fn an_ingest_that_one_resource_refuses_is_none() {
    let mut steps = steps(vec![
        Box::new(PagedKv::<Host>::new(KvOptions::new(4, 4)).unwrap()),
        Box::new(Sampler::<Host>::new(1).unwrap()),
    ])
    .unwrap();
    steps.ingest(RequestId(1), &Options::default()).unwrap();
    let full = |k: &ErrorKind| matches!(k, ErrorKind::TooManyRequests { resource: "sampler", most: 1 });
    fails(steps.ingest(RequestId(2), &Options::default()), full, "room for 1 request(s)");
    let bad = SampleParams::seeded(1).temperature(f32::NAN);
    fails(
        steps.ingest(RequestId(3), &Options::default().with(bad)),
        |k| matches!(k, ErrorKind::BadDeclaration { input: "temperature", .. }),
        "NaN is not 0 or more",
    );
    let bad = SampleParams::seeded(1).top_p(1.5);
    fails(
        steps.ingest(RequestId(3), &Options::default().with(bad)),
        |k| matches!(k, ErrorKind::BadDeclaration { input: "top_p", .. }),
        "1.5 is not from 0 to 1",
    );
    steps.remove(RequestId(1));
    for request in [2, 3] {
        steps.ingest(RequestId(request), &Options::default()).unwrap_or_else(|e| panic!("{request}: {e}"));
        steps.remove(RequestId(request));
    }
}

#[test]
fn one_open_step_per_resource() {
    let mut steps = with_kv(4);
    let mut outer = steps.declare(one("kv", 1, 1)).unwrap();
    let in_step = |k: &ErrorKind| matches!(k, ErrorKind::ResourceInStep { resource: "kv", .. });
    fails(outer.inside().declare(one("kv", 1, 1)), in_step, "already part of an open step");
    drop(outer.admit().unwrap());
    let twice = steps.declare(|step| {
        step.resource("kv").segment(RequestId(1), Label::MAIN, 1);
        step.resource("kv").segment(RequestId(1), Label::MAIN, 1);
        Ok(())
    });
    fails(twice, in_step, "already part of an open step");
    fails(
        steps.declare(one("vk", 1, 1)),
        |k| matches!(k, ErrorKind::UnknownName { what: "resource", .. }),
        "known: kv",
    );
    drop(steps.declare(one("kv", 1, 1)).unwrap());
}

#[test]
fn a_refused_step_reserves_nothing_anywhere() {
    let mut steps = steps(vec![
        Box::new(PagedKv::<Host>::new(KvOptions::new(3, 4)).unwrap()),
        Box::new(Positions::new()),
    ])
    .unwrap();
    (1..=2).for_each(|r| steps.ingest(RequestId(r), &Options::default()).unwrap());
    let step = |tokens: [usize; 2]| {
        move |step: &mut SubmoduleStep| {
            for resource in ["positions", "kv"] {
                let mut part = step.resource(resource);
                part.segment(RequestId(1), Label::MAIN, tokens[0]).segment(
                    RequestId(2),
                    Label("b"),
                    tokens[1],
                );
            }
            Ok(())
        }
    };
    let short = AdmitOutcome::PagesShort { pages: 1, request: RequestId(2), label: Label("b") };
    let refused = steps.declare(step([4, 5])).unwrap().admit();
    let is =
        |k: &ErrorKind| matches!(k, ErrorKind::Refused { resource: "kv", outcome, .. } if *outcome == short);
    fails(refused, is, "1 page(s) short for request 2 (b)");
    let long = steps.declare(step([4, 9])).unwrap().admit();
    let is = |k: &ErrorKind| {
        matches!(k, ErrorKind::Refused { outcome: AdmitOutcome::TooLong { tokens: 9, most: 8, .. }, .. })
    };
    fails(long, is, "request 2 (b) would have 9 tokens, at most 8");
    assert_eq!(steps.get::<PagedKv<Host>>().unwrap().counts().free, 2);
    // Were anything left of the refused steps, this one would not be admitted: they hold all pages.
    drop(steps.declare(step([4, 4])).unwrap().admit().unwrap());
}

#[test]
fn a_stream_is_continued_once_per_step() {
    for name in ["kv", "positions", "sampler"] {
        let mut steps = steps(vec![
            Box::new(PagedKv::<Host>::new(KvOptions::new(3, 4)).unwrap()),
            Box::new(Positions::new()),
            Box::new(Sampler::<Host>::new(2).unwrap()),
        ])
        .unwrap();
        steps.ingest(RequestId(1), &Options::default()).unwrap();
        let twice = |step: &mut SubmoduleStep| {
            step.resource(name).segment(RequestId(1), Label::MAIN, 1).segment(RequestId(1), Label::MAIN, 1);
            Ok(())
        };
        let is = |k: &ErrorKind| matches!(k, ErrorKind::SegmentTwice { resource, .. } if *resource == name);
        fails(steps.declare(twice).unwrap().admit(), is, "twice");
        drop(steps.declare(one(name, 1, 1)).unwrap().admit().unwrap());
    }
}

#[test]
fn resources_in_dependency_order_or_not_at_all() {
    let options = KvOptions::new(4, 4);
    let alone = steps(vec![Box::new(AttentionPlan::new(&options))]);
    let order = |k: &ErrorKind| matches!(k, ErrorKind::ResourceOrder { resource: "attention", .. });
    fails(alone, order, "it depends on one that is not there");
    let two = steps(vec![Box::new(Positions::new()), Box::new(Positions::new())]);
    fails(two, |k| matches!(k, ErrorKind::ResourceOrder { .. }), "there are two of that name");
    // Another cache than the plan's.
    let mut other = steps(vec![
        Box::new(AttentionPlan::new(&options)),
        Box::new(PagedKv::<Host>::new(KvOptions::new(4, 8)).unwrap()),
    ])
    .unwrap();
    other.ingest(RequestId(1), &Options::default()).unwrap();
    let step = other.declare(one("attention", 1, 1)).unwrap().admit().unwrap();
    let padded = Dims { bs: 1, tokens: 1 };
    let cx = StepContext { slot: 0, rows: &[], real_bs: 1, padded, captured: false };
    fails(step.plan(&cx), |k| matches!(k, ErrorKind::BadDeclaration { .. }), "it is for a cache of");
}

/// Depends on these, and asks for the cache while it plans.
struct Nosy(&'static str, &'static [&'static str]);

impl Resource<Host> for Nosy {
    fn name(&self) -> &'static str {
        self.0
    }
    fn depends_on(&self) -> &'static [&'static str] {
        self.1
    }
    fn ingest(&mut self, _: RequestId, _: &Options) -> Result<()> {
        Ok(())
    }
    fn remove(&mut self, _: RequestId) {}
    fn admit(&mut self, _: &ResourceStep<'_>) -> Result<AdmitOutcome> {
        Ok(AdmitOutcome::Admitted)
    }
    fn plan(&mut self, _: &ResourceStep<'_>, _: &StepContext<'_>, d: Dependencies<'_, Host>) -> Result<()> {
        d.get::<PagedKv<Host>>().map(drop)
    }
    fn planned(&self, _: usize, _: usize) -> Source<'_, Host> {
        Source::slice::<i32>(&[])
    }
    fn commit(&mut self, _: &ResourceStep<'_>) {}
    fn rollback(&mut self, _: &ResourceStep<'_>) {}
}

#[test]
fn dependencies_are_declared_and_form_no_cycle() {
    let cycle = steps(vec![Box::new(Nosy("a", &["b"])), Box::new(Nosy("b", &["a"]))]);
    fails(cycle, |k| matches!(k, ErrorKind::ResourceOrder { .. }), "its dependencies form a cycle");
    let undeclared = |k: &ErrorKind| matches!(k, ErrorKind::NoDependency { resource: "z", .. });
    for (depends_on, may) in [(&["kv"][..], true), (&[], false)] {
        let kv = PagedKv::<Host>::new(KvOptions::new(4, 4)).unwrap();
        let mut steps = steps(vec![Box::new(Nosy("z", depends_on)), Box::new(kv)]).unwrap();
        steps.ingest(RequestId(1), &Options::default()).unwrap();
        let step = steps.declare(one("z", 1, 1)).unwrap().admit().unwrap();
        let padded = Dims { bs: 1, tokens: 1 };
        let planned = step.plan(&StepContext { slot: 0, rows: &[], real_bs: 1, padded, captured: false });
        match may {
            true => drop(planned.unwrap()),
            false => fails(planned, undeclared, "which its `depends_on` does not name"),
        }
    }
}

#[test]
fn sizes_that_make_no_sense() {
    let new = |options| PagedKv::<Host>::new(options);
    fails(new(KvOptions::new(0, 4)), |k| matches!(k, ErrorKind::ZeroSize { list: "pages", .. }), "kv");
    fails(new(KvOptions::new(4, 0)), |k| matches!(k, ErrorKind::ZeroSize { list: "page_size", .. }), "kv");
    fails(
        new(KvOptions::new(1, 4).max_tokens(1)),
        |k| matches!(k, ErrorKind::BadDeclaration { .. }),
        "second",
    );
    fails(new(KvOptions::new(1 << 20, 1 << 11)), |k| matches!(k, ErrorKind::BadDeclaration { .. }), "i32");
    fails(new(KvOptions::new(4, 4).max_tokens(13)), |k| matches!(k, ErrorKind::BadDeclaration { .. }), "13");
    fails(Sampler::<Host>::new(0), |k| matches!(k, ErrorKind::ZeroSize { .. }), "sampler");
}

#[test]
fn claims_close_with_the_allocation() {
    let host = Host::new();
    let mut buffers = GraphBuffers::<Host>::new("mine");
    buffers.claim::<f32>("partials", 8).unwrap();
    buffers.claim::<f32>("partials", 16).unwrap(); // grows
    let early = buffers.get::<f32, 1>("partials", 0, [4]);
    fails(early, |k| matches!(k, ErrorKind::ClaimsClosed { .. }), "partials");
    buffers.allocate(&host, 2).unwrap();
    assert_eq!((buffers.bytes(), host.live().buffers), (128, 2));
    buffers.claim::<f32>("partials", 16).unwrap(); // is there
    let closed = |k: &ErrorKind| matches!(k, ErrorKind::ClaimsClosed { asked: 68, has: 64, .. });
    fails(buffers.claim::<f32>("partials", 17), closed, "64 were claimed before the first capture");
    fails(buffers.claim::<u8>("more", 1), |k| matches!(k, ErrorKind::ClaimsClosed { has: 0, .. }), "more");
    assert_eq!(buffers.get::<f32, 2>("partials", 1, [4, 4]).unwrap().dims(), [4, 4]);
    fails(buffers.get::<f32, 1>("partials", 1, [17]), closed, "");
    fails(buffers.get::<f32, 1>("partials", 2, [1]), |k| matches!(k, ErrorKind::ClaimsClosed { .. }), "");

    // The same through a resource: after the engine is built, a larger shape is refused.
    let mut built = build(Toy::default());
    let attention = built.node().steps().get_mut::<AttentionPlan<Host>>().unwrap();
    attention.claim(&graph_core::Shape::batched(4, 1)).unwrap();
}

/// Splits by the longest context: one per 8 tokens.
fn splits(longest: usize) -> usize {
    longest.div_ceil(8)
}

#[test]
fn a_plan_must_suit_the_capture() {
    let mut built = build(Toy { splits, ..Toy::default() });
    built.node().ingest(RequestId(1), &Options::default()).unwrap();
    let captured = LaunchShape { rows: 8, splits: 5 };
    let planned = LaunchShape { rows: 8, splits: 1 };
    let is = |k: &ErrorKind| {
        matches!(k, ErrorKind::LaunchShape { owner: "attention", planned: p, captured: c }
            if *p == planned.to_string() && *c == captured.to_string())
    };
    let free = built.kv().counts().free;
    fails(built.step("prefill", None, 0, &[(1, &[1, 2, 3]), (1, &[])]).map(drop), |_| true, "twice");
    let rows: [(u64, &[i32]); 1] = [(1, &[5])];
    fails(
        built.step("decode", None, 0, &rows),
        |k| matches!(k, ErrorKind::LaunchShape { .. }),
        "2 row(s) in 1 split(s)",
    );
    assert_eq!(built.kv().counts().free, free, "rolled back");
    for other in 2..=4 {
        built.node().ingest(RequestId(other), &Options::default()).unwrap();
    }
    fails(
        built.step("decode", None, 0, &[(1, &[5]), (2, &[5]), (3, &[5]), (4, &[5])]),
        is,
        "the graph was captured with 8 row(s) in 5 split(s)",
    );
    // It can be run eagerly, with the numbers of the plan, until the contexts are as long as captured.
    built.node().set_eager(true);
    assert!(!built.step("prefill", None, 0, &[(1, &[1; 33])]).unwrap().replayed);
    built.node().set_eager(false);
    assert!(built.step("decode", None, 0, &rows).unwrap().replayed);
}

#[test]
fn a_forward_reads_what_its_step_declares() {
    let toy = Toy { undeclared: true, ..Toy::default() };
    let mut built = build_with(toy, CaptureOptions::default()).unwrap();
    built.node().ingest(RequestId(1), &Options::default()).unwrap();
    let free = built.kv().counts().free;
    for eager in [false, true] {
        built.node().set_eager(eager);
        let is = |k: &ErrorKind| matches!(k, ErrorKind::ResourceNotDeclared { resource: "sampler", .. });
        fails(built.step("decode", None, 0, &[(1, &[5])]), is, "which the step does not declare");
        assert_eq!(built.kv().counts().free, free, "eager: {eager}");
    }
}

/// A node that keeps state for requests must be told whose rows a call has.
#[test]
fn a_call_without_requests_on_a_node_with_resources() {
    let mut built = build(Toy::default());
    let walk = built.node().walks().next().unwrap();
    let call = graph_core::NodeCall { requests: &[], seq_lens: &[1, 1], inputs: &[], slot: 0 };
    let outcome = built.node().run(walk, &call);
    fails(
        outcome,
        |k| matches!(k, ErrorKind::RequestsMissing { bs: 2, .. }),
        "one request id per length, 2 here",
    );
}

#[test]
fn sizes_that_wrap_are_refused_and_change_nothing() {
    let mut all = with_kv(4);
    commit(&mut all, "kv", 1);
    let too_long =
        |k: &ErrorKind| matches!(k, ErrorKind::Refused { outcome: AdmitOutcome::TooLong { .. }, .. });
    fails(all.declare(one("kv", 1, usize::MAX)).unwrap().admit(), too_long, "at most 12");
    assert_eq!(all.get::<PagedKv<Host>>().unwrap().stream_len(RequestId(1), Label::MAIN), 1);
    all.get::<PagedKv<Host>>().unwrap().assert_consistent();

    let mut all = steps(vec![Box::new(Positions::new())]).unwrap();
    all.ingest(RequestId(1), &Options::default()).unwrap();
    commit(&mut all, "positions", 1);
    fails(all.declare(one("positions", 1, usize::MAX)).unwrap().admit(), too_long, "at most 2147483647");

    let too_large = |k: &ErrorKind| matches!(k, ErrorKind::SizeTooLarge { .. });
    fails(Sampler::<Host>::new(usize::MAX), too_large, "sampler");
    assert_eq!(KvOptions::new(4, 0).max_pages(), 0);
    let zero = |k: &ErrorKind| matches!(k, ErrorKind::ZeroSize { list: "pages", .. });
    let mut plan = AttentionPlan::<Host>::new(&KvOptions::new(0, 0));
    fails(plan.claim(&graph_core::Shape::batched(1, 1)), zero, "pages");
}

/// A step of request 1 that is committed.
fn commit(steps: &mut Steps<Host>, resource: &'static str, tokens: usize) {
    let dims = Dims { bs: 1, tokens };
    let cx = StepContext { slot: 0, rows: &[], real_bs: 1, padded: dims, captured: false };
    steps.declare(one(resource, 1, tokens)).unwrap().admit().unwrap().plan(&cx).unwrap().commit(&[]);
}

#[test]
fn what_resources_will_hold_is_known_before_they_allocate() {
    for slots in [1, 2] {
        let build = |memory_budget| {
            let options = CaptureOptions { slots: Some(slots), memory_budget, ..CaptureOptions::default() };
            build_with(Toy::default(), options)
        };
        let held = build(None).unwrap().engine.ledger().clone();
        assert!(held.resources > 0);
        let refused = build(Some(held.total() - held.scratch - 1)).err().unwrap();
        let ErrorKind::OverBudget { needed, .. } = refused.kind() else { panic!("{refused}") };
        assert_eq!(**needed, graph_core::Ledger { scratch: 0, ..held }, "{slots} slot(s)");
    }
}
