//! The backend's own kernels, which pad the rows of a static buffer.

use graph_core::{Backend, Pad, PadRows};
use graph_cuda::{Cuda, PAD_SOURCE};

use super::{Case, edit};
use crate::Rig;

pub(super) const CASES: &[Case] = &[
    Case {
        kernel: "pad_rows_words",
        source: &PAD_SOURCE,
        check: words,
        edits: &[edit("32 * (i & 1)", "16 * (i & 1)")],
    },
    Case {
        kernel: "pad_rows_bytes",
        source: &PAD_SOURCE,
        check: bytes,
        edits: &[edit("8 * (i & 7)", "8 * (i & 3)")],
    },
];

fn words(rig: &Rig) -> Result<(), String> {
    all(rig, "pad_rows_words", &[4, 12, 16, 4096])
}

fn bytes(rig: &Rig) -> Result<(), String> {
    all(rig, "pad_rows_bytes", &[1, 6, 7, 4095])
}

/// Rows of these bytes at every real row count, with every kind of padding.
fn all(rig: &Rig, kernel: &str, row_bytes: &[usize]) -> Result<(), String> {
    let pads = [Pad::Zero, Pad::RepeatLast, Pad::i64(0x0123_4567_89ab_cdef)];
    for row_bytes in row_bytes.iter().copied() {
        for (pad, real) in pads.iter().flat_map(|pad| [0, 1, 2, 5, 9].map(|real| (*pad, real))) {
            padded(rig, row_bytes, real, pad).map_err(|error| {
                format!("{kernel}, {pad}, rows of {row_bytes} bytes, {real} real: {error}")
            })?;
        }
    }
    Ok(())
}

const ROWS: usize = 5;

/// A buffer of five rows and a margin; the row count is the second word of its block.
fn padded(rig: &Rig, row_bytes: usize, real: usize, pad: Pad) -> Result<(), String> {
    let bytes = ROWS * row_bytes;
    let before: Vec<u8> = (0..bytes + 32).map(|i| 1 + (i % 199) as u8).collect();
    let mut want = before.clone();
    for at in (real * row_bytes).min(bytes)..bytes {
        want[at] = match pad {
            Pad::RepeatLast if real > 0 => before[(real - 1) * row_bytes + at % row_bytes],
            Pad::Zero | Pad::RepeatLast => 0,
            Pad::Value(value) => value.bytes()[at % value.bytes().len()],
        };
    }
    let data = rig.up(&before, [before.len()]);
    let block = rig.up(&[7_u32, real as u32, 3], [3]);
    let (buffer, header) = (data.view().buffer(), block.view().buffer());
    let rows = PadRows { buffer, offset: 0, row_bytes, rows: ROWS, header, word: 1, pad };
    Cuda::pad_rows(&rig.stream, rows).map_err(|error| error.to_string())?;
    match rig.down(&data)? == want {
        true => Ok(()),
        false => Err("other bytes".into()),
    }
}
