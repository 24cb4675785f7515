//! Thousands of random schedules of steps: no page leaks, none is owned twice, and a step that did not happen leaves
//! nothing behind.

use std::collections::BTreeMap;

use graph_core::{
    AdmitOutcome, Dims, ErrorKind, Label, Options, RequestId, Resource, Row, StepContext, Steps,
};
use graph_host::Host;
use graph_resources::{AttentionPlan, KvOptions, PADDING_PAGE, PageOwner, PagedKv, Positions, Sampler};
use proptest::{prelude::*, strategy::ValueTree};

const LABELS: [Label; 2] = [Label::MAIN, Label("uncond")];
const REQUESTS: u64 = 6;

/// What a schedule does next.
#[derive(Clone, Debug)]
enum Do {
    Ingest(u64),
    Remove(u64),
    /// Tokens per stream; whether the step is committed, and on which slot.
    Step {
        tokens: Vec<(u64, usize, usize)>,
        end: End,
        slot: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    DropDeclared,
    DropAdmitted,
    DropPlanned,
    Commit,
    /// A request is removed while the step is open, then it is committed or dropped.
    RemoveInside(bool),
}

fn ops() -> impl Strategy<Value = Do> {
    let stream = (0..REQUESTS, 0..LABELS.len(), prop_oneof![4 => 1_usize..3, 1 => 0_usize..12]);
    let end = prop_oneof![
        1 => Just(End::DropDeclared),
        2 => Just(End::DropAdmitted),
        2 => Just(End::DropPlanned),
        8 => Just(End::Commit),
        1 => any::<bool>().prop_map(End::RemoveInside),
    ];
    prop_oneof![
        3 => (0..REQUESTS).prop_map(Do::Ingest),
        1 => (0..REQUESTS).prop_map(Do::Remove),
        8 => (prop::collection::vec(stream, 1..5), end, 0_usize..2)
            .prop_map(|(tokens, end, slot)| Do::Step { tokens, end, slot }),
    ]
}

/// The committed tokens of each stream of each request.
type Model = BTreeMap<u64, BTreeMap<Label, usize>>;

/// What came of a step.
enum Came {
    ToNothing {
        refused: bool,
    },
    /// To nothing, but its first request was removed.
    Removed,
    True,
}

struct World {
    steps: Steps<Host>,
    options: KvOptions,
    model: Model,
    refused: usize,
    committed: usize,
}

impl World {
    fn new(options: KvOptions) -> Self {
        let resources: Vec<Box<dyn Resource<Host>>> = vec![
            Box::new(AttentionPlan::new(&options)),
            Box::new(PagedKv::new(options).unwrap()),
            Box::new(Positions::new()),
            Box::new(Sampler::new(REQUESTS as usize).unwrap()),
        ];
        let steps = Steps::new("node", resources).unwrap();
        World { steps, options, model: Model::new(), refused: 0, committed: 0 }
    }

    fn kv(&self) -> &PagedKv<Host> {
        self.steps.get().unwrap()
    }

    /// Everything that can be seen of the page table.
    fn snapshot(&self) -> (usize, Vec<Option<PageOwner>>) {
        (self.kv().counts().free, (0..self.options.pages).map(|page| self.kv().owner(page)).collect())
    }

    fn check(&self) {
        let kv = self.kv();
        kv.assert_consistent();
        let positions = self.steps.get::<Positions>().unwrap();
        let mut used = 0;
        for (request, streams) in &self.model {
            for (label, len) in streams {
                assert_eq!(kv.stream_len(RequestId(*request), *label), *len);
                assert_eq!(positions.stream_len(RequestId(*request), *label), *len);
                used += len.div_ceil(self.options.page_size);
            }
        }
        assert_eq!(kv.counts().total - kv.counts().free, used);
        assert!(kv.counts().peak >= used);
    }

    fn run(&mut self, op: &Do) {
        match op {
            Do::Ingest(request) => {
                let known = self.model.contains_key(request);
                let ingested = self.steps.ingest(RequestId(*request), &Options::default());
                assert_eq!(ingested.is_err(), known);
                self.model.entry(*request).or_default();
            }
            Do::Remove(request) => {
                self.steps.remove(RequestId(*request));
                self.model.remove(request);
            }
            Do::Step { tokens, end, slot } => self.step(tokens, *end, *slot),
        }
        self.check();
    }

