//! The decoder's own kernels on slices, beside the shared ones.
//!
//! All work row by row: a row's result does not depend on the rows beside it. A token or row out of range panics,
//! like a wrong length; the host backend makes an error of it.

pub use model_support::kernels::{add, linear, rms_norm};
use model_support::{
    Activation,
    kernels::{PagedRows, attend_paged, silu},
};

/// The sizes of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
}

/// The keys and values of a layer, `[rows, kv_dim]` each.
#[derive(Clone, Copy, Debug)]
pub struct Cache<'a, T> {
    /// The keys.
    pub keys: &'a [T],
    /// The values.
    pub values: &'a [T],
}

/// The pages of each row of a step.
#[derive(Clone, Copy, Debug)]
pub struct Pages<'a> {
    /// The pages of row `r` are `indices[indptr[r]..indptr[r + 1]]`.
    pub indptr: &'a [i32],
    /// Pages in token order.
    pub indices: &'a [i32],
    /// Tokens of a page.
    pub page_size: usize,
}

impl<'a> Pages<'a> {
    fn of(&self, row: usize) -> &'a [i32] {
        &self.indices[self.indptr[row] as usize..self.indptr[row + 1] as usize]
    }
}

/// The queries of each row of a step.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'a> {
    /// The queries of row `r` are tokens `indptr[r]..indptr[r + 1]`.
    pub indptr: &'a [i32],
    /// The place of each token in its context.
    pub positions: &'a [i32],
}

/// `y[i] = table[rows[i]]`: the embedding of tokens, or some rows of a batch.
pub fn gather<T: Copy>(table: &[T], rows: &[i32], width: usize, y: &mut [T]) {
    for (row, y) in rows.iter().zip(y.chunks_exact_mut(width)) {
        let from = usize::try_from(*row).ok().and_then(|row| table.get(row * width..(row + 1) * width));
        let rows = table.len() / width;
        y.copy_from_slice(
            from.unwrap_or_else(|| panic!("row {row} of a table of {rows} rows: out of range")),
        );
    }
}

/// The rotary embedding in the rotate-half form: dimension `i` of a head turns with dimension `i + head_dim / 2`.
pub fn rotary(x: &[f32], positions: &[i32], inverse_frequencies: &[f32], y: &mut [f32]) {
    let half = inverse_frequencies.len();
    let width = x.len() / positions.len().max(1);
    for ((x, y), position) in x.chunks_exact(width).zip(y.chunks_exact_mut(width)).zip(positions) {
        for (i, frequency) in inverse_frequencies.iter().enumerate() {
            let (sin, cos) = (*position as f32 * frequency).sin_cos();
            for head in (0..width).step_by(2 * half) {
                let (a, b) = (head + i, head + i + half);
                y[a] = x[a] * cos - x[b] * sin;
                y[b] = x[b] * cos + x[a] * sin;
            }
        }
    }
}

/// Writes each token's keys (or values) to its row of the cache.
pub fn store<T: Copy>(x: &[T], slot_mapping: &[i32], width: usize, cache: &mut [T]) {
    for (x, row) in x.chunks_exact(width).zip(slot_mapping) {
        let rows = cache.len() / width;
        let to = usize::try_from(*row).ok().and_then(|row| cache.get_mut(row * width..(row + 1) * width));
        to.unwrap_or_else(|| panic!("row {row} of a cache of {rows} rows: out of range")).copy_from_slice(x);
    }
}

/// Attention of one token per row over its whole context. A row without pages is zero.
pub fn attend_decode<T: Activation>(
    q: &[f32],
    cache: Cache<'_, T>,
    pages: Pages<'_>,
    last_page_len: &[i32],
    heads: Heads,
    y: &mut [f32],
) {
    let width = heads.heads * heads.head_dim;
    let rows = q.chunks_exact(width).zip(y.chunks_exact_mut(width)).zip(last_page_len);
    for (row, ((q, y), last)) in rows.enumerate() {
        let mine = pages.of(row);
        let tokens = mine.len().saturating_sub(1) * pages.page_size + *last as usize;
        attend_token(q, cache, (mine, pages.page_size), tokens, heads, y);
    }
}

/// Causal attention of packed chunks: each token over tokens `0..=position` of its row's context, whatever batch or
/// chunk it comes in. Tokens beyond the last row's are zero.
pub fn attend_packed<T: Activation>(
    q: &[f32],
    cache: Cache<'_, T>,
    pages: Pages<'_>,
    queries: Queries<'_>,
    heads: Heads,
    y: &mut [f32],
) {
    let width = heads.heads * heads.head_dim;
    y.fill(0.0);
    for (row, ends) in queries.indptr.windows(2).enumerate() {
        for token in ends[0] as usize..ends[1] as usize {
            let at = token * width..(token + 1) * width;
            let tokens = queries.positions[token] as usize + 1;
            attend_token(&q[at.clone()], cache, (pages.of(row), pages.page_size), tokens, heads, &mut y[at]);
        }
    }
}

/// All heads of one token over the first `tokens` tokens of a context. Query heads share key heads in groups.
fn attend_token<T: Activation>(
    q: &[f32],
    cache: Cache<'_, T>,
    (pages, page_size): (&[i32], usize),
    tokens: usize,
    sizes: Heads,
    y: &mut [f32],
) {
    let Heads { heads, kv_heads, head_dim } = sizes;
    let (stride, scale) = (kv_heads * head_dim, 1.0 / (head_dim as f32).sqrt());
    for (head, (q, y)) in q.chunks_exact(head_dim).zip(y.chunks_exact_mut(head_dim)).enumerate() {
        let from = head / (heads / kv_heads) * head_dim;
        let of = |cache| PagedRows { data: cache, stride, from, pages, page_size };
        attend_paged(q, of(cache.keys), of(cache.values), tokens, scale, y);
    }
}

