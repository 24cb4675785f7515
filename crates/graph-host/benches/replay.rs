//! What a replay costs on this backend, by the number of empty operations. `cargo bench -p graph-host`

use std::{hint::black_box, time::Instant};

use graph_core::{Backend, Tensor};
use graph_host::Host;

const RUNS: u32 = 200_000;

/// The best of ten rounds, in ns per call.
fn best(mut call: impl FnMut()) -> f64 {
    let round = |call: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..RUNS).for_each(|_| call());
        start.elapsed().as_nanos() as f64 / f64::from(RUNS)
    };
    (0..10).map(|_| round(&mut call)).fold(f64::MAX, f64::min)
}

fn main() {
    let host = Host::new();
    let stream = host.stream().unwrap();
    let t = Tensor::<Host, f32, 1>::alloc(&host, [4]).unwrap();
    for operations in [0, 1, 2, 8, 64] {
        Host::begin_capture(&stream).unwrap();
        for _ in 0..operations {
            stream.kernel("empty", (t.view(),), (), |(x,), ()| _ = black_box(x)).unwrap();
        }
        let graph = host.instantiate(Host::end_capture(&stream).unwrap()).unwrap();
        let ns = best(|| Host::launch(black_box(&graph), &stream).unwrap());
        println!("launch of {operations:2} empty operation(s): {ns:6.1} ns");
    }
    let ns = best(|| stream.kernel("empty", (t.view(),), (), |(x,), ()| _ = black_box(x)).unwrap());
    println!("one operation at once: {ns:6.1} ns");
}
