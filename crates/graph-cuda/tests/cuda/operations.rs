//! Every function of the backend, one after the other.

use super::*;

#[test]
fn memory_is_uploaded_copied_zeroed_and_downloaded() {
    let (session, cuda, stream) = start!("memory_is_uploaded_copied_zeroed_and_downloaded");
    let (a, b) = (cuda.alloc(64).unwrap(), cuda.alloc(64).unwrap());
    assert_eq!(Cuda::buffer_bytes(&a), 64);
    let data: Vec<u8> = (0..64).collect();
    Cuda::upload(&stream, &data, &a, 0).unwrap();
    Cuda::upload(&stream, &[99, 98], &a, 3).unwrap();
    Cuda::zero(&stream, &b, 0, 64).unwrap();
    Cuda::copy(&stream, (&a, 2), (&b, 10), 4).unwrap();
    Cuda::copy(&stream, (&a, 0), (&a, 32), 32).unwrap();
    let mut got = [1; 16];
    Cuda::download(&stream, &b, 0, &mut got).unwrap();
    assert_eq!(got, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 99, 98, 5, 0, 0]);
    Cuda::download(&stream, &a, 30, &mut got).unwrap();
    assert_eq!(got[..6], [30, 31, 0, 1, 2, 99]);
    for nothing in [Cuda::zero(&stream, &a, 64, 0), Cuda::copy(&stream, (&a, 0), (&b, 64), 0)] {
        nothing.unwrap();
    }
    Cuda::upload(&stream, &[], &a, 64).unwrap();
    drop((a, b, stream, cuda));
    nothing_left(&session);
}

#[test]
fn an_upload_is_done_with_its_source_even_if_that_is_pinned() {
    let (_session, cuda, stream) = start!("an_upload_is_done_with_its_source_even_if_that_is_pinned");
    let (pinned, buffer) = (cuda.alloc_pinned(4).unwrap(), cuda.alloc(4).unwrap());
    let bytes = Cuda::pinned_bytes(&pinned).cast::<[u8; 4]>();
    // SAFETY: the memory is alive, nobody else uses it, and each access is over before the next.
    unsafe {
        bytes.write([1, 2, 3, 4]);
        Cuda::upload(&stream, bytes.as_ref(), &buffer, 0).unwrap();
        bytes.write([9, 9, 9, 9]);
    }
    let mut got = [0; 4];
    Cuda::download(&stream, &buffer, 0, &mut got).unwrap();
    assert_eq!(got, [1, 2, 3, 4]);
}

#[test]
fn pinned_memory_is_zero_and_aligned_and_carries_block_and_signal() {
    let (session, cuda, stream) = start!("pinned_memory_is_zero_and_aligned_and_carries_block_and_signal");
    let (pinned, block) = (cuda.alloc_pinned(20).unwrap(), cuda.alloc(16).unwrap());
    let bytes = Cuda::pinned_bytes(&pinned);
    assert_eq!((bytes.len(), bytes.cast::<u8>().addr().get() % 16), (20, 0));
    let words = bytes.cast::<[u32; 5]>();
    // SAFETY: the memory is alive and aligned, and no work on it is in flight.
    assert_eq!(unsafe { words.read() }, [0; 5]);
    // SAFETY: as above.
    unsafe { words.write([1, 2, 3, 4, 0]) };
    Cuda::upload_block(&stream, &pinned, &block, 16).unwrap();
    Cuda::signal(&stream, (&block, 8), (&pinned, 16)).unwrap();
    Cuda::synchronize(&stream).unwrap();
    // SAFETY: as above, after the wait.
    assert_eq!(unsafe { words.read() }, [1, 2, 3, 4, 3]);
    assert_eq!(code(Cuda::signal(&stream, (&block, 2), (&pinned, 16))), 1, "not aligned");
    drop((pinned, block, stream, cuda));
    nothing_left(&session);
}

