//! Every rule of capture, provoked: the code, the name, and what becomes of the capture.

use graph_core::{Backend, ErrorKind, Result, Tensor};
use graph_host::{Captured, Host, Stream, codes::*};

type T1 = Tensor<Host, f32, 1>;

struct Fixture {
    host: Host,
    /// Captures.
    a: Stream,
    b: Stream,
    t: T1,
}

fn capturing() -> Fixture {
    let host = Host::new();
    let (a, b) = (host.stream().unwrap(), host.stream().unwrap());
    let t = T1::from_slice(&host, &a, &[1.0], [1]).unwrap();
    Host::begin_capture(&a).unwrap();
    Fixture { host, a, b, t }
}

/// Number and name of a driver error.
fn code<T>(result: Result<T>) -> u32 {
    match result.err().expect("an error").kind() {
        ErrorKind::Driver { backend: "host", code, name, .. } => {
            assert_eq!(*name, graph_host::codes::name(*code));
            *code
        }
        other => panic!("not a driver error: {other}"),
    }
}

fn op(stream: &Stream, name: &'static str) -> Result<()> {
    stream.kernel(name, (), (), |(), ()| {})
}

fn names(captured: &Captured) -> Vec<String> {
    Host::operations(captured)
}

/// After the error: everything says 901 until the end, then all streams work.
fn assert_broken(f: &Fixture) {
    assert!(Host::is_capturing(&f.a));
    assert_eq!(code(op(&f.a, "later")), STREAM_CAPTURE_INVALIDATED);
    assert_eq!(code(Host::record_event(&f.a)), STREAM_CAPTURE_INVALIDATED);
    assert_eq!(code(Host::end_capture(&f.a)), STREAM_CAPTURE_INVALIDATED);
    assert_usable(f);
}

fn assert_usable(f: &Fixture) {
    for stream in [&f.a, &f.b] {
        assert!(!Host::is_capturing(stream));
        Host::synchronize(stream).unwrap();
        assert_eq!(f.t.to_vec(stream).unwrap(), [1.0]);
    }
    f.host.alloc(1).unwrap();
    Host::begin_capture(&f.a).unwrap();
    op(&f.a, "again").unwrap();
    assert_eq!(names(&Host::end_capture(&f.a).unwrap()), ["again"]);
}

#[test]
fn rule_900_nothing_that_waits_or_allocates() {
    type Provoke = fn(&Fixture) -> Result<()>;
    let calls: [(&str, Provoke); 10] = [
        ("synchronize", |f| Host::synchronize(&f.a)),
        ("download", |f| f.t.to_vec(&f.a).map(drop)),
        ("upload", |f| Host::upload(&f.a, &[0; 4], f.t.view().buffer(), 0)),
        ("alloc", |f| f.host.alloc(16).map(drop)),
        ("alloc_pinned", |f| f.host.alloc_pinned(16).map(drop)),
        // The thread that captures may not wait on another stream either.
        ("synchronize", |f| Host::synchronize(&f.b)),
        ("download", |f| f.t.to_vec(&f.b).map(drop)),
        ("upload", |f| Host::upload(&f.b, &[0; 4], f.t.view().buffer(), 0)),
        ("event synchronize", |f| Host::record_event(&f.b)?.synchronize()),
        ("event query", |f| Host::record_event(&f.b)?.query().map(drop)),
    ];
    for (call, provoke) in calls {
        let f = capturing();
        op(&f.a, "before").unwrap();
        let error = provoke(&f).unwrap_err();
        assert!(error.to_string().starts_with(&format!(
            "host: {call} failed: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900): not permitted while "
        )));
        assert_broken(&f);
    }
    let f = capturing();
    let graph = {
        let other = f.host.stream().unwrap();
        Host::begin_capture(&other).unwrap();
        f.host.instantiate(Host::end_capture(&other).unwrap()).unwrap()
    };
    assert_eq!(code(Host::launch(&graph, &f.a)), STREAM_CAPTURE_UNSUPPORTED);
    assert_broken(&f);
}

#[test]
fn rule_901_names_what_broke_the_capture() {
    let f = capturing();
    Host::synchronize(&f.a).unwrap_err();
    assert_eq!(
        Host::end_capture(&f.a).err().unwrap().to_string(),
        "host: end_capture failed: CUDA_ERROR_STREAM_CAPTURE_INVALIDATED (901): the capture was broken by \
         synchronize, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
    );
    assert_usable(&f);
}

#[test]
fn rule_902_two_captures_do_not_merge() {
    let f = capturing();
    Host::begin_capture(&f.b).unwrap();
    let event = Host::record_event(&f.b).unwrap();
    assert_eq!(code(Host::wait_event(&f.a, &event)), STREAM_CAPTURE_MERGE);
    assert_eq!(code(Host::end_capture(&f.b)), STREAM_CAPTURE_INVALIDATED);
    assert_broken(&f);
}

#[test]
fn rule_903_begin_and_end_match() {
    let f = capturing();
    assert_eq!(code(Host::begin_capture(&f.a)), STREAM_CAPTURE_UNMATCHED);
    assert_broken(&f);
    assert_eq!(code(Host::end_capture(&f.a)), STREAM_CAPTURE_UNMATCHED);
    assert_usable(&f);

    let f = capturing();
    Host::wait_event(&f.b, &Host::record_event(&f.a).unwrap()).unwrap();
    assert_eq!(code(Host::end_capture(&f.b)), STREAM_CAPTURE_UNMATCHED);
    Host::end_capture(&f.a).unwrap();
    assert_usable(&f);
}

