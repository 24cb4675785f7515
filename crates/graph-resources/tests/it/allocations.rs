//! A step allocates nothing once everything is warm: counted by this thread.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use graph_core::{NodeCall, Options, RequestId, Source};

use crate::toy::{Toy, build};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator; the count is a plain cell of this thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> u64 {
    COUNT.get()
}

#[test]
fn a_replayed_step_allocates_nothing() {
    let mut built = build(Toy::default());
    let requests = [RequestId(1), RequestId(2), RequestId(3)];
    let mut last = 0;
    for round in 0..2 {
        requests.iter().for_each(|r| built.node().ingest(*r, &Options::default()).unwrap());
        let tokens = &[5, 6, 7][..];
        let inputs = [("token", Source::host(&tokens))];
        for i in 0..28 {
            let node = built.node();
            let call = NodeCall { requests: &requests, seq_lens: &[1; 3], inputs: &inputs, slot: i };
            let before = allocations();
            let out = node.run("decode", &call).unwrap();
            let during = allocations() - before;
            assert!(out.reason().is_none());
            // Pages are taken all along: 28 tokens are seven pages of each request.
            assert!((round, i) < (0, 2) || during == 0, "round {round}, step {i}: {during} allocations");
            last = i;
        }
        requests.iter().for_each(|r| built.node().remove(*r));
    }
    assert_eq!(last, 27);
}

#[test]
fn a_refused_step_allocates_its_error_only() {
    let mut built = build(Toy::default());
    let steps = built.node().steps();
    steps.ingest(RequestId(1), &Options::default()).unwrap();
    let mut refuse = || {
        let before = allocations();
        let step = steps.declare(|step| {
            step.resource("kv").segment(RequestId(1), graph_core::Label::MAIN, 41);
            Ok(())
        });
        assert!(step.and_then(|step| step.admit()).is_err());
        allocations() - before
    };
    refuse();
    assert_eq!(refuse(), 1);
}