    fn step(&mut self, tokens: &[(u64, usize, usize)], end: End, slot: usize) {
        let before = self.snapshot();
        match self.try_step(tokens, end, slot, before.0) {
            Came::ToNothing { refused } => {
                self.refused += usize::from(refused);
                assert_eq!(before, self.snapshot(), "a step that did not happen left something behind");
            }
            Came::Removed => _ = self.model.remove(&tokens[0].0),
            Came::True => {
                self.committed += 1;
                for (request, label, n) in tokens {
                    if let Some(streams) = self.model.get_mut(request) {
                        *streams.entry(LABELS[*label]).or_default() += n;
                    }
                }
            }
        }
    }

    fn try_step(&mut self, tokens: &[(u64, usize, usize)], end: End, slot: usize, free: usize) -> Came {
        let unknown = tokens.iter().any(|(request, ..)| !self.model.contains_key(request));
        let mut streams: Vec<_> = tokens.iter().map(|(request, label, _)| (*request, *label)).collect();
        streams.sort_unstable();
        let twice = streams.windows(2).any(|w| w[0] == w[1]);
        let total = tokens.iter().map(|t| t.2).sum::<usize>();
        let declared = self.steps.declare(|step| {
            for resource in ["positions", "kv", "attention"] {
                let mut part = step.resource(resource);
                for (request, label, n) in tokens {
                    part.segment(RequestId(*request), LABELS[*label], *n);
                }
            }
            Ok(())
        });
        let declared = match declared {
            Ok(step) => step,
            Err(error) => {
                assert!(unknown && matches!(error.kind(), ErrorKind::RequestUnknown { .. }), "{error}");
                return Came::ToNothing { refused: false };
            }
        };
        assert!(!unknown);
        if end == End::DropDeclared {
            return Came::ToNothing { refused: false };
        }
        let needs = |page_size: usize| -> usize {
            let pages = |(request, label, n): &(u64, usize, usize)| {
                let has = self.model[request].get(&LABELS[*label]).copied().unwrap_or(0);
                (has + n).div_ceil(page_size) - has.div_ceil(page_size)
            };
            tokens.iter().map(pages).sum()
        };
        let needed = needs(self.options.page_size);
        let mut admitted = match declared.admit() {
            Ok(step) => step,
            Err(error) => {
                match error.kind() {
                    ErrorKind::Refused {
                        outcome: AdmitOutcome::PagesShort { pages, request, .. },
                        resource,
                        ..
                    } => {
                        assert_eq!(*resource, "kv");
                        assert_eq!(*pages, needed - free, "as many as are missing");
                        assert!(tokens.iter().any(|t| t.0 == request.0));
                    }
                    ErrorKind::Refused { outcome: AdmitOutcome::TooLong { tokens, most, .. }, .. } => {
                        assert!(*most == self.options.max_tokens && tokens > most);
                    }
                    ErrorKind::SegmentTwice { .. } => assert!(twice),
                    _ => panic!("{error}"),
                }
                return Came::ToNothing { refused: true };
            }
        };
        assert!(!twice && needed <= free);
        if let End::RemoveInside(commit) = end {
            let gone = tokens[0].0;
            admitted.inside().remove(RequestId(gone));
            if !commit {
                return Came::Removed;
            }
            self.model.remove(&gone);
        }
        if end == End::DropAdmitted {
            return Came::ToNothing { refused: false };
        }
        let padded = Dims { bs: tokens.len() + 1, tokens: total + 1 };
        let rows: Vec<Row> = tokens.iter().map(|t| Row::Request(RequestId(t.0))).collect();
        let cx = StepContext { slot, rows: &rows, real_bs: tokens.len(), padded, captured: false };
        let mut planned = admitted.plan(&cx).unwrap();
        check_plan(planned.inside(), &self.options, &self.model, tokens, slot);
        if end == End::DropPlanned {
            return Came::ToNothing { refused: false };
        }
        planned.commit(&[]);
        Came::True
    }
}

/// Every planned input of a step against the model.
fn check_plan(
    steps: &Steps<Host>,
    options: &KvOptions,
    model: &Model,
    tokens: &[(u64, usize, usize)],
    slot: usize,
) {
    let of = |resource: &dyn Resource<Host>, name: &str| -> Vec<i32> {
        let i = resource.inputs().iter().position(|io| io.name == name).unwrap();
        resource.planned(slot, i).values::<i32>().unwrap().to_vec()
    };
    let kv = steps.get::<PagedKv<Host>>().unwrap();
    let attention = steps.get::<AttentionPlan<Host>>().unwrap();
    let (rows, indptr) = (of(kv, "slot_mapping"), of(attention, "indptr"));
    let (page_indptr, pages) = (of(attention, "page_indptr"), of(attention, "page_indices"));
    let (last, positions) = (of(attention, "last_page_len"), of(attention, "positions"));
    assert_eq!(of(steps.get::<Positions>().unwrap(), "positions").len(), positions.len());
    assert_eq!((indptr.len(), last.len()), (tokens.len() + 1, tokens.len()));
    for (r, (request, label, n)) in tokens.iter().enumerate() {
        let queries = indptr[r] as usize..indptr[r + 1] as usize;
        assert_eq!(queries.len(), *n);
        let mine = &pages[page_indptr[r] as usize..page_indptr[r + 1] as usize];
        let Some(streams) = model.get(request) else {
            // Removed while the step was open: its tokens go to the padding page.
            assert!(mine.is_empty() && rows[queries].iter().all(|row| (*row as usize) < options.page_size));
            continue;
        };
        let has = streams.get(&LABELS[*label]).copied().unwrap_or(0);
        let context = (mine.len() * options.page_size + last[r] as usize).saturating_sub(options.page_size);
        assert_eq!(context, has + n);
        for (i, query) in queries.enumerate() {
            let token = has + i;
            assert_eq!(positions[query] as usize, token);
            let (page, offset) = (mine[token / options.page_size], token % options.page_size);
            assert_eq!(rows[query] as usize, page as usize * options.page_size + offset);
            assert_ne!(page as usize, PADDING_PAGE);
            let owner = PageOwner::Stream(RequestId(*request), LABELS[*label]);
            assert_eq!(kv.owner(page as usize), Some(owner));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_schedule(
        pages in 2_usize..14,
        page_size in prop_oneof![Just(1_usize), Just(4), Just(5)],
        cap in 1_usize..30,
        ops in prop::collection::vec(ops(), 1..50),
    ) {
        let options = KvOptions::new(pages, page_size);
        let mut world = World::new(options.max_tokens(cap.min(options.max_tokens)));
        for op in &ops {
            world.run(op);
        }
        for request in 0..REQUESTS {
            world.run(&Do::Remove(request));
        }
        assert_eq!(world.kv().counts().free, world.kv().counts().total);
    }
}

#[test]
fn schedules_do_everything() {
    // The strategy above is of use only if steps are refused and committed, both often.
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut refused, mut committed) = (0, 0);
    for _ in 0..200 {
        let ops = prop::collection::vec(ops(), 50).new_tree(&mut runner).unwrap().current();
        let mut world = World::new(KvOptions::new(6, 4));
        ops.iter().for_each(|op| world.run(op));
        refused += world.refused;
        committed += world.committed;
    }
    assert!(refused > 500 && committed > 500, "{refused} refused, {committed} committed");
}

#[test]
fn a_rollback_undoes_the_taking_exactly() {
    let mut world = World::new(KvOptions::new(10, 2));
    for request in 0..3 {
        world.run(&Do::Ingest(request));
    }
    let commit =
        |tokens: &[(u64, usize, usize)]| Do::Step { tokens: tokens.to_vec(), end: End::Commit, slot: 0 };
    world.run(&commit(&[(0, 0, 1), (1, 0, 3), (2, 0, 2)]));
    world.run(&Do::Remove(1)); // a hole in the middle
    world.run(&Do::Ingest(1));
    let mut taken = Vec::new();
    for _ in 0..2 {
        let step = world.steps.declare(|step| {
            let mut kv = step.resource("kv");
            (0..3).for_each(|r| _ = kv.segment(RequestId(r), Label::MAIN, 3));
            Ok(())
        });
        let mut step = step.unwrap().admit().unwrap();
        let kv = step.inside().get::<PagedKv<Host>>().unwrap();
        taken.push([0, 1, 2].map(|r| kv.stream(RequestId(r), Label::MAIN).unwrap().pages.to_vec()));
        drop(step);
        world.check();
    }
    assert_eq!(taken[0], taken[1], "the free list is as it was");
}
