//! Several streams on several threads, on the same buffers: safe code, so no data race. Small enough for Miri.

use std::sync::{
    Arc, Barrier,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use graph_core::{Backend, Pad, PadRows, Result, Tensor};
use graph_host::{Host, Stream};

type T1 = Tensor<Host, u32, 1>;

const ROUNDS: u32 = if cfg!(miri) { 8 } else { 2_000 };

/// Adds one to both words, and fails where another body of the device runs meanwhile.
fn add(stream: &Stream, sum: &T1, alone: &Arc<AtomicBool>) -> Result<()> {
    let alone = alone.clone();
    stream.kernel("add", (), (sum.view_mut(),), move |(), (sum,)| {
        assert!(!alone.swap(true, Ordering::AcqRel), "two bodies at once");
        sum[0] += 1;
        std::thread::yield_now();
        sum[1] += 1;
        alone.store(false, Ordering::Release);
    })
}

#[test]
fn threads_share_buffers_without_a_race() {
    let host = Host::new();
    let setup = host.stream().unwrap();
    let sum = T1::from_slice(&host, &setup, &[0, 0], [2]).unwrap();
    let (start, alone) = (Barrier::new(3), Arc::new(AtomicBool::new(false)));
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                let stream = host.stream().unwrap();
                let part = T1::alloc(&host, [2]).unwrap();
                Host::begin_capture(&stream).unwrap();
                add(&stream, &sum, &alone).unwrap();
                part.view_mut().copy_from(&stream, sum.view()).unwrap();
                let check = |(part,): (&[u32],), ()| assert_eq!(part[0], part[1], "a torn read");
                stream.kernel("check", (part.view(),), (), check).unwrap();
                let graph = host.instantiate(Host::end_capture(&stream).unwrap()).unwrap();
                start.wait();
                for _ in 0..ROUNDS {
                    Host::launch(&graph, &stream).unwrap();
                    add(&stream, &sum, &alone).unwrap();
                }
            });
        }
        s.spawn(|| {
            start.wait();
            for _ in 0..ROUNDS {
                let now = sum.to_vec(&setup).unwrap();
                assert_eq!(now[0], now[1], "a torn read");
            }
        });
    });
    assert_eq!(sum.to_vec(&setup).unwrap(), [4 * ROUNDS, 4 * ROUNDS]);
}

#[test]
fn a_capture_on_one_thread_and_work_on_another() {
    let host = Host::new();
    let (a, b) = (host.stream().unwrap(), host.stream().unwrap());
    let x = T1::from_slice(&host, &a, &[1], [1]).unwrap();
    let start = Barrier::new(2);
    std::thread::scope(|s| {
        s.spawn(|| {
            start.wait();
            for i in 0..ROUNDS {
                let t = T1::from_slice(&host, &b, &[i], [1]).unwrap();
                t.view_mut().copy_from(&b, x.view()).unwrap();
                assert_eq!(t.to_vec(&b).unwrap(), [1]); // its buffer is dropped while the other thread captures
            }
        });
        start.wait();
        for _ in 0..ROUNDS {
            Host::begin_capture(&a).unwrap();
            a.kernel("read", (x.view(),), (), |(x,), ()| assert_eq!(x[0], 1)).unwrap();
            let captured = Host::end_capture(&a).unwrap();
            Host::launch(&host.instantiate(captured).unwrap(), &a).unwrap();
        }
    });
    assert_eq!((host.live().buffers, host.live().graphs, host.live().put_aside), (1, 0, 0));
}

/// What graph-core does with pinned memory: fill the block, launch, poll the word behind it from another thread.
#[test]
fn the_host_polls_the_word_that_a_graph_signals() {
    let host = Host::new();
    let stream = host.stream().unwrap();
    let (pinned, block) = (host.alloc_pinned(12).unwrap(), host.alloc(8).unwrap());
    let rows = Tensor::<Host, u32, 1>::from_slice(&host, &stream, &[7, 8, 9], [3]).unwrap();
    Host::begin_capture(&stream).unwrap();
    Host::upload_block(&stream, &pinned, &block, 8).unwrap();
    let buffer = rows.view().buffer();
    let pad =
        PadRows { buffer, offset: 0, row_bytes: 4, rows: 3, header: &block, word: 0, pad: Pad::RepeatLast };
    Host::pad_rows(&stream, pad).unwrap();
    Host::signal(&stream, (&block, 4), (&pinned, 8)).unwrap();
    let graph = host.instantiate(Host::end_capture(&stream).unwrap()).unwrap();
    let done = |sequence: u32| {
        let word = Host::pinned_bytes(&pinned).cast::<u32>();
        // SAFETY: twelve bytes, aligned to 16; every access to the last word is atomic.
        unsafe { AtomicU32::from_ptr(word.as_ptr().add(2)) }.load(Ordering::Acquire) == sequence
    };
    let staged = Arc::new(AtomicU32::new(0));
    std::thread::scope(|s| {
        let (told, stream) = (staged.clone(), &stream);
        s.spawn(move || {
            for sequence in 1..=ROUNDS {
                while told.load(Ordering::Acquire) != sequence {
                    std::thread::yield_now();
                }
                Host::launch(&graph, stream).unwrap();
            }
        });
        for sequence in 1..=ROUNDS {
            // SAFETY: the last graph is done, so nothing reads the block; the word behind it is not part of the slice.
            let block = unsafe {
                std::slice::from_raw_parts_mut(Host::pinned_bytes(&pinned).cast::<u8>().as_ptr(), 8)
            };
            block[..4].copy_from_slice(&2_u32.to_ne_bytes());
            block[4..].copy_from_slice(&sequence.to_ne_bytes());
            staged.store(sequence, Ordering::Release);
            while !done(sequence) {
                std::thread::yield_now();
            }
        }
    });
    assert_eq!(rows.to_vec(&stream).unwrap(), [7, 8, 8]);
}
