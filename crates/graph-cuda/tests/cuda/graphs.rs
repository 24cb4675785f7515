//! Graphs: what they keep, whose they are, what a launch costs; and graph-core on top.

use super::*;

#[test]
fn invariant_03_a_graph_owns_what_it_recorded() {
    let (session, cuda, stream) = start!("invariant_03_a_graph_owns_what_it_recorded");
    let total = tensor(&cuda, &stream, &[0.0; 2]);
    let before = session.live().device_allocations;
    let graph = {
        let x = tensor(&cuda, &stream, &[2.0, 3.0]);
        cuda.instantiate(captured(&stream, || total.view_mut().copy_from(&stream, x.view())).unwrap())
            .unwrap()
    };
    assert_eq!(session.live().device_allocations, before + 1, "the graph keeps the dropped tensor");
    Cuda::launch(&graph, &stream).unwrap();
    assert_eq!(total.to_vec(&stream).unwrap(), [2.0, 3.0]);
    drop(graph);
    assert_eq!(session.live().device_allocations, before);
}

#[test]
fn a_graph_is_destroyed_after_its_last_launch_is_over() {
    let (session, cuda, stream) = start!("a_graph_is_destroyed_after_its_last_launch_is_over");
    let (pinned, block) = (cuda.alloc_pinned(8).unwrap(), cuda.alloc(8).unwrap());
    let record = || {
        Cuda::upload_block(&stream, &pinned, &block, 8)?;
        Cuda::signal(&stream, (&block, 0), (&pinned, 4))
    };
    let graph = cuda.instantiate(captured(&stream, record).unwrap()).unwrap();
    Cuda::launch(&graph, &stream).unwrap();
    drop((pinned, block, graph)); // in flight: it runs when something waits for it
    assert_eq!((session.live().pinned_allocations, session.live().execs), (0, 0));
    Cuda::synchronize(&stream).unwrap();
    drop((stream, cuda));
    nothing_left(&session);
}

#[test]
fn a_failed_instantiation_leaves_no_graph() {
    let (session, cuda, stream) = start!("a_failed_instantiation_leaves_no_graph");
    let recorded = captured(&stream, || Ok(())).unwrap();
    session.fail_once("cuGraphInstantiateWithFlags", 1, 2);
    assert_eq!(code(cuda.instantiate(recorded)), 2);
    assert_eq!((session.live().graphs, session.live().execs), (0, 0));
    let graph = cuda.instantiate(captured(&stream, || Ok(())).unwrap()).unwrap();
    assert_eq!((session.live().graphs, session.live().execs), (0, 1));
    drop((graph, stream, cuda));
    nothing_left(&session);
}

#[test]
fn captures_and_graphs_of_another_device_are_refused() {
    let (_session, cuda, stream) = start!("captures_and_graphs_of_another_device_are_refused");
    let second = support::open().unwrap();
    let stream2 = second.stream().unwrap();
    let recorded = captured(&stream, || Ok(())).unwrap();
    assert!(text(second.instantiate(recorded)).contains("the capture is of another device"));
    let graph = cuda.instantiate(captured(&stream, || Ok(())).unwrap()).unwrap();
    assert!(text(Cuda::launch(&graph, &stream2)).contains("the graph is of another device"));
}

#[test]
fn a_launch_finds_its_context_again() {
    let (session, cuda, stream) = start!("a_launch_finds_its_context_again");
    let graph = cuda.instantiate(captured(&stream, || Ok(())).unwrap()).unwrap();
    Cuda::launch(&graph, &stream).unwrap();
    // SAFETY: null is a context that can be current: none.
    let code = unsafe { graph_cuda::cudarc::driver::sys::cuCtxSetCurrent(std::ptr::null_mut()) };
    assert_eq!(code as u32, 0);
    Cuda::launch(&graph, &stream).unwrap();
    let calls = session.total_calls();
    Cuda::launch(&graph, &stream).unwrap();
    assert_eq!(session.total_calls() - calls, 1);
}

#[test]
fn a_region_replays_with_padding_and_falls_back_to_eager() {
    let Some(session) = support::session("a_region_replays_with_padding_and_falls_back_to_eager") else {
        return;
    };
    let (engine, mut runner) = toy::build(support::open().unwrap()).unwrap();
    let stats = &engine.stats()[0];
    assert!(stats.failures.is_empty(), "{:?}", stats.failures);
    assert_eq!(stats.buckets.len(), 6);
    assert_eq!(stats.buckets[0].operations, 4, "upload_block, pad_rows, mix, signal");
    for rows in [8, 1, 3, 5, 2, 8, 7] {
        assert_eq!(toy::run(&engine, &mut runner, rows).unwrap(), (true, toy::expected(rows)), "{rows} rows");
    }
    assert_eq!(toy::run(&engine, &mut runner, 9).unwrap(), (false, toy::expected(9)));
    drop((runner, engine));
    nothing_left(&session);
}
