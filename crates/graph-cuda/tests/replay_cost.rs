//! Invariant 11: a replay of host-side inputs is one driver call and allocates nothing on the heap, for any number of
//! inputs. A program of its own: it counts every allocation.

mod support;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use graph_core::{
    Args, Cx, Elem, Engine, HandWritten, HandWrittenTable, HostTensor, IoSchema, Location, NamedArgs, On,
    PiecewiseBatchedConfig, RegionEntry, Registry, Runner, Schema, Shape, Source, Statics,
};
use graph_cuda::Cuda;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: it is the system's allocator; the counter has no destructor and allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

macro_rules! region {
    ($schema:ident, $table:ident, $entry:ident, $name:literal, [$($input:literal),*]) => {
        static $schema: Schema = Schema::new(
            "toy",
            $name,
            "batched(seq_len = 1)",
            &[$(IoSchema::host($input, Elem::I32, 1, "[bs]")),*],
            &[IoSchema::device("y", Elem::I32, 1, "[bs]")],
        );
        static $table: HandWrittenTable<Cuda> = HandWrittenTable(|_| {
            Ok(vec![HandWritten::new(
                &$schema,
                PiecewiseBatchedConfig::new(1).capture_batch_sizes([4]),
                |shape: &Shape, statics: &mut Statics| {
                    $(statics.input($input, [shape.bs]);)*
                    statics.output("y", [shape.bs]);
                },
                |cx: &mut Cx<'_, Cuda>, call| {
                    let y = call.outputs.get::<i32, 1>("y")?;
                    y.copy_from(cx.stream(), call.inputs.get("a")?)
                },
            )])
        });
        static $entry: RegionEntry = RegionEntry {
            schema: &$schema,
            at: Location { krate: "graph-cuda", file: file!(), line: line!() },
            on: &[On::hand_written(&$table)],
        };
    };
}
region!(ONE, ONE_TABLE, ONE_ENTRY, "one", ["a"]);
region!(EIGHT, EIGHT_TABLE, EIGHT_ENTRY, "eight", ["a", "b", "c", "d", "e", "f", "g", "h"]);

#[test]
fn invariant_11_a_replay_is_one_driver_call_and_no_allocation() {
    let Some(session) = support::session("invariant_11_a_replay_is_one_driver_call_and_no_allocation") else {
        return;
    };
    session.set_lazy(false); // the last replay is over when the next one comes
    let registry = Registry::from_entries(vec![&ONE_ENTRY, &EIGHT_ENTRY], vec![], vec![]).unwrap();
    let mut engine = Engine::builder(support::open().unwrap()).build(&registry).unwrap();
    let ids = [1, 2, 3];
    let ids = HostTensor::new(&ids, [3]).unwrap();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let all = names.map(|name| (name, Source::<Cuda>::host(&ids)));
    for (name, inputs) in [("toy.one", 1), ("toy.eight", 8)] {
        let mut runner: Runner<HandWritten<Cuda>> = engine.runners().take_named(name).unwrap().remove(0);
        let mut run = || {
            let args = NamedArgs(&all[..inputs]);
            assert_eq!(args.sources().len(), inputs);
            let outcome = runner.run(args, &[1; 3]).unwrap();
            assert!(outcome.reason().is_none(), "a replay");
        };
        run();
        let (calls, launches, allocations) =
            (session.total_calls(), session.calls("cuGraphLaunch"), ALLOCATIONS.get());
        let counted = session.total_calls() - calls;
        assert_eq!(counted, 0, "asking is no call");
        let allocations_by_asking = ALLOCATIONS.get() - allocations;
        assert!(allocations_by_asking > 0, "the counter counts");
        let before = ALLOCATIONS.get();
        (0..100).for_each(|_| run());
        assert_eq!(ALLOCATIONS.get() - before, 0, "{name}: heap allocations of 100 replays");
        assert_eq!(session.total_calls() - calls, 100, "{name}: driver calls of 100 replays");
        assert_eq!(session.calls("cuGraphLaunch") - launches, 100);
    }
    println!("driver calls per replay: 1 with 1 input, 1 with 8 inputs; heap allocations per replay: 0");
}
