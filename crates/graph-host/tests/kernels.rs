//! Kernels, copies and graphs on real numbers.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use graph_core::{Backend, ErrorKind, In, Pad, PadRows, Result, Tensor, bf16, f16};
use graph_host::{Host, Stream, codes};

type T1 = Tensor<Host, f32, 1>;

fn start() -> (Host, Stream) {
    let host = Host::new();
    let stream = host.stream().unwrap();
    (host, stream)
}

fn tensor(host: &Host, stream: &Stream, data: &[f32]) -> T1 {
    T1::from_slice(host, stream, data, [data.len()]).unwrap()
}

fn add_one(stream: &Stream, t: &T1) -> Result<()> {
    stream.kernel("add_one", (), (t.view_mut(),), |(), (t,)| t.iter_mut().for_each(|t| *t += 1.0))
}

/// The code of a driver error; panics on any other.
fn code<T>(result: Result<T>) -> u32 {
    match result.err().expect("an error").kind() {
        ErrorKind::Driver { code, .. } => *code,
        other => panic!("not a driver error: {other}"),
    }
}

#[test]
fn a_stream_runs_at_once_and_a_capture_only_records() {
    let (host, stream) = start();
    let t = tensor(&host, &stream, &[0.0, 10.0]);
    add_one(&stream, &t).unwrap();
    assert_eq!(t.to_vec(&stream).unwrap(), [1.0, 11.0]);

    Host::begin_capture(&stream).unwrap();
    assert!(Host::is_capturing(&stream));
    add_one(&stream, &t).unwrap();
    stream.kernel("double", (), (t.view_mut(),), |(), (t,)| t.iter_mut().for_each(|t| *t *= 2.0)).unwrap();
    let captured = Host::end_capture(&stream).unwrap();
    assert!(!Host::is_capturing(&stream));
    assert_eq!(Host::operations(&captured), ["add_one", "double"]);
    assert_eq!(t.to_vec(&stream).unwrap(), [1.0, 11.0], "a capture runs nothing");

    let graph = host.instantiate(captured).unwrap();
    Host::upload_graph(&graph, &stream).unwrap();
    for want in [[4.0, 24.0], [10.0, 50.0]] {
        Host::launch(&graph, &stream).unwrap();
        assert_eq!(t.to_vec(&stream).unwrap(), want);
    }
}

#[test]
fn invariant_03_a_graph_owns_what_it_recorded() {
    let (host, stream) = start();
    let total = tensor(&host, &stream, &[0.0]);
    let graph = {
        let x = tensor(&host, &stream, &[2.0, 3.0]);
        Host::begin_capture(&stream).unwrap();
        stream
            .kernel("sum", (x.view(),), (total.view_mut(),), |(x,), (total,)| {
                total[0] += x.iter().sum::<f32>()
            })
            .unwrap();
        host.instantiate(Host::end_capture(&stream).unwrap()).unwrap()
    };
    assert_eq!(host.live().buffers, 2, "the graph keeps the dropped tensor");
    Host::launch(&graph, &stream).unwrap();
    Host::launch(&graph, &stream).unwrap();
    assert_eq!(total.to_vec(&stream).unwrap(), [10.0]);
    drop(graph);
    assert_eq!(host.live().buffers, 1);
}

#[test]
fn eight_reads_and_eight_writes() {
    let (host, stream) = start();
    let x: Vec<T1> = (0..8).map(|i| tensor(&host, &stream, &[i as f32])).collect();
    let y: Vec<T1> = (0..8).map(|_| T1::alloc(&host, [1]).unwrap()).collect();
    let r = |i: usize| x[i].view();
    let w = |i: usize| y[i].view_mut();
    let reads = (r(0), r(1), r(2), r(3), r(4), r(5), r(6), r(7));
    let writes = (w(0), w(1), w(2), w(3), w(4), w(5), w(6), w(7));
    stream
        .kernel("swap", reads, writes, |(a, b, c, d, e, f, g, h), (p, q, r, s, t, u, v, w)| {
            let x = [h, g, f, e, d, c, b, a];
            [p, q, r, s, t, u, v, w].into_iter().zip(x).for_each(|(y, x)| y.copy_from_slice(x));
        })
        .unwrap();
    let got: Vec<f32> = y.iter().flat_map(|y| y.to_vec(&stream).unwrap()).collect();
    assert_eq!(got, [7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0]);
}

