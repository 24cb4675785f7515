//! The virtual clock: what overlaps on streams that run side by side.

use graph_core::{Backend, Result};
use graph_host::{Host, Interval, Label, Stream};

fn op(stream: &Stream, name: &'static str, cost: u64) -> Result<()> {
    stream.kernel(Label::new(name).cost(cost), (), (), |(), ()| {})
}

fn named<'l>(log: &'l [Interval], name: &str) -> &'l Interval {
    log.iter().find(|i| i.name == name).expect(name)
}

#[test]
fn streams_overlap_unless_an_event_or_the_host_orders_them() {
    let host = Host::new();
    let (a, b) = (host.stream().unwrap(), host.stream().unwrap());
    op(&a, "not logged", 100).unwrap();
    host.log_timeline(true);
    op(&a, "replay", 10).unwrap();
    op(&b, "plan", 4).unwrap();
    Host::wait_event(&b, &Host::record_event(&a).unwrap()).unwrap();
    op(&b, "next", 1).unwrap();
    op(&a, "alone", 1).unwrap();
    Host::synchronize(&b).unwrap();
    op(&a, "after", 1).unwrap();
    let log = host.timeline();
    assert!(named(&log, "replay").overlaps(named(&log, "plan")));
    assert!(!named(&log, "replay").overlaps(named(&log, "next")), "an event orders them");
    let of = |name| (named(&log, name).stream, named(&log, name).start, named(&log, name).end);
    assert_eq!(of("plan"), (b.id(), 0, 4));
    assert_eq!(of("next"), (b.id(), 10, 11));
    assert_eq!(of("alone"), (a.id(), 10, 11));
    assert_eq!(of("after"), (a.id(), 11, 12));
    assert!(host.timeline().is_empty(), "taken");
    host.log_timeline(false);
    op(&a, "off again", 1).unwrap();
    assert!(host.timeline().is_empty());
}

#[test]
fn the_host_waits_by_synchronising_only() {
    let host = Host::new();
    let (a, b) = (host.stream().unwrap(), host.stream().unwrap());
    host.log_timeline(true);
    op(&a, "long", 9).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| op(&b, "another thread", 1).unwrap());
    });
    Host::synchronize(&a).unwrap();
    op(&b, "this thread", 1).unwrap();
    let log = host.timeline();
    assert_eq!(named(&log, "another thread").start, 0);
    assert_eq!(named(&log, "this thread").start, 9);
}

#[test]
fn a_graph_keeps_its_forks() {
    let host = Host::new();
    let (a, b, c) = (host.stream().unwrap(), host.stream().unwrap(), host.stream().unwrap());
    Host::begin_capture(&a).unwrap();
    op(&a, "first", 2).unwrap();
    Host::wait_event(&b, &Host::record_event(&a).unwrap()).unwrap();
    op(&b, "side", 5).unwrap();
    op(&a, "main", 3).unwrap();
    Host::wait_event(&a, &Host::record_event(&b).unwrap()).unwrap();
    op(&a, "join", 1).unwrap();
    let graph = host.instantiate(Host::end_capture(&a).unwrap()).unwrap();
    host.log_timeline(true);
    op(&c, "before", 4).unwrap();
    Host::launch(&graph, &c).unwrap();
    op(&c, "behind", 1).unwrap();
    let log = host.timeline();
    let of = |name| (named(&log, name).stream, named(&log, name).start, named(&log, name).end);
    assert_eq!(of("first"), (c.id(), 4, 6));
    assert_eq!(of("side"), (b.id(), 6, 11));
    assert_eq!(of("main"), (c.id(), 6, 9));
    assert_eq!(of("join"), (c.id(), 11, 12));
    assert_eq!(of("behind"), (c.id(), 12, 13));
}
