//! Failures on demand: each kind of call fails once, with the given code, and has done nothing.

use graph_core::{Backend, ErrorKind, Pad, PadRows, Result, Tensor};
use graph_host::{Call, Host, Stream, codes};

struct Bench {
    host: Host,
    stream: Stream,
    t: Tensor<Host, u32, 1>,
}

fn bench() -> Bench {
    let host = Host::new();
    let stream = host.stream().unwrap();
    let t = Tensor::from_slice(&host, &stream, &[1, 2], [2]).unwrap();
    Bench { host, stream, t }
}

fn capture(b: &Bench) -> Result<graph_host::Captured> {
    Host::begin_capture(&b.stream)?;
    Host::end_capture(&b.stream)
}

#[test]
fn every_kind_of_call_can_be_made_to_fail_once() {
    type Make = fn(&Bench) -> Result<()>;
    let calls: [(Call, Make); 20] = [
        (Call::Alloc, |b| b.host.alloc(4).map(drop)),
        (Call::AllocPinned, |b| b.host.alloc_pinned(4).map(drop)),
        (Call::Stream, |b| b.host.stream().map(drop)),
        (Call::Synchronize, |b| Host::synchronize(&b.stream)),
        (Call::RecordEvent, |b| Host::record_event(&b.stream).map(drop)),
        (Call::WaitEvent, |b| Host::wait_event(&b.stream, &Host::record_event(&b.stream)?)),
        (Call::Upload, |b| Host::upload(&b.stream, &[9; 8], b.t.view().buffer(), 0)),
        (Call::Download, |b| b.t.to_vec(&b.stream).map(drop)),
        (Call::Copy, |b| Host::copy(&b.stream, (b.t.view().buffer(), 0), (b.t.view().buffer(), 4), 4)),
        (Call::Zero, |b| Host::zero(&b.stream, b.t.view().buffer(), 0, 8)),
        (Call::UploadBlock, |b| {
            Host::upload_block(&b.stream, &b.host.alloc_pinned(8)?, b.t.view().buffer(), 8)
        }),
        (Call::PadRows, |b| {
            let header = b.host.alloc(4)?;
            Host::zero(&b.stream, &header, 0, 4)?;
            let (buffer, pad) = (b.t.view().buffer(), Pad::Zero);
            let pad = PadRows { buffer, offset: 0, row_bytes: 4, rows: 2, header: &header, word: 0, pad };
            Host::pad_rows(&b.stream, pad)
        }),
        (Call::Signal, |b| Host::signal(&b.stream, (b.t.view().buffer(), 0), (&b.host.alloc_pinned(4)?, 0))),
        (Call::Kernel, |b| b.stream.kernel("k", (), (b.t.view_mut(),), |(), (t,)| t.fill(5))),
        (Call::Callback, |b| b.stream.callback("c", || {})),
        (Call::BeginCapture, |b| capture(b).map(drop)),
        (Call::EndCapture, |b| capture(b).map(drop)),
        (Call::Instantiate, |b| b.host.instantiate(capture(b)?).map(drop)),
        (Call::UploadGraph, |b| Host::upload_graph(&b.host.instantiate(capture(b)?)?, &b.stream)),
        (Call::Launch, |b| Host::launch(&b.host.instantiate(capture(b)?)?, &b.stream)),
    ];
    for (call, make) in calls {
        let b = bench();
        b.host.fail_next(call, codes::ILLEGAL_ADDRESS);
        let error = make(&b).expect_err(call.name());
        assert!(matches!(
            error.kind(),
            ErrorKind::Driver { code: 700, name: "CUDA_ERROR_ILLEGAL_ADDRESS", .. }
        ));
        assert_eq!(b.host.disarm(), 0, "{call:?}: it was this one");
        assert!(!Host::is_capturing(&b.stream), "{call:?}");
        assert_eq!(b.t.to_vec(&b.stream).unwrap(), [1, 2], "{call:?} has done nothing");
        assert!(make(&b).is_ok(), "{call:?}, once");
    }
}

#[test]
fn the_nth_call_fails_whatever_it_is() {
    let b = bench();
    b.host.fail_after(2, 12345);
    b.stream.callback("one", || {}).unwrap();
    b.host.alloc(1).unwrap();
    let error = Host::synchronize(&b.stream).unwrap_err();
    assert_eq!(error.to_string(), "host: synchronize failed: CUDA_ERROR_UNKNOWN (12345): injected");
    Host::synchronize(&b.stream).unwrap();
    b.host.fail_after(7, 1);
    assert_eq!((b.host.disarm(), b.host.disarm()), (1, 0));
}

#[test]
fn a_corrupted_operation_is_listed_and_does_nothing() {
    let b = bench();
    let record = || {
        Host::begin_capture(&b.stream)?;
        for _ in 0..3 {
            b.stream.kernel("add", (), (b.t.view_mut(),), |(), (t,)| t[0] = 10 * t[0] + 1)?;
        }
        b.host.instantiate(Host::end_capture(&b.stream)?)
    };
    b.host.corrupt_operation("add", 3);
    let whole = record().unwrap();
    b.host.corrupt_operation("add", 1);
    let corrupt = record().unwrap();
    assert!(whole.operations().eq(corrupt.operations()));
    for (graph, want) in [(&whole, 1111), (&corrupt, 111_111)] {
        Host::launch(graph, &b.stream).unwrap();
        assert_eq!(b.t.to_vec(&b.stream).unwrap()[0], want);
    }
}
