//! Launches of attention over pages.

use graph_core::{In, Out, Result};
use graph_cuda::{Cuda, Function, Launch, Stream};
use model_support::{
    Activation,
    cuda::{MOST_HEAD_DIM, check, kernel, size},
};

use super::PAGED;
use crate::{PagedRows, kernels::Heads};

/// Threads of one token and head.
const WARP: u32 = 32;

type Matrix<'a, A> = In<'a, Cuda, A, 2>;
type Output<'a, A> = Out<'a, Cuda, A, 2>;

/// What both launches have: sizes in 32 bits, of views that fit together.
struct Sizes {
    tokens: u32,
    heads: u32,
    indices: u32,
    page_size: u32,
    cache_rows: u32,
    kv_heads: u32,
    head_dim: u32,
    scale: f32,
}

impl Sizes {
    fn of<A: Activation>(
        op: &str,
        q: Matrix<'_, A>,
        [keys, values]: [Matrix<'_, A>; 2],
        rows: &PagedRows<'_, Cuda>,
        sizes: Heads,
        y: Output<'_, A>,
    ) -> Result<Self> {
        let Heads { heads, kv_heads, head_dim } = sizes;
        let ([tokens, width], [cache_rows, kv_width]) = (q.dims(), keys.dims());
        let whole = kv_heads > 0 && heads % kv_heads == 0 && (1..=MOST_HEAD_DIM).contains(&head_dim);
        let widths = width == heads * head_dim && kv_width == kv_heads * head_dim;
        let pages = (1..=cache_rows).contains(&rows.page_size);
        let same = values.dims() == keys.dims() && y.dims() == q.dims();
        let dims: [&[usize]; 5] =
            [&q.dims(), &keys.dims(), &values.dims(), &[heads, kv_heads, head_dim], &y.dims()];
        check(op, whole && widths && pages && same, &dims)?;
        size(rows.page_indices.len() * rows.page_size)?;
        Ok(Sizes {
            tokens: size(tokens)?,
            heads: size(heads)?,
            indices: size(rows.page_indices.len())?,
            page_size: size(rows.page_size)?,
            cache_rows: size(cache_rows)?,
            kv_heads: size(kv_heads)?,
            head_dim: size(head_dim)?,
            scale: 1.0 / (head_dim as f32).sqrt(),
        })
    }

    fn on<'a>(&self, function: &'a Function, stream: &'a Stream) -> Launch<'a> {
        function.on(stream).grid([self.tokens, self.heads, 1]).block([WARP, 1, 1])
    }

    fn give<'a>(&self, launch: Launch<'a>) -> Launch<'a> {
        let launch = launch.arg(self.indices).arg(self.page_size).arg(self.cache_rows);
        launch.arg(self.kv_heads).arg(self.head_dim).arg(self.scale)
    }
}

/// One token per row.
pub(super) fn attend_decode<A: Activation>(
    stream: &Stream,
    q: Matrix<'_, A>,
    cache: [Matrix<'_, A>; 2],
    rows: PagedRows<'_, Cuda>,
    heads: Heads,
    y: Output<'_, A>,
) -> Result<()> {
    let sizes = Sizes::of("attend_decode", q, cache, &rows, heads, y)?;
    let [tokens, _] = q.dims();
    let fits = rows.page_indptr.len() == tokens + 1 && rows.last_page_len.len() == tokens;
    check("attend_decode", fits, &[&q.dims(), &rows.page_indptr.dims(), &rows.last_page_len.dims()])?;
    if tokens == 0 {
        return Ok(());
    }
    let attend = kernel(stream, &PAGED, A::ACTIVATIONS.pick("attend_decode_f32", "attend_decode_bf16"))?;
    let launch = sizes.on(&attend, stream).arg(y).arg(q).arg(cache[0]).arg(cache[1]);
    let launch = launch.arg(rows.page_indptr).arg(rows.page_indices).arg(rows.last_page_len);
    // SAFETY: a block has one of the tokens of `q` and `y` and one head; the plan's arrays have an entry per token (one
    // more in `page_indptr`), and the kernel ends what they say at the entries, pages and rows that there are.
    unsafe { sizes.give(launch).launch() }
}

/// Chunks of prompts.
pub(super) fn attend_packed<A: Activation>(
    stream: &Stream,
    q: Matrix<'_, A>,
    cache: [Matrix<'_, A>; 2],
    rows: PagedRows<'_, Cuda>,
    heads: Heads,
    y: Output<'_, A>,
) -> Result<()> {
    let sizes = Sizes::of("attend_packed", q, cache, &rows, heads, y)?;
    let ([tokens, _], segments) = (q.dims(), rows.indptr.len().saturating_sub(1));
    let fits = rows.positions.len() == tokens && rows.page_indptr.len() == segments + 1 && segments > 0;
    let dims: [&[usize]; 4] =
        [&q.dims(), &rows.indptr.dims(), &rows.positions.dims(), &rows.page_indptr.dims()];
    check("attend_packed", fits, &dims)?;
    if tokens == 0 {
        return Ok(());
    }
    let attend = kernel(stream, &PAGED, A::ACTIVATIONS.pick("attend_packed_f32", "attend_packed_bf16"))?;
    let launch = sizes.on(&attend, stream).arg(y).arg(q).arg(cache[0]).arg(cache[1]);
    let launch = launch.arg(rows.indptr).arg(rows.positions).arg(rows.page_indptr).arg(rows.page_indices);
    // SAFETY: as for decode; `indptr` and `page_indptr` have one entry more than rows, and there is a row.
    unsafe { sizes.give(launch.arg(size(segments)?)).launch() }
}