#[test]
fn a_write_that_overlaps_is_refused_by_name() {
    let (host, stream) = start();
    let t = tensor(&host, &stream, &[1.0, 2.0, 3.0, 4.0]);
    let part = |from, to| t.view().rows(from..to).unwrap();
    let part_mut = |from, to| t.view_mut().rows(from..to).unwrap();
    let shift =
        |x: In<'_, Host, f32, 1>, to| stream.kernel("shift", (x,), (to,), |(x,), (y,)| y.copy_from_slice(x));
    let error = shift(part(0, 3), part_mut(1, 4)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "host: shift failed: CUDA_ERROR_INVALID_VALUE (1): write 0 (bytes 4..16) overlaps read 0 (bytes 0..12) of \
         the same buffer; to work in place, name the range only as a write, which may be read as well"
    );
    let both = stream.kernel("both", (), (part_mut(0, 2), part_mut(1, 3)), |(), (_, _)| {});
    assert!(both.unwrap_err().to_string().contains("write 1 (bytes 4..12) overlaps write 0 (bytes 0..8)"));
    assert_eq!(t.to_vec(&stream).unwrap(), [1.0, 2.0, 3.0, 4.0], "nothing ran");

    shift(part(0, 2), part_mut(2, 4)).unwrap();
    stream.kernel("read twice", (part(0, 3), part(1, 4)), (), |(_, _), ()| {}).unwrap();
    stream.kernel("empty", (part(1, 3),), (part_mut(2, 2),), |(_,), (_,)| {}).unwrap();
    assert_eq!(t.to_vec(&stream).unwrap(), [1.0, 2.0, 1.0, 2.0]);
    assert_eq!(
        code(Host::copy(&stream, (t.view().buffer(), 0), (t.view().buffer(), 4), 8)),
        codes::INVALID_VALUE
    );
}

#[test]
fn memory_of_another_device_is_refused() {
    let ((host, stream), (other, other_stream)) = (start(), start());
    let (mine, theirs) = (tensor(&host, &stream, &[1.0]), tensor(&other, &other_stream, &[2.0]));
    let mixed = stream.kernel("mix", (theirs.view(),), (mine.view_mut(),), |(x,), (y,)| y.copy_from_slice(x));
    assert_eq!(code(mixed), codes::INVALID_HANDLE);
    Host::begin_capture(&stream).unwrap();
    let captured = Host::end_capture(&stream).unwrap();
    assert_eq!(code(other.instantiate(captured)), codes::INVALID_HANDLE);
    Host::begin_capture(&stream).unwrap();
    let graph = host.instantiate(Host::end_capture(&stream).unwrap()).unwrap();
    assert_eq!(code(Host::launch(&graph, &other_stream)), codes::INVALID_HANDLE);
}

