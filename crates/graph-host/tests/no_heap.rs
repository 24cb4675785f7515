//! Invariant 11: a replay allocates nothing on the host heap. Alone in its binary, for it counts every allocation.

mod common;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

use common::Rig;
use graph_core::CaptureOptions;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is handed to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of `System`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn invariant_11_a_replay_allocates_nothing() {
    let mut rig = Rig::new(CaptureOptions::default());
    assert_eq!((rig.mix.stats().failures.len(), rig.host.live().graphs), (0, 6));
    assert_eq!(rig.run(3), rig.inputs.want(3));
    let mut replay = |times: usize| {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for i in 0..times {
            let outcome = rig.inputs.run(&mut rig.mix, 1 + i % 8).unwrap();
            assert_eq!(outcome.reason(), None);
            drop(outcome.into_out().take::<f32, 2>("y").unwrap());
        }
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    replay(8); // `make_static_inputs` fills its reused lists for the first time
    assert_eq!(replay(1_000), 0);
    drop(vec![0_u8; 10]);
    assert!(ALLOCATIONS.load(Ordering::Relaxed) > 0, "the counter counts");
}
