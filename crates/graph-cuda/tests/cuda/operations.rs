//! Operations: their codes, and what they ask the driver. What they do is a part of `backend-suite`.

use super::*;

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
    assert_eq!(code(Cuda::signal(&stream, (&a, 2), (&pinned, 4))), 1, "not aligned");
    assert_eq!(session.total_calls(), calls);
}

#[test]
fn a_stream_of_another_device_is_refused() {
    let (session, cuda, stream) = start!("a_stream_of_another_device_is_refused");
    let (a, event) = (tensor(&cuda, &stream, &[1.0; 4]), Cuda::record_event(&stream).unwrap());
    let second = support::open().unwrap();
    let foreign = second.stream().unwrap();
    assert_eq!(code(Cuda::wait_event(&foreign, &event)), 400);
    assert_eq!(code(Cuda::zero(&foreign, a.view().buffer(), 0, 4)), 400);
    drop((event, a, stream, cuda, foreign, second));
    nothing_left(&session);
}