#[test]
fn a_signal_is_waited_for_without_the_work_behind_it() {
    let (session, cuda, stream) = start!("a_signal_is_waited_for_without_the_work_behind_it");
    let (pinned, block) = (cuda.alloc_pinned(8).unwrap(), cuda.alloc(4).unwrap());
    Cuda::upload(&stream, &7_u32.to_ne_bytes(), &block, 0).unwrap();
    Cuda::synchronize(&stream).unwrap();
    Cuda::signal(&stream, (&block, 0), (&pinned, 4)).unwrap();
    Cuda::zero(&stream, &block, 0, 4).unwrap();
    Cuda::zero(&stream, &block, 0, 4).unwrap();
    let queries = session.calls("cuStreamQuery");
    Cuda::await_signal(&stream, (&pinned, 4), 7).unwrap();
    assert_eq!(session.calls("cuStreamQuery") - queries, 1, "each query runs one operation of the stand-in");
    Cuda::await_signal(&stream, (&pinned, 4), 8).unwrap(); // it will not come: everything is done
    session.fail_once("cuStreamQuery", 1, 700);
    assert_eq!(code(Cuda::await_signal(&stream, (&pinned, 4), 8)), 700);
}

#[test]
fn every_operation_checks_its_bytes_before_it_calls_the_driver() {
    let (session, cuda, stream) = start!("every_operation_checks_its_bytes_before_it_calls_the_driver");
    let (a, b, pinned) = (cuda.alloc(16).unwrap(), cuda.alloc(8).unwrap(), cuda.alloc_pinned(8).unwrap());
    let calls = session.total_calls();
    let out = |result: Result<()>| match result.unwrap_err().kind() {
        ErrorKind::OutOfBounds { what, from, to, bytes } => (*what, *from, *to, *bytes),
        other => panic!("{other}"),
    };
    assert_eq!(out(Cuda::upload(&stream, &[0; 9], &b, 0)), ("upload", 0, 9, 8));
    assert_eq!(out(Cuda::download(&stream, &b, 6, &mut [0; 3])), ("download", 6, 9, 8));
    assert_eq!(out(Cuda::copy(&stream, (&a, 0), (&b, 0), 9)), ("copy", 0, 9, 8));
    assert_eq!(out(Cuda::zero(&stream, &b, usize::MAX, 2)), ("zero", usize::MAX, usize::MAX, 8));
    assert_eq!(out(Cuda::upload_block(&stream, &pinned, &a, 9)), ("upload_block", 0, 9, 8));
    assert_eq!(out(Cuda::signal(&stream, (&a, 0), (&pinned, 8))), ("signal", 8, 12, 8));
    assert_eq!(code(Cuda::copy(&stream, (&a, 0), (&a, 4), 8)), 1, "overlap");
    assert_eq!(session.total_calls(), calls);
}

#[test]
fn events_order_two_streams_and_stay_with_their_device() {
    let (session, cuda, stream) = start!("events_order_two_streams_and_stay_with_their_device");
    let other = cuda.stream().unwrap();
    let (a, b) = (tensor(&cuda, &stream, &[1.0; 4]), T1::zeros(&cuda, &stream, [4]).unwrap());
    Cuda::zero(&other, a.view().buffer(), 0, 16).unwrap(); // runs when something waits for it
    let event = Cuda::record_event(&other).unwrap();
    Cuda::wait_event(&stream, &event).unwrap();
    b.view_mut().copy_from(&stream, a.view()).unwrap();
    assert_eq!(b.to_vec(&stream).unwrap(), [0.0; 4]);
    let second = support::open().unwrap();
    let foreign = second.stream().unwrap();
    assert_eq!(code(Cuda::wait_event(&foreign, &event)), 400);
    assert_eq!(code(Cuda::zero(&foreign, a.view().buffer(), 0, 4)), 400);
    drop((event, a, b, other, stream, cuda, foreign, second));
    nothing_left(&session);
}

#[test]
fn operations_are_counted_per_thread_and_device() {
    let (_session, cuda, stream) = start!("operations_are_counted_per_thread_and_device");
    let buffer = cuda.alloc(8).unwrap();
    let before = cuda.issued();
    Cuda::zero(&stream, &buffer, 0, 8).unwrap();
    let second = support::open().unwrap();
    let (stream2, buffer2) = (second.stream().unwrap(), second.alloc(8).unwrap());
    Cuda::zero(&stream2, &buffer2, 0, 8).unwrap();
    Cuda::zero(&stream, &buffer, 0, 8).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| Cuda::zero(&stream, &buffer, 0, 4).unwrap());
    });
    assert_eq!((cuda.issued() - before, second.issued()), (2, 1));
}
