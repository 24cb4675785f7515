//! Two slots: the next step is planned and staged while one runs. With one slot it never is.

use graph_core::{
    AdmitOutcome, Backend, CaptureOptions, Dependencies, LoadCx, NodeCall, Options, RequestId, Resource,
    ResourceStep, Result, Source, StepContext,
};
use graph_host::{Host, Interval, Label, timeline::HOST};

use crate::toy::{Built, Toy, build_with, sum_of};

/// A resource whose planning shows in the timeline.
struct Timed(Host);

impl Resource<Host> for Timed {
    fn name(&self) -> &'static str {
        "timed"
    }
    fn ingest(&mut self, _: RequestId, _: &Options) -> Result<()> {
        Ok(())
    }
    fn remove(&mut self, _: RequestId) {}
    fn admit(&mut self, _: &ResourceStep<'_>) -> Result<AdmitOutcome> {
        Ok(AdmitOutcome::Admitted)
    }
    fn plan(&mut self, _: &ResourceStep<'_>, _: &StepContext<'_>, _: Dependencies<'_, Host>) -> Result<()> {
        self.0.host_work(Label::new("plan").cost(2))
    }
    fn planned(&self, _: usize, _: usize) -> Source<'_, Host> {
        Source::slice::<i32>(&[])
    }
    fn commit(&mut self, _: &ResourceStep<'_>) {}
    fn rollback(&mut self, _: &ResourceStep<'_>) {}
}

fn timed(cx: &LoadCx<'_, Host>, mut resources: Vec<Box<dyn Resource<Host>>>) -> Vec<Box<dyn Resource<Host>>> {
    resources.push(Box::new(Timed(cx.device.clone())));
    resources
}

fn built(slots: Option<usize>) -> Built {
    let toy = Toy { adapt: timed, extra: &["timed"], ..Toy::default() };
    let mut built = build_with(toy, CaptureOptions { slots, ..CaptureOptions::default() }).unwrap();
    (1..=2).for_each(|r| built.node().ingest(RequestId(r), &Options::default()).unwrap());
    built
}

/// Issues steps without ever reading a result; gives the intervals of plans and of graphs.
fn run(built: &mut Built, steps: usize) -> (Vec<Interval>, Vec<Interval>) {
    built.host.log_timeline(true);
    for i in 0..steps {
        let (tokens, requests) = (&[i as i32, 3][..], [RequestId(1), RequestId(2)]);
        let inputs = [("token", Source::host(&tokens))];
        let call = NodeCall { requests: &requests, seq_lens: &[1, 1], inputs: &inputs, slot: i };
        drop(built.node().run("decode", &call).unwrap());
    }
    let log = built.host.timeline();
    built.host.log_timeline(false);
    let (plans, device): (Vec<_>, Vec<_>) = log.into_iter().partition(|i| i.stream == HOST);
    // A graph is from its block's upload to its signal.
    let starts = device.iter().filter(|i| i.name == "upload_block");
    let ends = device.iter().filter(|i| i.name == "signal");
    let graph = |(a, b): (&Interval, &Interval)| Interval { name: "graph", end: b.end, ..a.clone() };
    let graphs = starts.zip(ends).map(graph).collect();
    (plans, graphs)
}

#[test]
fn with_two_slots_the_next_plan_overlaps_the_replay() {
    let mut built = built(None);
    assert_eq!(built.node().slots(), 2, "kv, attention and sampler can plan ahead");
    let (plans, graphs) = run(&mut built, 8);
    assert_eq!((plans.len(), graphs.len()), (8, 8));
    for n in 0..7 {
        assert!(
            plans[n + 1].overlaps(&graphs[n]),
            "plan {} {:?}, graph {n} {:?}",
            n + 1,
            plans[n + 1],
            graphs[n]
        );
    }
    for n in 0..6 {
        assert!(plans[n + 2].start >= graphs[n].end, "a slot is not planned while its own graph runs");
    }
    for n in 0..7 {
        assert!(graphs[n + 1].start == graphs[n].end, "the device never idles");
    }
    check_sums(&mut built);
}

#[test]
fn with_one_slot_it_never_does() {
    let mut built = built(Some(1));
    assert_eq!(built.node().slots(), 1);
    let (plans, graphs) = run(&mut built, 8);
    for (plan, graph) in plans.iter().flat_map(|p| graphs.iter().map(move |g| (p, g))) {
        assert!(!plan.overlaps(graph), "{plan:?}, {graph:?}");
    }
    check_sums(&mut built);
}

/// What the eight steps have written is what a ninth one reads.
fn check_sums(built: &mut Built) {
    let stream: Vec<i32> = (0..8).chain([1]).collect();
    assert_eq!(built.step("decode", None, 0, &[(1, &[1])]).unwrap().sums, [sum_of(&stream)]);
    Host::synchronize(&built.stream).unwrap();
}