/// `y = silu(gate) * up`.
pub fn silu_mul(gate: &[f32], up: &[f32], y: &mut [f32]) {
    for ((y, gate), up) in y.iter_mut().zip(gate).zip(up) {
        *y = silu(*gate) * up;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotary_turns_pairs_and_keeps_their_length() {
        let mut y = [0.0; 4];
        rotary(&[1.0, 2.0, 0.0, 0.5], &[3], &[1.0, 0.01], &mut y);
        let (sin, cos) = 3.0_f32.sin_cos();
        assert_eq!((y[0], y[2]), (cos, sin));
        assert!((y[1].hypot(y[3]) - 2.0_f32.hypot(0.5)).abs() < 1e-6);
        rotary(&[1.0, 2.0, 0.0, 0.5], &[0], &[1.0, 0.01], &mut y);
        assert_eq!(y, [1.0, 2.0, 0.0, 0.5]);
    }

    #[test]
    #[should_panic(expected = "row 2 of a table of 2 rows")]
    fn a_token_outside_the_table_panics() {
        gather(&[1.0, 2.0, 3.0, 4.0], &[1, 2], 2, &mut [0.0; 4]);
    }

    #[test]
    #[should_panic(expected = "row 12 of a cache of 12 rows")]
    fn a_row_beyond_the_cache_panics() {
        store(&[1.0], &[12], 1, &mut [0.0; 12]);
    }

    #[test]
    fn stores_go_to_their_rows_only() {
        let mut cache = vec![0.0; 12];
        store(&[1.0, 2.0], &[9, 0], 1, &mut cache);
        let written: Vec<_> = cache.iter().enumerate().filter(|(_, v)| **v != 0.0).collect();
        assert_eq!(written, [(0, &2.0), (9, &1.0)]);
    }

    const SIZES: Heads = Heads { heads: 4, kv_heads: 2, head_dim: 2 };

    fn value(i: usize) -> f32 {
        ((i * 37) % 19) as f32 / 7.0 - 1.0
    }

    /// A cache of `rows` rows whose token `i` of context `c` has the same numbers wherever its page is.
    fn cache(contexts: &[(&[i32], usize)], page_size: usize, rows: usize) -> (Vec<f32>, Vec<f32>) {
        let (mut keys, mut values) = (vec![f32::NAN; rows * 4], vec![f32::NAN; rows * 4]);
        for (c, (pages, tokens)) in contexts.iter().enumerate() {
            for i in 0..*tokens {
                let row = pages[i / page_size] as usize * page_size + i % page_size;
                for j in 0..4 {
                    keys[row * 4 + j] = value(c * 100 + i * 4 + j + 5);
                    values[row * 4 + j] = value(c * 100 + i * 4 + j + 9);
                }
            }
        }
        (keys, values)
    }

    /// Two contexts of 7 and 3 tokens, the last 4 and 1 of which are queries.
    fn packed(page_size: usize, pages: [&[i32]; 2]) -> Vec<f32> {
        let (keys, values) = cache(&[(pages[0], 7), (pages[1], 3)], page_size, 40);
        let indices = pages.concat();
        let indptr = [0, pages[0].len() as i32, indices.len() as i32, indices.len() as i32];
        let pages = Pages { indptr: &indptr, indices: &indices, page_size };
        let queries = Queries { indptr: &[0, 4, 5, 5], positions: &[3, 4, 5, 6, 2, 0] };
        let q: Vec<f32> = (0..6 * 8).map(value).collect();
        let mut y = vec![f32::NAN; 6 * 8];
        attend_packed(&q, Cache { keys: &keys, values: &values }, pages, queries, SIZES, &mut y);
        y
    }

    #[test]
    fn attention_has_the_same_bits_at_any_page_size_and_zeros_for_padding() {
        let one = packed(1, [&[9, 3, 4, 20, 7, 11, 2], &[1, 5, 6]]);
        assert!(one[..40].iter().all(|y| y.is_finite()), "no row of another context was read");
        assert_eq!(one[40..], [0.0; 8], "the padding token");
        assert_eq!(packed(2, [&[7, 3, 4, 9], &[1, 5]]), one);
        assert_eq!(packed(4, [&[7, 2], &[1]]), one);
        assert_eq!(packed(16, [&[1], &[2]]), one);
    }

    #[test]
    fn a_token_of_a_packed_chunk_has_the_bits_that_decode_gives_it() {
        let want = packed(4, [&[7, 2], &[1]]);
        let (keys, values) = cache(&[(&[7, 2], 7), (&[1], 3)], 4, 40);
        let cache = Cache { keys: &keys, values: &values };
        let q: Vec<f32> = (0..6 * 8).map(value).collect();
        let mut y = vec![f32::NAN; 3 * 8];
        // The last token of either context, and a row of padding.
        let pages = Pages { indptr: &[0, 2, 3, 3], indices: &[7, 2, 1, 0], page_size: 4 };
        attend_decode(&q[3 * 8..], cache, pages, &[3, 3, 0], SIZES, &mut y);
        assert_eq!(y[..16], want[3 * 8..5 * 8]);
        assert_eq!(y[16..], [0.0; 8]);
    }
}
