//! Two threads: one captures while the other allocates, runs, waits and frees on the same device.

use super::*;
use std::sync::Barrier;

#[test]
fn a_capture_is_not_disturbed_by_another_thread() {
    let (session, cuda, stream) = start!("a_capture_is_not_disturbed_by_another_thread");
    let buffer = cuda.alloc(8).unwrap();
    let (captures, done) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let own = cuda.stream().unwrap();
            captures.wait();
            for i in 0..50 {
                let x = tensor(&cuda, &own, &[i as f32; 4]);
                assert_eq!(x.to_vec(&own).unwrap(), [i as f32; 4]);
            }
            let graph =
                cuda.instantiate(captured(&own, || Cuda::zero(&own, &buffer, 0, 4)).unwrap()).unwrap();
            Cuda::launch(&graph, &own).unwrap();
            Cuda::synchronize(&own).unwrap();
            done.wait();
        });
        let recorded = captured(&stream, || {
            captures.wait();
            (0..100).try_for_each(|_| Cuda::zero(&stream, &buffer, 0, 8))?;
            done.wait();
            Ok(())
        });
        assert_eq!(Cuda::operations(&recorded.unwrap()).len(), 100);
    });
    drop((buffer, stream));
    assert_eq!(cuda.put_aside().0, 0);
    drop(cuda);
    nothing_left(&session);
}

#[test]
fn a_graph_moves_to_another_thread_and_runs_there() {
    let (session, cuda, stream) = start!("a_graph_moves_to_another_thread_and_runs_there");
    let t = tensor(&cuda, &stream, &[1.0, 2.0]);
    let graph = captured(&stream, || Cuda::zero(&stream, t.view().buffer(), 0, 4)).unwrap();
    let graph = cuda.instantiate(graph).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let graph = graph;
            Cuda::launch(&graph, &stream).unwrap();
        });
    });
    assert_eq!(t.to_vec(&stream).unwrap(), [0.0, 2.0]);
    drop((t, stream, cuda));
    nothing_left(&session);
}

/// `Send`, and (the cell) not `Sync`: two threads cannot launch one graph.
#[test]
fn a_graph_is_send() {
    fn send<T: Send>() {}
    send::<graph_cuda::Graph>();
}
