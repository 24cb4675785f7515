//! The model on CUDA: the sources of its kernels, and a checked launch for each operation.

mod ops;
mod paged;

use graph_core::Elem::{F32, I32, U32};
use graph_cuda::{Arg, Kernel, KernelSource};
use model_support::cuda::{HEADERS, OPTIONS};

/// The kernels that are element by element.
pub static DECODER: KernelSource = KernelSource {
    name: "decoder.cu",
    text: include_str!("../../kernels/decoder.cu"),
    headers: HEADERS,
    options: OPTIONS,
    kernels: &[
        Kernel::new("gather", &[Arg::Out(F32), Arg::In(F32), Arg::In(I32), Arg::U32, Arg::U32, Arg::U32]),
        Kernel::new(
            "rotary",
            &[Arg::Out(F32), Arg::In(F32), Arg::In(I32), Arg::In(F32), Arg::U32, Arg::U32, Arg::U32],
        ),
        Kernel::new(
            "store_kv",
            &[
                Arg::Out(F32),
                Arg::Out(F32),
                Arg::In(F32),
                Arg::In(F32),
                Arg::In(I32),
                Arg::U32,
                Arg::U32,
                Arg::U32,
            ],
        ),
        Kernel::new("silu_mul", &[Arg::Out(F32), Arg::In(F32), Arg::In(F32), Arg::U32]),
    ],
};

/// Attention over pages.
pub static PAGED: KernelSource = KernelSource {
    name: "paged.cu",
    text: include_str!("../../kernels/paged.cu"),
    headers: HEADERS,
    options: OPTIONS,
    kernels: &[
        Kernel::new(
            "attend_decode",
            &[
                Arg::Out(F32),
                Arg::In(F32),
                Arg::In(F32),
                Arg::In(F32),
                Arg::In(I32),
                Arg::In(I32),
                Arg::In(I32),
                Arg::U32,
                Arg::U32,
                Arg::U32,
                Arg::U32,
                Arg::U32,
                Arg::F32,
            ],
        ),
        Kernel::new(
            "attend_packed",
            &[
                Arg::Out(F32),
                Arg::In(F32),
                Arg::In(F32),
                Arg::In(F32),
                Arg::In(I32),
                Arg::In(I32),
                Arg::In(I32),
                Arg::In(I32),
                Arg::U32,
                Arg::U32,
                Arg::U32,
                Arg::U32,
                Arg::U32,
                Arg::U32,
                Arg::F32,
            ],
        ),
    ],
};

/// Drawing tokens.
pub static SAMPLE: KernelSource = KernelSource {
    name: "sample.cu",
    text: include_str!("../../kernels/sample.cu"),
    headers: HEADERS,
    options: OPTIONS,
    kernels: &[Kernel::new(
        "sample",
        &[Arg::Out(I32), Arg::Out(U32), Arg::In(F32), Arg::In(I32), Arg::U32, Arg::U32],
    )],
};
