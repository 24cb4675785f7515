//! The decoder's own kernels on slices, beside the shared ones.
//!
//! All work row by row: a row's result does not depend on the rows beside it. A token, slot or position out of range
//! panics, like a wrong length; the host backend makes an error of it.

use model_support::kernels::{Rows, attend as attend_head, silu};
pub use model_support::kernels::{add, linear, rms_norm};

/// How keys and values of all requests lie in one buffer: `context` rows for each slot, slot 0 for padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvLayout {
    /// Rows of one slot: positions that a request can have.
    pub context: usize,
    /// Slots, the one for padding included.
    pub slots: usize,
}

impl KvLayout {
    /// The slot that padded rows write to.
    pub const SINK: i32 = 0;

    /// Rows of all slots.
    pub fn rows(&self) -> usize {
        self.slots * self.context
    }

    /// The row of a position; `None` where slot or position are out of range.
    pub fn row(&self, slot: i32, position: i32) -> Option<usize> {
        let (slot, position) = (usize::try_from(slot).ok()?, usize::try_from(position).ok()?);
        (slot < self.slots && position < self.context).then(|| slot * self.context + position)
    }

    fn row_or_panic(&self, slot: i32, position: i32) -> usize {
        let KvLayout { context, slots } = self;
        self.row(slot, position).unwrap_or_else(|| {
            panic!("slot {slot} of {slots}, position {position} of {context}: out of range")
        })
    }
}

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

/// Which row of the keys and values each token has.
#[derive(Clone, Copy, Debug)]
pub struct KvRows<'a> {
    /// The slot of each token's request.
    pub slots: &'a [i32],
    /// The position of each token.
    pub positions: &'a [i32],
    /// Where slots begin.
    pub layout: KvLayout,
}

impl KvRows<'_> {
    fn rows(&self) -> impl Iterator<Item = usize> {
        self.slots
            .iter()
            .zip(self.positions)
            .map(|(slot, position)| self.layout.row_or_panic(*slot, *position))
    }
}

/// `y[i] = table[rows[i]]`: the embedding of tokens, or some rows of a batch.
pub fn gather(table: &[f32], rows: &[i32], width: usize, y: &mut [f32]) {
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

/// Writes each token's keys (or values) to its row.
pub fn store_kv(x: &[f32], at: KvRows<'_>, width: usize, cache: &mut [f32]) {
    for (x, row) in x.chunks_exact(width).zip(at.rows()) {
        cache[row * width..(row + 1) * width].copy_from_slice(x);
    }
}

/// Causal attention of each token over its request's rows `0..=position`, whatever batch or chunk it comes in. Query
/// heads share key heads in groups.
pub fn attend(q: &[f32], keys: &[f32], values: &[f32], at: KvRows<'_>, sizes: Heads, y: &mut [f32]) {
    let Heads { heads, kv_heads, head_dim } = sizes;
    let (width, stride) = (heads * head_dim, kv_heads * head_dim);
    let scale = 1.0 / (head_dim as f32).sqrt();
    for ((q, y), row) in q.chunks_exact(width).zip(y.chunks_exact_mut(width)).zip(at.rows()) {
        let first = row / at.layout.context * at.layout.context;
        for (head, (q, y)) in q.chunks_exact(head_dim).zip(y.chunks_exact_mut(head_dim)).enumerate() {
            let from = first * stride + head / (heads / kv_heads) * head_dim;
            let of = |cache| Rows { data: cache, stride };
            attend_head(q, of(&keys[from..]), of(&values[from..]), row - first + 1, scale, y);
        }
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

    const LAYOUT: KvLayout = KvLayout { context: 4, slots: 3 };

    #[test]
    fn rows_of_slots_do_not_overlap_and_have_bounds() {
        assert_eq!(LAYOUT.row(0, 3), Some(3));
        assert_eq!(LAYOUT.row(1, 0), Some(4));
        assert_eq!(LAYOUT.row(2, 3), Some(LAYOUT.rows() - 1));
        for (slot, position) in [(3, 0), (0, 4), (-1, 0), (0, -1)] {
            assert_eq!(LAYOUT.row(slot, position), None);
        }
    }

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
    #[should_panic(expected = "slot 1 of 3, position 4 of 4")]
    fn a_position_beyond_the_context_panics() {
        let at = KvRows { slots: &[1], positions: &[4], layout: LAYOUT };
        store_kv(&[1.0], at, 1, &mut [0.0; 12]);
    }

    #[test]
    fn attention_is_the_same_token_by_token_and_packed_and_sees_no_later_row() {
        let sizes = Heads { heads: 4, kv_heads: 2, head_dim: 2 };
        let value = |i: usize| ((i * 37) % 19) as f32 / 7.0 - 1.0;
        let q: Vec<f32> = (0..3 * 8).map(value).collect();
        let mut keys: Vec<f32> = (0..LAYOUT.rows() * 4).map(|i| value(i + 5)).collect();
        let values: Vec<f32> = (0..LAYOUT.rows() * 4).map(|i| value(i + 9)).collect();
        fn rows<'a>(slots: &'a [i32], positions: &'a [i32]) -> KvRows<'a> {
            KvRows { slots, positions, layout: LAYOUT }
        }
        let mut packed = vec![0.0; 24];
        attend(&q, &keys, &values, rows(&[1, 1, 2], &[0, 1, 3]), sizes, &mut packed);
        keys[(4 + 2) * 4..8 * 4].fill(f32::NAN); // positions 2 and 3 of slot 1
        for (i, at) in [([1], [0]), ([1], [1]), ([2], [3])].into_iter().enumerate() {
            let mut alone = vec![0.0; 8];
            attend(&q[i * 8..][..8], &keys, &values, rows(&at.0, &at.1), sizes, &mut alone);
            assert_eq!(alone, packed[i * 8..][..8], "token {i}");
        }
        // Position 0 sees one row: its values, by group of two query heads.
        let first = &values[4 * 4..5 * 4];
        assert_eq!(packed[..8], [&first[..2], &first[..2], &first[2..], &first[2..]].concat());
    }

    #[test]
    fn stores_go_to_their_rows_only() {
        let mut cache = vec![0.0; LAYOUT.rows()];
        let at = KvRows { slots: &[2, 0], positions: &[1, 0], layout: LAYOUT };
        store_kv(&[1.0, 2.0], at, 1, &mut cache);
        let written: Vec<_> = cache.iter().enumerate().filter(|(_, v)| **v != 0.0).collect();
        assert_eq!(written, [(0, &2.0), (9, &1.0)]);
    }
}
