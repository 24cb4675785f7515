//! Padding on the device: the host side of `pad.cu`.

use std::{ffi::c_void, sync::Arc};

use cudarc::driver::sys::{CUdeviceptr, CUfunc_st, CUmod_st, CUstream};
use graph_core::{Elem, Pad, PadRows, Result};

use crate::{
    Arg, Cuda, Kernel, KernelSource,
    calls::{self, Failure},
    codes,
    control::Doomed,
    device::Device,
    handle::Handle,
    module::load,
};

/// The source of the kernels that pad.
pub static PAD_SOURCE: KernelSource = KernelSource {
    name: "pad.cu",
    text: include_str!("pad.cu"),
    headers: &[],
    options: &[],
    kernels: &[
        Kernel::new(
            "pad_rows_words",
            &[Arg::Out(Elem::U32), Arg::In(Elem::U32), Arg::U32, Arg::U32, Arg::U32, Arg::U32, Arg::U64],
        ),
        Kernel::new(
            "pad_rows_bytes",
            &[Arg::Out(Elem::U8), Arg::In(Elem::U32), Arg::U32, Arg::U32, Arg::U32, Arg::U32, Arg::U64],
        ),
    ],
};

/// Threads of a block.
const THREADS: u32 = 256;
/// Blocks at the most: padding is short, and each thread goes on until the end.
const BLOCKS: u64 = 128;

/// The loaded kernels. They belong to the device, which unloads them when it ends.
pub(crate) struct Pads {
    pub(crate) module: Handle<CUmod_st>,
    words: Handle<CUfunc_st>,
    bytes: Handle<CUfunc_st>,
}

/// One launch, with its arguments.
pub(crate) struct Fill {
    function: Handle<CUfunc_st>,
    blocks: u32,
    data: CUdeviceptr,
    block: CUdeviceptr,
    word: u32,
    row: u32,
    rows: u32,
    kind: u32,
    value: u64,
}

impl Pads {
    pub(crate) fn load(device: &Arc<Device>) -> Result<Pads> {
        let (module, functions) = load(device, &PAD_SOURCE)?;
        match functions[..] {
            [words, bytes] => Ok(Pads { module, words, bytes }),
            _ => {
                device.discard(Doomed::Module(module));
                Err(codes::error("loading pad.cu", codes::NOT_FOUND, "the source declares two kernels"))
            }
        }
    }

    /// Checks the ranges and chooses the kernel.
    pub(crate) fn prepare(&self, device: &Device, pad: &PadRows<'_, Cuda>) -> Result<Fill> {
        let total = pad.rows.saturating_mul(pad.row_bytes);
        let data = pad.buffer.0.range("pad_rows", device, pad.offset, total)?;
        let block =
            pad.header.0.range("pad_rows", device, 0, pad.word.saturating_mul(4).saturating_add(4))?;
        let small = |n: usize| {
            let error =
                |_| codes::error("pad_rows", codes::INVALID_VALUE, format_args!("{n} is beyond 32 bits"));
            u32::try_from(n).map_err(error)
        };
        let in_words = data.is_multiple_of(4) && pad.row_bytes.is_multiple_of(4);
        let unit = if in_words { 4 } else { 1 };
        let (kind, value) = match pad.pad {
            Pad::Zero => (0, 0),
            Pad::RepeatLast => (1, 0),
            Pad::Value(value) => {
                let mut pattern = [0; 8];
                pattern.chunks_exact_mut(value.bytes().len()).for_each(|e| e.copy_from_slice(value.bytes()));
                (0, u64::from_le_bytes(pattern))
            }
        };
        Ok(Fill {
            function: if in_words { self.words } else { self.bytes },
            blocks: (total / unit).div_ceil(THREADS as usize).clamp(1, BLOCKS as usize) as u32,
            data,
            block,
            word: small(pad.word)?,
            row: small(pad.row_bytes / unit)?,
            rows: small(pad.rows)?,
            kind,
            value,
        })
    }
}

impl Fill {
    /// # Safety
    /// The stream is alive, and its context is current.
    pub(crate) unsafe fn launch(&mut self, stream: CUstream) -> Result<(), Failure> {
        let mut arguments: [*mut c_void; 7] = [
            (&raw mut self.data).cast(),
            (&raw mut self.block).cast(),
            (&raw mut self.word).cast(),
            (&raw mut self.row).cast(),
            (&raw mut self.rows).cast(),
            (&raw mut self.kind).cast(),
            (&raw mut self.value).cast(),
        ];
        let function = self.function.raw();
        // SAFETY: the arguments are the kernel's, in order, and are copied before the call returns. The kernel writes
        // rows up to `rows` of the buffer and reads one word of the block, both checked by `prepare`.
        unsafe {
            let arguments = arguments.as_mut_ptr();
            calls::launch_kernel(function, [self.blocks, 1, 1], [THREADS, 1, 1], 0, stream, arguments)
        }
    }
}
