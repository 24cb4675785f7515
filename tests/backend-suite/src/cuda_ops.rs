//! The toy operations on CUDA: checked launches of the kernels of `suite.cu`.

use graph_core::{
    Elem::{F32, I32},
    In, Out, Result,
};
use graph_cuda::{Arg, Cuda, Kernel, KernelSource, Module, Stream};
use llama_plugin::PagedRows;
use model_support::cuda::{HEADERS, OPTIONS, THREADS, blocks, check, kernel, size};

use crate::SuiteOps;

/// The kernels.
pub static SUITE: KernelSource = KernelSource {
    name: "suite.cu",
    text: include_str!("../kernels/suite.cu"),
    headers: HEADERS,
    options: OPTIONS,
    kernels: &[
        Kernel::new("affine", &[Arg::Out(F32), Arg::In(F32), Arg::F32, Arg::F32, Arg::U32]),
        Kernel::new(
            "add_up",
            &[Arg::Out(F32), Arg::In(I32), Arg::In(I32), Arg::In(I32), Arg::In(F32), Arg::U32],
        ),
        Kernel::new("spread", &[Arg::Out(F32), Arg::In(F32), Arg::In(F32), Arg::In(F32), Arg::U32]),
        Kernel::new("count", &[Arg::Out(I32), Arg::Out(I32), Arg::In(I32), Arg::U32, Arg::U32]),
        Kernel::new(
            "write_keys",
            &[Arg::Out(F32), Arg::In(I32), Arg::In(I32), Arg::In(I32), Arg::U32, Arg::U32],
        ),
        Kernel::new(
            "sum_pages",
            &[
                Arg::Out(F32),
                Arg::In(F32),
                Arg::In(I32),
                Arg::In(I32),
                Arg::In(I32),
                Arg::U32,
                Arg::U32,
                Arg::U32,
            ],
        ),
        Kernel::new("toy_logits", &[Arg::Out(F32), Arg::In(F32), Arg::U32, Arg::U32]),
    ],
};

impl SuiteOps for Cuda {
    type SuiteKernels = Module;

    fn suite_kernels(device: &Cuda) -> Result<Module> {
        device.load_once(&SUITE)
    }

    fn affine(
        stream: &Stream,
        x: In<'_, Cuda, f32, 1>,
        scale: f32,
        shift: f32,
        y: Out<'_, Cuda, f32, 1>,
    ) -> Result<()> {
        check("affine", x.dims() == y.dims(), &[&x.dims(), &y.dims()])?;
        let (n, affine) = (size(x.len())?, kernel(stream, &SUITE, "affine")?);
        let launch = affine.on(stream).grid(blocks(n)).block([THREADS, 1, 1]);
        // SAFETY: both views have `n` elements.
        unsafe { launch.arg(y).arg(x).arg(scale).arg(shift).arg(n).launch() }
    }

    fn add_up(
        stream: &Stream,
        ids: In<'_, Cuda, i32, 1>,
        rope: In<'_, Cuda, i32, 2>,
        m: In<'_, Cuda, i32, 1>,
        z: In<'_, Cuda, f32, 1>,
        sum: Out<'_, Cuda, f32, 1>,
    ) -> Result<()> {
        let n = ids.len();
        let fits = [m.dims(), z.dims(), sum.dims()] == [[n]; 3] && rope.dims() == [3, n];
        check("add_up", fits, &[&ids.dims(), &rope.dims(), &m.dims(), &z.dims(), &sum.dims()])?;
        let (n, add_up) = (size(n)?, kernel(stream, &SUITE, "add_up")?);
        let launch = add_up.on(stream).grid(blocks(n)).block([THREADS, 1, 1]);
        // SAFETY: `rope` has three runs of `n` elements, every other view has `n`.
        unsafe { launch.arg(sum).arg(ids).arg(rope).arg(m).arg(z).arg(n).launch() }
    }