#[test]
fn every_operation_checks_its_bytes_before_it_runs() {
    let (host, stream) = start();
    let (a, b) = (host.alloc(16).unwrap(), host.alloc(8).unwrap());
    let pinned = host.alloc_pinned(8).unwrap();
    let out = |result: Result<()>| match result.unwrap_err().kind() {
        ErrorKind::OutOfBounds { what, from, to, bytes } => (*what, *from, *to, *bytes),
        other => panic!("{other}"),
    };
    assert_eq!(out(Host::upload(&stream, &[0; 5], &b, 4)), ("upload", 4, 9, 8));
    assert_eq!(out(Host::download(&stream, &b, 8, &mut [0])), ("download", 8, 9, 8));
    assert_eq!(out(Host::copy(&stream, (&a, 0), (&b, 0), 12)), ("copy", 0, 12, 8));
    assert_eq!(out(Host::copy(&stream, (&b, 4), (&a, 0), 8)), ("copy", 4, 12, 8));
    assert_eq!(out(Host::zero(&stream, &b, usize::MAX, 8)), ("zero", usize::MAX, usize::MAX, 8));
    assert_eq!(out(Host::upload_block(&stream, &pinned, &a, 12)), ("upload_block", 0, 12, 8));
    assert_eq!(out(Host::signal(&stream, (&a, 0), (&pinned, 8))), ("signal", 8, 12, 8));
    assert_eq!(code(Host::signal(&stream, (&a, 0), (&pinned, 2))), codes::MISALIGNED_ADDRESS);
    let pad =
        |rows, word| PadRows { buffer: &b, offset: 0, row_bytes: 4, rows, header: &a, word, pad: Pad::Zero };
    assert_eq!(out(Host::pad_rows(&stream, pad(3, 0))), ("pad_rows", 0, 12, 8));
    assert_eq!(out(Host::pad_rows(&stream, pad(2, 4))), ("pad_rows", 16, 20, 16));
    Host::begin_capture(&stream).unwrap();
    assert_eq!(out(Host::copy(&stream, (&a, 0), (&b, 0), 12)), ("copy", 0, 12, 8));
    assert_eq!(Host::operations(&Host::end_capture(&stream).unwrap()), [""; 0], "refused, not recorded");
}

#[test]
fn fresh_memory_is_poison() {
    let (host, stream) = start();
    assert!(
        Tensor::<Host, f32, 1>::alloc(&host, [3])
            .unwrap()
            .to_vec(&stream)
            .unwrap()
            .iter()
            .all(|x| x.is_nan())
    );
    assert!(
        Tensor::<Host, f16, 1>::alloc(&host, [3])
            .unwrap()
            .to_vec(&stream)
            .unwrap()
            .iter()
            .all(|x| x.is_nan())
    );
    assert!(
        Tensor::<Host, bf16, 1>::alloc(&host, [3])
            .unwrap()
            .to_vec(&stream)
            .unwrap()
            .iter()
            .all(|x| x.is_nan())
    );
    let ints = Tensor::<Host, i32, 1>::alloc(&host, [3]).unwrap().to_vec(&stream).unwrap();
    assert!(ints.iter().all(|i| *i > 1 << 30));
    let ints = Tensor::<Host, i64, 1>::alloc(&host, [3]).unwrap().to_vec(&stream).unwrap();
    assert!(ints.iter().all(|i| *i > 1 << 62));
}

#[test]
fn nothing_is_a_size_too() {
    let (host, stream) = start();
    let empty = host.alloc(0).unwrap();
    assert_eq!(Host::buffer_bytes(&empty), 0);
    assert_eq!(Host::buffer_bytes(&host.alloc(7).unwrap()), 7);
    Host::upload(&stream, &[], &empty, 0).unwrap();
    Host::copy(&stream, (&empty, 0), (&empty, 0), 0).unwrap();
    let t = T1::alloc(&host, [0]).unwrap();
    add_one(&stream, &t).unwrap();
    assert!(t.to_vec(&stream).unwrap().is_empty());
    assert_eq!(code(host.alloc(usize::MAX)), codes::OUT_OF_MEMORY);
}

