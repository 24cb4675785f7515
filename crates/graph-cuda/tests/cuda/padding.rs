//! `pad_rows`: every policy, element and width, at every real row count, over the kernel's own source.

use super::*;
use graph_core::{Pad, PadRows, bf16};

/// Pads `rows` rows of `row_bytes` bytes, `offset` bytes into a buffer, when `real` of them are real.
fn padded(
    cuda: &Cuda,
    stream: &Stream,
    row_bytes: usize,
    rows: usize,
    real: u32,
    offset: usize,
    pad: Pad,
) -> Vec<u8> {
    let bytes = rows * row_bytes;
    let (buffer, header) = (cuda.alloc(offset + bytes + 16).unwrap(), cuda.alloc(12).unwrap());
    let filled: Vec<u8> = (0..offset + bytes + 16).map(|i| 1 + (i % 199) as u8).collect();
    Cuda::upload(stream, &filled, &buffer, 0).unwrap();
    let words: Vec<u8> = [77, real, 88].into_iter().flat_map(u32::to_ne_bytes).collect();
    Cuda::upload(stream, &words, &header, 0).unwrap();
    Cuda::pad_rows(
        stream,
        PadRows { buffer: &buffer, offset, row_bytes, rows, header: &header, word: 1, pad },
    )
    .unwrap();
    let mut got = vec![0; filled.len()];
    Cuda::download(stream, &buffer, 0, &mut got).unwrap();
    assert_eq!(got[..offset], filled[..offset], "before the buffer");
    assert_eq!(got[offset + bytes..], filled[offset + bytes..], "behind the buffer");
    let real = (real as usize).min(rows) * row_bytes;
    assert_eq!(got[offset..offset + real], filled[offset..offset + real], "real rows");
    got[offset..offset + bytes].to_vec()
}

/// What the rows must hold, worked out on the host.
fn expected(row_bytes: usize, rows: usize, real: u32, offset: usize, pad: Pad) -> Vec<u8> {
    let mut all: Vec<u8> = (0..rows * row_bytes).map(|i| 1 + ((offset + i) % 199) as u8).collect();
    let real = (real as usize).min(rows);
    let last: Vec<u8> = all[real.saturating_sub(1) * row_bytes..][..row_bytes].to_vec();
    for row in all.chunks_exact_mut(row_bytes).skip(real) {
        match pad {
            Pad::RepeatLast if real > 0 => row.copy_from_slice(&last),
            Pad::Zero | Pad::RepeatLast => row.fill(0),
            Pad::Value(v) => row.chunks_exact_mut(v.bytes().len()).for_each(|e| e.copy_from_slice(v.bytes())),
        }
    }
    all
}

#[test]
fn invariant_01_padded_rows_hold_what_the_policy_says() {
    let (session, cuda, stream) = start!("invariant_01_padded_rows_hold_what_the_policy_says");
    let cases: [(usize, &[Pad]); 6] = [
        (12, &[Pad::Zero, Pad::RepeatLast, Pad::f32(1.5), Pad::i32(-1), Pad::u32(0xdead_beef)]),
        (16, &[Pad::i64(0x0123_4567_89ab_cdef), Pad::RepeatLast, Pad::u8(3)]),
        (6, &[Pad::Zero, Pad::RepeatLast, Pad::bf16(bf16::ONE)]),
        (7, &[Pad::u8(250), Pad::RepeatLast]),
        (4096, &[Pad::f32(2.0), Pad::RepeatLast]),
        (1, &[Pad::u8(1)]),
    ];
    for (row_bytes, pads) in cases {
        for (pad, offset) in pads.iter().flat_map(|pad| [(*pad, 0), (*pad, 256)]) {
            for real in [0, 1, 4, 5, 9] {
                let want = expected(row_bytes, 5, real, offset, pad);
                let got = padded(&cuda, &stream, row_bytes, 5, real, offset, pad);
                assert_eq!(got, want, "{pad}, rows of {row_bytes}, {real} real, at {offset}");
            }
        }
    }
    for pad in [Pad::u8(9), Pad::i64(0x0123_4567_89ab_cdef), Pad::RepeatLast] {
        let want = expected(8, 3, 1, 2, pad);
        assert_eq!(padded(&cuda, &stream, 8, 3, 1, 2, pad), want, "{pad}: whole words at an odd address");
    }
    drop((stream, cuda));
    nothing_left(&session);
}

#[test]
fn a_graph_pads_by_the_row_count_of_each_replay() {
    let (_session, cuda, stream) = start!("a_graph_pads_by_the_row_count_of_each_replay");
    let (data, header) = (cuda.alloc(16).unwrap(), cuda.alloc(4).unwrap());
    let pad = PadRows {
        buffer: &data,
        offset: 0,
        row_bytes: 4,
        rows: 4,
        header: &header,
        word: 0,
        pad: Pad::RepeatLast,
    };
    let graph = cuda.instantiate(captured(&stream, || Cuda::pad_rows(&stream, pad)).unwrap()).unwrap();
    assert_eq!(graph.operations(), ["pad_rows"]);
    for (real, want) in [(2_u32, [1, 2, 2, 2]), (0, [0, 0, 0, 0]), (3, [1, 2, 3, 3])] {
        let rows: Vec<u8> = [1_u32, 2, 3, 4].into_iter().flat_map(u32::to_ne_bytes).collect();
        Cuda::upload(&stream, &rows, &data, 0).unwrap();
        Cuda::upload(&stream, &real.to_ne_bytes(), &header, 0).unwrap();
        Cuda::launch(&graph, &stream).unwrap();
        let mut got = [0; 16];
        Cuda::download(&stream, &data, 0, &mut got).unwrap();
        let got: Vec<u32> = got.chunks_exact(4).map(|w| u32::from_ne_bytes(w.try_into().unwrap())).collect();
        assert_eq!(got, want);
    }
}

#[test]
fn ranges_of_a_pad_are_checked() {
    let (_session, cuda, stream) = start!("ranges_of_a_pad_are_checked");
    let (buffer, header) = (cuda.alloc(16).unwrap(), cuda.alloc(4).unwrap());
    let pad = |rows, word| PadRows {
        buffer: &buffer,
        offset: 0,
        row_bytes: 4,
        rows,
        header: &header,
        word,
        pad: Pad::Zero,
    };
    assert!(
        text(Cuda::pad_rows(&stream, pad(5, 0))).contains("bytes 0..20 lie outside a buffer of 16 bytes")
    );
    assert!(text(Cuda::pad_rows(&stream, pad(4, 1))).contains("bytes 0..8 lie outside a buffer of 4 bytes"));
    Cuda::pad_rows(&stream, pad(0, 0)).unwrap();
}
