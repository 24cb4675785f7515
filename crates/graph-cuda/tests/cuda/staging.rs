//! Uploads that do not wait: the caller's bytes are its own again, and staging memory is not written before it was read.

use super::*;

#[test]
fn an_upload_does_not_wait_and_its_source_may_be_reused() {
    let (session, cuda, stream) = start!("an_upload_does_not_wait_and_its_source_may_be_reused");
    let buffers: Vec<_> = (0..100).map(|_| cuda.alloc(4).unwrap()).collect();
    let mut source = 0_u32.to_ne_bytes();
    for (i, buffer) in (0_u32..).zip(&buffers) {
        source = i.to_ne_bytes();
        Cuda::upload(&stream, &source, buffer, 0).unwrap();
        source.fill(0xee);
    }
    assert_eq!(source, [0xee; 4]);
    assert_eq!(session.calls("cuStreamSynchronize"), 0);
    assert!(session.calls("cuMemHostAlloc") <= 32, "the pieces are used again");
    for (i, buffer) in (0_u32..).zip(&buffers) {
        let mut got = [0; 4];
        Cuda::download(&stream, buffer, 0, &mut got).unwrap();
        assert_eq!(u32::from_ne_bytes(got), i);
    }
    drop((buffers, stream, cuda));
    nothing_left(&session);
}

#[test]
fn a_long_upload_is_waited_for() {
    let (session, cuda, stream) = start!("a_long_upload_is_waited_for");
    for (bytes, waits) in [(64 << 10, 0), ((64 << 10) + 1, 1)] {
        let buffer = cuda.alloc(bytes).unwrap();
        let source: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        let before = session.calls("cuStreamSynchronize");
        Cuda::upload(&stream, &source, &buffer, 0).unwrap();
        assert_eq!(session.calls("cuStreamSynchronize") - before, waits, "{bytes} bytes");
        let mut got = vec![0; bytes];
        Cuda::download(&stream, &buffer, 0, &mut got).unwrap();
        assert!(got == source, "{bytes} bytes");
    }
    drop((stream, cuda));
    nothing_left(&session);
}

#[test]
fn whichever_call_of_an_upload_fails_the_next_one_is_right() {
    let (session, cuda, stream) = start!("whichever_call_of_an_upload_fails_the_next_one_is_right");
    let buffer = cuda.alloc(4).unwrap();
    for function in
        ["cuMemHostAlloc", "cuEventCreate", "cuMemcpyHtoDAsync_v2", "cuEventRecord", "cuEventQuery"]
    {
        session.fail_once(function, 1, 801);
        // Which of them a call makes depends on what is leased.
        let failed = (0..40_u8).filter(|i| Cuda::upload(&stream, &[*i; 4], &buffer, 0).is_err()).count();
        assert_eq!(failed, 1, "{function}");
        Cuda::upload(&stream, &[77; 4], &buffer, 0).unwrap();
        let mut got = [0; 4];
        Cuda::download(&stream, &buffer, 0, &mut got).unwrap();
        assert_eq!(got, [77; 4], "after {function}");
    }
    assert_eq!(
        text(captured(&stream, || Cuda::upload(&stream, &[1], &buffer, 0))).matches("(900)").count(),
        1
    );
    drop((buffer, stream, cuda));
    nothing_left(&session);
}

#[test]
fn an_event_that_cannot_be_asked_costs_one_upload() {
    let (session, cuda, stream) = start!("an_event_that_cannot_be_asked_costs_one_upload");
    let buffer = cuda.alloc(4).unwrap();
    let up = || Cuda::upload(&stream, &[5; 4], &buffer, 0);
    up().unwrap();
    // For ever, as for an event that was recorded into a capture by a race.
    session.fail_once("cuEventQuery", 1, 907);
    assert_eq!(code(up()), 907);
    let pieces = session.live().pinned_allocations;
    up().unwrap();
    assert_eq!((pieces, session.live().pinned_allocations), (0, 1), "the piece with that event is gone");
    drop((buffer, stream, cuda));
    nothing_left(&session);
}