#[test]
fn head_and_tail_of_a_graph() {
    let (host, stream) = start();
    let pinned = host.alloc_pinned(12).unwrap();
    let block = host.alloc(8).unwrap();
    let rows = Tensor::<Host, i32, 2>::from_slice(&host, &stream, &[1, 2, 3, 4, 5, 6], [3, 2]).unwrap();
    let header = |real: u32, sequence: u32| {
        let at = Host::pinned_bytes(&pinned).cast::<u32>();
        // SAFETY: twelve bytes, aligned to 16; nothing runs.
        unsafe {
            at.write(real);
            at.add(1).write(sequence);
        }
    };
    // SAFETY: as above; the word is written by `signal` only.
    let done = || unsafe { AtomicU32::from_ptr(Host::pinned_bytes(&pinned).cast::<u32>().add(2).as_ptr()) };
    let pads = [
        (Pad::RepeatLast, 1, [1, 2, 1, 2, 1, 2]),
        (Pad::RepeatLast, 0, [0, 0, 0, 0, 0, 0]),
        (Pad::Zero, 2, [1, 2, 3, 4, 0, 0]),
        (Pad::i32(-7), 1, [1, 2, -7, -7, -7, -7]),
        (Pad::Zero, 3, [1, 2, 3, 4, 5, 6]),
        (Pad::Zero, 9, [1, 2, 3, 4, 5, 6]),
    ];
    for (i, (pad, real, want)) in pads.into_iter().enumerate() {
        Host::upload(
            &stream,
            &[1_i32, 2, 3, 4, 5, 6].map(i32::to_ne_bytes).concat(),
            rows.view().buffer(),
            0,
        )
        .unwrap();
        Host::begin_capture(&stream).unwrap();
        Host::upload_block(&stream, &pinned, &block, 8).unwrap();
        let buffer = rows.view().buffer();
        let pad = PadRows { buffer, offset: 0, row_bytes: 8, rows: 3, header: &block, word: 0, pad };
        Host::pad_rows(&stream, pad).unwrap();
        Host::signal(&stream, (&block, 4), (&pinned, 8)).unwrap();
        let captured = Host::end_capture(&stream).unwrap();
        assert_eq!(Host::operations(&captured), ["upload_block", "pad_rows", "signal"]);
        let graph = host.instantiate(captured).unwrap();
        header(real, i as u32 + 10);
        Host::launch(&graph, &stream).unwrap();
        assert_eq!(rows.to_vec(&stream).unwrap(), want);
        assert_eq!(done().load(Ordering::Acquire), i as u32 + 10);
    }
}

#[test]
fn a_panic_is_an_error_of_the_call_that_ran_it() {
    let (host, stream) = start();
    let t = tensor(&host, &stream, &[1.0]);
    let boom = || stream.kernel("boom", (t.view(),), (), |(t,), ()| assert!(t[0] > 1.0, "t is {}", t[0]));
    assert_eq!(boom().unwrap_err().to_string(), "the forward panicked: in `boom`: t is 1");
    Host::begin_capture(&stream).unwrap();
    add_one(&stream, &t).unwrap();
    add_one(&stream, &t).unwrap();
    stream.kernel("late", (t.view(),), (), |(t,), ()| assert!(t[0] < 5.0)).unwrap();
    let graph = host.instantiate(Host::end_capture(&stream).unwrap()).unwrap();
    Host::launch(&graph, &stream).unwrap();
    let error = Host::launch(&graph, &stream).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Panicked(text) if text.starts_with("in `late`:")), "{error}");
    boom().unwrap();
    assert_eq!(t.to_vec(&stream).unwrap(), [5.0], "the device works on");
}

#[test]
fn a_body_may_not_call_the_backend() {
    let (host, stream) = start();
    let codes = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (inner, device, seen) = (stream.clone(), host.clone(), codes.clone());
    stream
        .callback("nested", move || {
            seen.lock().unwrap().extend([
                code(inner.callback("inner", || {})),
                code(device.alloc(1)),
                code(Host::synchronize(&inner)),
                code(Host::begin_capture(&inner)),
            ]);
        })
        .unwrap();
    assert_eq!(*codes.lock().unwrap(), [codes::NOT_PERMITTED; 4].map(|_| 800));
}

#[test]
fn issued_counts_this_thread_on_this_device() {
    let (host, stream) = start();
    let other = Host::new();
    let (second, elsewhere) = (host.stream().unwrap(), other.stream().unwrap());
    let t = tensor(&host, &stream, &[1.0]);
    let before = host.issued();
    add_one(&stream, &t).unwrap();
    add_one(&second, &t).unwrap();
    elsewhere.callback("elsewhere", || {}).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| {
            assert_eq!(host.issued(), 0);
            add_one(&stream, &t).unwrap();
            assert_eq!(host.issued(), 1);
        });
    });
    Host::begin_capture(&stream).unwrap();
    add_one(&stream, &t).unwrap();
    Host::end_capture(&stream).unwrap();
    assert_eq!(host.issued() - before, 3);
    assert_eq!(other.issued(), 1);
}
