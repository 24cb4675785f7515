//! Memory that was dropped and is kept: who gets it, and when it goes.

use super::*;

fn lenient(bytes: usize) -> Cuda {
    Cuda::with_options(0, support::options().keep_memory(bytes)).expect("a device")
}

#[test]
fn dropped_memory_is_given_again_without_a_driver_call() {
    let Some(session) = support::session("dropped_memory_is_given_again_without_a_driver_call") else {
        return;
    };
    let cuda = lenient(1 << 20);
    let stream = cuda.stream().unwrap();
    let first = tensor(&cuda, &stream, &[1.0, 2.0]);
    let at = first.view().buffer().device_ptr();
    let copied = T1::alloc(&cuda, [2]).unwrap();
    copied.view_mut().copy_from(&stream, first.view()).unwrap();
    // Work on it is in flight when it is dropped, and what the next owner does comes behind that.
    let calls = session.total_calls();
    drop(first);
    assert_eq!(cuda.kept_bytes(), 512, "a block of the driver");
    let second = T1::alloc(&cuda, [2]).unwrap();
    assert_eq!((second.view().buffer().device_ptr(), cuda.kept_bytes()), (at, 0));
    assert_eq!(session.total_calls(), calls, "neither freed nor allocated");
    Cuda::upload(&stream, &[0; 8], second.view().buffer(), 0).unwrap();
    assert_eq!(copied.to_vec(&stream).unwrap(), [1.0, 2.0]);

    // A block that is a quarter larger will do; one that is larger still will not.
    drop(second);
    let smaller = cuda.alloc(3).unwrap();
    assert_eq!((smaller.device_ptr(), smaller.bytes()), (at, 3));
    let large = cuda.alloc(5 * 512).unwrap();
    let at = large.device_ptr();
    drop(large);
    let (third, fourth) = (cuda.alloc(3 * 512).unwrap(), cuda.alloc(3 * 512 + 1).unwrap());
    assert_eq!((third.device_ptr() != at, fourth.device_ptr() == at), (true, true));
    drop((copied, smaller, third, fourth, stream, cuda));
    nothing_left(&session);
}

#[test]
fn the_limit_holds_and_large_blocks_are_freed() {
    let Some(session) = support::session("the_limit_holds_and_large_blocks_are_freed") else { return };
    let cuda = lenient(1000);
    drop([cuda.alloc(60).unwrap(), cuda.alloc(60).unwrap()]);
    assert_eq!((cuda.kept_bytes(), session.live().device_bytes), (512, 512));
    drop(cuda);
    let cuda = lenient(usize::MAX);
    drop(cuda.alloc((16 << 20) + 1).unwrap());
    assert_eq!(cuda.kept_bytes(), 0);
    drop(cuda);
    nothing_left(&session);
}

#[test]
fn a_second_stream_ends_it_until_it_is_gone() {
    let Some(session) = support::session("a_second_stream_ends_it_until_it_is_gone") else { return };
    let cuda = lenient(1 << 20);
    let one = cuda.stream().unwrap();
    drop(cuda.alloc(8).unwrap());
    assert_eq!(cuda.kept_bytes(), 512);
    let two = cuda.stream().unwrap();
    assert_eq!((cuda.kept_bytes(), session.live().device_allocations), (0, 0), "work of `one` may be on it");
    drop(cuda.alloc(8).unwrap());
    assert_eq!(cuda.kept_bytes(), 0);
    drop(one);
    drop(cuda.alloc(8).unwrap());
    assert_eq!(cuda.kept_bytes(), 512, "`one` was waited for when it went");

    // The next stream comes while a capture runs, during which nothing is freed.
    let frees =
        || session.counts().into_iter().find(|(name, _)| *name == "cuMemFree_v2").map_or(0, |(_, n)| n);
    let before = frees();
    let mut three = None;
    captured(&two, || {
        three = Some(cuda.stream()?);
        assert_eq!((cuda.kept_bytes(), frees()), (0, before));
        Ok(())
    })
    .unwrap();
    assert_eq!(frees(), before + 1);
    drop((two, three, cuda));
    nothing_left(&session);
}

#[test]
fn it_is_freed_where_the_driver_has_no_memory_left() {
    let Some(session) = support::session("it_is_freed_where_the_driver_has_no_memory_left") else { return };
    let cuda = lenient(1 << 20);
    drop(cuda.alloc(8).unwrap());
    session.fail_once("cuMemAlloc_v2", 1, 2);
    let buffer = cuda.alloc(4096).unwrap();
    assert_eq!((cuda.kept_bytes(), session.live().device_allocations), (0, 1));
    drop((buffer, cuda));
    let cuda = lenient(0);
    session.fail_once("cuMemAlloc_v2", 1, 2);
    assert_eq!(code(cuda.alloc(4096)), 2, "nothing is ever kept, so there is no second try");
    drop(cuda);
    nothing_left(&session);
}

#[test]
fn a_second_stream_waits_for_work_on_a_block_that_was_given_again() {
    let Some(session) = support::session("a_second_stream_waits_for_work_on_a_block_that_was_given_again")
    else {
        return;
    };
    let cuda = lenient(1 << 20);
    let one = cuda.stream().unwrap();
    drop(tensor(&cuda, &one, &[1.0, 2.0])); // its upload is in flight
    let again = T1::alloc(&cuda, [2]).unwrap();
    let two = cuda.stream().unwrap();
    Cuda::upload(&two, &[7.0_f32.to_ne_bytes(); 2].concat(), again.view().buffer(), 0).unwrap();
    Cuda::synchronize(&two).unwrap();
    Cuda::synchronize(&one).unwrap();
    assert_eq!(again.to_vec(&two).unwrap(), [7.0, 7.0]);
    drop((again, one, two, cuda));
    nothing_left(&session);
}

#[test]
fn memory_in_a_thread_local_is_dropped_when_the_thread_ends() {
    let Some(session) = support::session("memory_in_a_thread_local_is_dropped_when_the_thread_ends") else {
        return;
    };
    thread_local!(static HELD: std::cell::RefCell<Option<graph_cuda::Buffer>> = const { std::cell::RefCell::new(None) });
    let cuda = lenient(0);
    let mine = cuda.clone();
    std::thread::spawn(move || HELD.with_borrow_mut(|held| *held = Some(mine.alloc(8).unwrap())))
        .join()
        .unwrap();
    drop(cuda);
    nothing_left(&session);
}