    fn spread(
        stream: &Stream,
        x: In<'_, Cuda, f32, 2>,
        scale: In<'_, Cuda, f32, 1>,
        sum: In<'_, Cuda, f32, 1>,
        y: Out<'_, Cuda, f32, 2>,
    ) -> Result<()> {
        let n = scale.len();
        let fits = sum.dims() == [n] && [x.dims(), y.dims()] == [[n, 2]; 2];
        check("spread", fits, &[&x.dims(), &scale.dims(), &sum.dims(), &y.dims()])?;
        let (n, spread) = (size(n)?, kernel(stream, &SUITE, "spread")?);
        let launch = spread.on(stream).grid(blocks(n)).block([THREADS, 1, 1]);
        // SAFETY: `scale` and `sum` have `n` elements, `x` and `y` have `n` rows of two.
        unsafe { launch.arg(y).arg(x).arg(scale).arg(sum).arg(n).launch() }
    }

    fn count(
        stream: &Stream,
        page: In<'_, Cuda, i32, 1>,
        counts: Out<'_, Cuda, i32, 1>,
        now: Out<'_, Cuda, i32, 1>,
    ) -> Result<()> {
        check("count", page.dims() == now.dims(), &[&page.dims(), &now.dims()])?;
        let (n, pages, count) =
            (size(page.len())?, size(counts.read().len())?, kernel(stream, &SUITE, "count")?);
        // SAFETY: `page` and `now` have `n` elements; the kernel compares pages with the number of counts.
        unsafe { count.on(stream).arg(now).arg(counts).arg(page).arg(n).arg(pages).launch() }
    }

    fn write_keys(
        stream: &Stream,
        token: In<'_, Cuda, i32, 1>,
        slot_mapping: In<'_, Cuda, i32, 1>,
        positions: In<'_, Cuda, i32, 1>,
        keys: Out<'_, Cuda, f32, 2>,
    ) -> Result<()> {
        let n = token.len();
        let fits = [slot_mapping.dims(), positions.dims()] == [[n]; 2] && keys.dims()[1] == 1;
        check("write_keys", fits, &[&token.dims(), &slot_mapping.dims(), &positions.dims(), &keys.dims()])?;
        let (n, rows, write) = (size(n)?, size(keys.dims()[0])?, kernel(stream, &SUITE, "write_keys")?);
        let launch = write.on(stream).grid(blocks(n)).block([THREADS, 1, 1]);
        // SAFETY: the inputs have `n` elements; the kernel compares rows with those of the keys, of one element each.
        unsafe { launch.arg(keys).arg(token).arg(slot_mapping).arg(positions).arg(n).arg(rows).launch() }
    }

    fn sum_pages(
        stream: &Stream,
        keys: In<'_, Cuda, f32, 2>,
        rows: PagedRows<'_, Cuda>,
        sum: Out<'_, Cuda, f32, 1>,
    ) -> Result<()> {
        let n = sum.dims()[0];
        let fits = rows.page_indptr.len() == n + 1 && rows.last_page_len.len() == n && keys.dims()[1] == 1;
        let dims: [&[usize]; 3] = [&keys.dims(), &rows.page_indptr.dims(), &rows.last_page_len.dims()];
        check("sum_pages", fits, &dims)?;
        let (n, page_size, key_rows) = (size(n)?, size(rows.page_size)?, size(keys.len())?);
        let sum_pages = kernel(stream, &SUITE, "sum_pages")?;
        let launch = sum_pages.on(stream).grid(blocks(n)).block([THREADS, 1, 1]);
        let launch = launch.arg(sum).arg(keys).arg(rows.page_indptr).arg(rows.page_indices);
        // SAFETY: a thread has one of `n` rows, whose entries of the plan lie within its lists, as the resource makes
        // them; the kernel compares what they point at with the rows of the keys.
        unsafe { launch.arg(rows.last_page_len).arg(n).arg(page_size).arg(key_rows).launch() }
    }

    fn toy_logits(stream: &Stream, sum: In<'_, Cuda, f32, 1>, logits: Out<'_, Cuda, f32, 2>) -> Result<()> {
        let [rows, vocabulary] = logits.dims();
        check("toy_logits", sum.dims() == [rows] && vocabulary > 0, &[&sum.dims(), &logits.dims()])?;
        let (n, vocabulary) = (size(rows * vocabulary)?, size(vocabulary)?);
        let toy_logits = kernel(stream, &SUITE, "toy_logits")?;
        let launch = toy_logits.on(stream).grid(blocks(n)).block([THREADS, 1, 1]);
        // SAFETY: `logits` has `n` elements, in one row of `vocabulary` for each of the sums.
        unsafe { launch.arg(logits).arg(sum).arg(n).arg(vocabulary).launch() }
    }
}
