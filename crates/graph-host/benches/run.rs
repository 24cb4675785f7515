//! What `Runner::run` adds to the launch of the same operations: choice, lease, checks, staging, padding, outputs.
//!
//! `cargo bench -p graph-host --bench run`

use std::{hint::black_box, sync::Arc, time::Instant};

use graph_core::{Backend, Cx, Engine, LoadCx, PiecewiseRegion, Region, Registry, Result, Submodule};
use graph_host::Host;

const RUNS: u32 = 200_000;

struct NoWeights;
impl Submodule<Host> for NoWeights {
    fn load(_: &LoadCx<'_, Host>) -> Result<Self> {
        Ok(NoWeights)
    }
}

/// Three host-side inputs, one output, no body: what is left is the framework's own work, head and tail.
#[derive(PiecewiseRegion)]
#[region(node = "bench", name = "three", batched(seq_len = 1), batch_sizes = [1, 4, 16], backend = Host)]
#[input(token: i32 [bs], host, pad = zero)]
#[input(position: i32 [bs], host, pad = repeat_last)]
#[input(row: i32 [bs], host, pad = value(-1))]
#[output(y: f32 [bs])]
struct Three;

impl Region for Three {
    type Submodule = NoWeights;
    fn instances(_: &Arc<NoWeights>) -> Vec<Arc<Self>> {
        vec![Arc::new(Three)]
    }
    fn forward(&self, _: &mut Cx<'_, Host>, _: &ThreeInputs<'_>, _: &ThreeOutputs<'_>) -> Result<()> {
        Ok(())
    }
}

/// The best of ten rounds, in ns per call.
fn best(mut call: impl FnMut()) -> f64 {
    let round = |call: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..RUNS).for_each(|_| call());
        start.elapsed().as_nanos() as f64 / f64::from(RUNS)
    };
    (0..10).map(|_| round(&mut call)).fold(f64::MAX, f64::min)
}

/// The head and the tail of such a graph, launched by themselves: the baseline.
fn head_and_tail(bytes: usize) -> f64 {
    let host = Host::new();
    let stream = host.stream().unwrap();
    let (pinned, block) = (host.alloc_pinned(bytes + 16).unwrap(), host.alloc(bytes).unwrap());
    Host::begin_capture(&stream).unwrap();
    Host::upload_block(&stream, &pinned, &block, bytes).unwrap();
    Host::signal(&stream, (&block, 12), (&pinned, bytes)).unwrap();
    let graph = host.instantiate(Host::end_capture(&stream).unwrap()).unwrap();
    best(|| Host::launch(black_box(&graph), &stream).unwrap())
}

fn main() {
    let registry = Registry::from_entries(Registry::collect().unwrap().regions().to_vec(), vec![], vec![]);
    let mut engine = Engine::builder(Host::new()).build(&registry.unwrap()).unwrap();
    let mut three = engine.runners().take_one::<Three>().unwrap();
    // Header of four words, then three inputs of sixteen words.
    let bare = head_and_tail(16 + 3 * 64);
    println!("launch of head and tail alone: {bare:6.1} ns");
    let (values, lens) = ([7; 16], [1; 16]);
    for n in [16, 15, 1] {
        let (v, lens) = (&values[..n], &lens[..n]);
        let ns = best(|| {
            let args = ThreeArgs { token: black_box(v), position: v, row: v };
            let _ = black_box(three.run(args, lens).unwrap());
        });
        println!("run, {n:2} of 16 rows: {ns:6.1} ns, {:6.1} ns on top", ns - bare);
    }
}
