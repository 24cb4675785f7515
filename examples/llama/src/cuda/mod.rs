//! The model on CUDA: the sources of its kernels, and a checked launch for each operation.

mod ops;
mod paged;

use graph_core::Elem::{self, BF16, F32, I32, U32};
use graph_cuda::{Arg, Kernel, KernelSource};
use model_support::cuda::{HEADERS, OPTIONS};

/// The kernels that are element by element.
pub static DECODER: KernelSource = KernelSource {
    name: "decoder.cu",
    text: include_str!("../../kernels/decoder.cu"),
    headers: HEADERS,
    options: OPTIONS,
    kernels: &[
        Kernel::new("gather_f32_f32", &gather(F32, F32)),
        Kernel::new("gather_f32_bf16", &gather(F32, BF16)),
        Kernel::new("gather_bf16_f32", &gather(BF16, F32)),
        Kernel::new("gather_bf16_bf16", &gather(BF16, BF16)),
        Kernel::new("rotary_f32", &rotary(F32)),
        Kernel::new("rotary_bf16", &rotary(BF16)),
        Kernel::new("store_kv_f32", &store_kv(F32)),
        Kernel::new("store_kv_bf16", &store_kv(BF16)),
        Kernel::new("silu_mul_f32", &silu_mul(F32)),
        Kernel::new("silu_mul_bf16", &silu_mul(BF16)),
    ],
};

const fn gather(y: Elem, table: Elem) -> [Arg; 6] {
    [Arg::Out(y), Arg::In(table), Arg::In(I32), Arg::U32, Arg::U32, Arg::U32]
}

const fn rotary(of: Elem) -> [Arg; 7] {
    [Arg::Out(of), Arg::In(of), Arg::In(I32), Arg::In(F32), Arg::U32, Arg::U32, Arg::U32]
}

const fn store_kv(of: Elem) -> [Arg; 8] {
    [Arg::Out(of), Arg::Out(of), Arg::In(of), Arg::In(of), Arg::In(I32), Arg::U32, Arg::U32, Arg::U32]
}

const fn silu_mul(of: Elem) -> [Arg; 4] {
    [Arg::Out(of), Arg::In(of), Arg::In(of), Arg::U32]
}

/// Attention over pages.
pub static PAGED: KernelSource = KernelSource {
    name: "paged.cu",
    text: include_str!("../../kernels/paged.cu"),
    headers: HEADERS,
    options: OPTIONS,
    kernels: &[
        Kernel::new("attend_decode_f32", &attend_decode(F32)),
        Kernel::new("attend_decode_bf16", &attend_decode(BF16)),
        Kernel::new("attend_packed_f32", &attend_packed(F32)),
        Kernel::new("attend_packed_bf16", &attend_packed(BF16)),
    ],
};

const fn attend_decode(of: Elem) -> [Arg; 13] {
    [
        Arg::Out(of),
        Arg::In(of),
        Arg::In(of),
        Arg::In(of),
        Arg::In(I32),
        Arg::In(I32),
        Arg::In(I32),
        Arg::U32,
        Arg::U32,
        Arg::U32,
        Arg::U32,
        Arg::U32,
        Arg::F32,
    ]
}

const fn attend_packed(of: Elem) -> [Arg; 15] {
    [
        Arg::Out(of),
        Arg::In(of),
        Arg::In(of),
        Arg::In(of),
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
    ]
}

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