#[test]
fn rule_904_forks_join() {
    let f = capturing();
    op(&f.a, "first").unwrap();
    Host::wait_event(&f.b, &Host::record_event(&f.a).unwrap()).unwrap();
    op(&f.b, "lost").unwrap();
    op(&f.a, "last").unwrap();
    let error = Host::end_capture(&f.a).err().unwrap();
    assert!(error.to_string().contains("UNJOINED (904): nothing waits for `lost` of stream"), "{error}");
    assert_usable(&f);
}

#[test]
fn rule_905_no_wait_for_the_outside() {
    let f = capturing();
    let outside = Host::record_event(&f.b).unwrap();
    assert_eq!(code(Host::wait_event(&f.a, &outside)), STREAM_CAPTURE_ISOLATION);
    assert_broken(&f);
}

#[test]
fn rule_907_events_of_a_capture_are_no_business_of_the_host() {
    for query in [true, false] {
        let f = capturing();
        let event = Host::record_event(&f.a).unwrap();
        let asked = if query { event.query().map(drop) } else { event.synchronize() };
        assert_eq!(code(asked), CAPTURED_EVENT);
        assert_broken(&f);
        assert_eq!(code(event.synchronize()), CAPTURED_EVENT);
        assert_eq!(code(Host::wait_event(&f.b, &event)), CAPTURED_EVENT, "the capture is over");
        assert_usable(&f);
    }
}

#[test]
fn rule_908_the_thread_that_began_ends() {
    let f = capturing();
    std::thread::scope(|s| {
        s.spawn(|| assert_eq!(code(Host::end_capture(&f.a)), STREAM_CAPTURE_WRONG_THREAD));
    });
    op(&f.a, "still capturing").unwrap();
    assert_eq!(names(&Host::end_capture(&f.a).unwrap()), ["still capturing"]);
    assert_usable(&f);
}

#[test]
fn another_thread_may_wait_and_allocate_on_its_own_stream() {
    let f = capturing();
    std::thread::scope(|s| {
        s.spawn(|| {
            let mine = T1::from_slice(&f.host, &f.b, &[5.0], [1]).unwrap();
            Host::synchronize(&f.b).unwrap();
            assert_eq!(mine.to_vec(&f.b).unwrap(), [5.0]);
        });
    });
    op(&f.a, "undisturbed").unwrap();
    assert_eq!(names(&Host::end_capture(&f.a).unwrap()), ["undisturbed"]);

    let f = capturing();
    std::thread::scope(|s| {
        s.spawn(|| assert_eq!(code(Host::synchronize(&f.a)), STREAM_CAPTURE_UNSUPPORTED));
    });
    assert_broken(&f);
}

#[test]
fn fork_and_join_record_into_one_graph() {
    let f = capturing();
    Host::end_capture(&f.a).unwrap();
    let (x, y) = (T1::alloc(&f.host, [1]).unwrap(), T1::alloc(&f.host, [1]).unwrap());
    Host::begin_capture(&f.a).unwrap();
    let set =
        |s: &Stream, name, t: &T1, v: f32| s.kernel(name, (), (t.view_mut(),), move |(), (t,)| t[0] = v);
    set(&f.a, "first", &x, 1.0).unwrap();
    Host::wait_event(&f.b, &Host::record_event(&f.a).unwrap()).unwrap();
    assert!(Host::is_capturing(&f.b), "a stream that waits for a capture joins it");
    set(&f.b, "side", &y, 2.0).unwrap();
    set(&f.a, "main", &x, 3.0).unwrap();
    Host::wait_event(&f.a, &Host::record_event(&f.b).unwrap()).unwrap();
    f.a.kernel("join", (y.view(),), (x.view_mut(),), |(y,), (x,)| x[0] += y[0]).unwrap();
    let captured = Host::end_capture(&f.a).unwrap();
    assert!(!Host::is_capturing(&f.b));
    assert_eq!(names(&captured), ["first", "side", "main", "join"]);
    let graph = f.host.instantiate(captured).unwrap();
    Host::launch(&graph, &f.b).unwrap();
    assert_eq!(x.to_vec(&f.a).unwrap(), [5.0]);
}

#[test]
fn invariant_14_destruction_waits_for_the_end_of_captures() {
    let f = capturing();
    op(&f.a, "recorded").unwrap();
    let graph = {
        let f2 = f.host.stream().unwrap();
        Host::begin_capture(&f2).unwrap();
        let t = f.t.clone();
        f2.kernel("uses t", (t.view(),), (), |(_,), ()| {}).unwrap();
        f.host.instantiate(Host::end_capture(&f2).unwrap()).unwrap()
    };
    let Fixture { host, a, b, t } = f;
    let before = host.live();
    assert_eq!((before.buffers, before.graphs, before.put_aside), (1, 1, 0));
    drop((graph, t));
    let during = host.live();
    assert_eq!(
        (during.buffers, during.graphs, during.put_aside),
        (1, 1, 1),
        "the graph waits, with its memory"
    );
    Host::begin_capture(&b).unwrap();
    Host::end_capture(&a).unwrap();
    assert_eq!(host.live().put_aside, 1, "another capture still runs");
    Host::end_capture(&b).unwrap();
    let after = host.live();
    assert_eq!((after.buffers, after.graphs, after.put_aside, after.put_aside_ever), (0, 0, 0, 1));
}

#[test]
fn a_capture_ends_with_its_stream() {
    let f = capturing();
    f.a.kernel("holds t", (f.t.view(),), (), |(_,), ()| {}).unwrap();
    Host::wait_event(&f.b, &Host::record_event(&f.a).unwrap()).unwrap();
    let Fixture { host, a, b, t } = f;
    drop((a, t));
    assert!(!Host::is_capturing(&b));
    assert_eq!((host.live().buffers, host.live().put_aside), (0, 0));
    host.alloc(1).unwrap();
}
