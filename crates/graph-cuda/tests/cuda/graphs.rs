//! Graphs: what they keep, whose they are, what a launch costs.

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
fn the_drivers_handle_of_a_graph_launches_it() {
    let (session, cuda, stream) = start!("the_drivers_handle_of_a_graph_launches_it");
    let (x, y) = (tensor(&cuda, &stream, &[2.0, 3.0]), tensor(&cuda, &stream, &[0.0; 2]));
    let graph =
        cuda.instantiate(captured(&stream, || y.view_mut().copy_from(&stream, x.view())).unwrap()).unwrap();
    // SAFETY: the graph outlives its launch, which nothing runs beside.
    let result = unsafe {
        stream.raw("launch", |s| {
            let result = graph_cuda::cudarc::driver::sys::cuGraphLaunch(graph.cu_graph_exec(), s.cu_stream());
            Ok::<_, graph_core::Error>(result as u32)
        })
    };
    assert_eq!(result.unwrap(), 0);
    assert_eq!(y.to_vec(&stream).unwrap(), [2.0, 3.0]);
    drop((graph, x, y, stream, cuda));
    nothing_left(&session);
}
