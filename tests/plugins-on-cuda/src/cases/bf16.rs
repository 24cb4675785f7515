//! The header of the elements, against the crate `half`, to the bit.

use graph_core::{Elem, bf16};
use graph_cuda::{Arg, Kernel, KernelSource};
use model_support::cuda::{HEADERS, OPTIONS, THREADS, blocks};

use super::{Case, edit};
use crate::Rig;

/// Its conversions, one element a thread.
pub static ELEMENTS: KernelSource = KernelSource {
    name: "elements.cu",
    text: r#"
        #include "bf16.cuh"
        #include "common.cuh"
        extern "C" __global__ void narrow(bf16* y, const float* x, u32 count) {
            u32 i = element();
            if (i < count) store(y + i, load(x + i));
        }
        extern "C" __global__ void widen(float* y, const bf16* x, u32 count) {
            u32 i = element();
            if (i < count) store(y + i, load(x + i));
        }
    "#,
    headers: HEADERS,
    options: OPTIONS,
    kernels: &[
        Kernel::new("narrow", &[Arg::Out(Elem::BF16), Arg::In(Elem::F32), Arg::U32]),
        Kernel::new("widen", &[Arg::Out(Elem::F32), Arg::In(Elem::BF16), Arg::U32]),
    ],
};

pub(super) const CASES: &[Case] = &[
    Case {
        kernel: "narrow",
        source: &ELEMENTS,
        check: narrow,
        edits: &[
            edit("+ 0x7fffu +", "+ 0x8000u +"),
            edit("bits >> 16 & 1", "bits >> 16 & 0"),
            edit("| 0x400000u", "| 0x0u"),
            edit("value != value ?", "0 ?"),
        ],
    },
    Case {
        kernel: "widen",
        source: &ELEMENTS,
        check: widen,
        edits: &[edit("from->bits << 16", "from->bits << 15")],
    },
];

/// Every upper half with lower halves around a tie: all exponents, so subnormals, infinities, NaN, and what rounds to
/// another exponent or to infinity.
fn narrow(rig: &Rig) -> Result<(), String> {
    let halves = [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff];
    let uppers = 0..=u32::from(u16::MAX);
    let x: Vec<f32> =
        uppers.flat_map(|upper| halves.map(|lower| f32::from_bits(upper << 16 | lower))).collect();
    let (on_x, y) = (rig.up(&x, [x.len()]), rig.out::<bf16, 1>([x.len()]));
    let count = x.len() as u32;
    let narrow =
        rig.device.loaded(&ELEMENTS).and_then(|m| m.function("narrow")).map_err(|e| e.to_string())?;
    let launch = narrow.on(&rig.stream).grid(blocks(count)).block([THREADS, 1, 1]);
    // SAFETY: both views have `count` elements.
    unsafe { launch.arg(y.view_mut()).arg(on_x.view()).arg(count).launch() }.map_err(|e| e.to_string())?;
    for (x, got) in x.iter().zip(rig.down(&y)?) {
        let want = bf16::from_f32(*x);
        if got.to_bits() != want.to_bits() {
            return Err(format!(
                "{:#010x} gives {:#06x}, not {:#06x}",
                x.to_bits(),
                got.to_bits(),
                want.to_bits()
            ));
        }
    }
    Ok(())
}

fn widen(rig: &Rig) -> Result<(), String> {
    let x: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    let (on_x, y) = (rig.up(&x, [x.len()]), rig.out::<f32, 1>([x.len()]));
    let count = x.len() as u32;
    let widen = rig.device.loaded(&ELEMENTS).and_then(|m| m.function("widen")).map_err(|e| e.to_string())?;
    let launch = widen.on(&rig.stream).grid(blocks(count)).block([THREADS, 1, 1]);
    // SAFETY: both views have `count` elements.
    unsafe { launch.arg(y.view_mut()).arg(on_x.view()).arg(count).launch() }.map_err(|e| e.to_string())?;
    for (x, got) in x.iter().zip(rig.down(&y)?) {
        let want = u32::from(x.to_bits()) << 16;
        if got.to_bits() != want {
            return Err(format!("{:#06x} gives {:#010x}, not {want:#010x}", x.to_bits(), got.to_bits()));
        }
    }
    Ok(())
}
