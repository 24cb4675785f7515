//! The model's own kernels on slices, beside the shared ones. An image's result does not depend on the others.

use model_support::kernels::{Rows, attend as attend_head, silu as silu_of};
pub use model_support::kernels::{add, linear, rms_norm};

use crate::TOKENS;

/// Attention of each token over all 16 tokens of its image.
pub fn attend(q: &[f32], keys: &[f32], values: &[f32], heads: usize, width: usize, y: &mut [f32]) {
    let head_dim = width / heads;
    let scale = 1.0 / (head_dim as f32).sqrt();
    for (token, (q, y)) in q.chunks_exact(width).zip(y.chunks_exact_mut(width)).enumerate() {
        let image = token / TOKENS * TOKENS * width;
        for (head, (q, y)) in q.chunks_exact(head_dim).zip(y.chunks_exact_mut(head_dim)).enumerate() {
            let of = |rows| Rows { data: rows, stride: width };
            let from = image + head * head_dim;
            attend_head(q, of(&keys[from..]), of(&values[from..]), TOKENS, scale, y);
        }
    }
}

/// `y = silu(x)`.
pub fn silu(x: &[f32], y: &mut [f32]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y = silu_of(*x));
}

/// The mean of each image's 16 tokens.
pub fn mean(x: &[f32], width: usize, y: &mut [f32]) {
    for (x, y) in x.chunks_exact(TOKENS * width).zip(y.chunks_exact_mut(width)) {
        y.fill(0.0);
        for token in x.chunks_exact(width) {
            y.iter_mut().zip(token).for_each(|(y, t)| *y += t);
        }
        y.iter_mut().for_each(|y| *y /= TOKENS as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_sees_no_other_image() {
        let value = |i: usize| ((i * 53) % 29) as f32 / 9.0 - 1.5;
        let x: Vec<f32> = (0..3 * TOKENS * 8).map(value).collect();
        let mut batch = vec![0.0; x.len()];
        attend(&x, &x, &x, 2, 8, &mut batch);
        for (x, y) in x.chunks(TOKENS * 8).zip(batch.chunks(TOKENS * 8)) {
            let mut alone = vec![0.0; x.len()];
            attend(x, x, x, 2, 8, &mut alone);
            assert_eq!(alone, y);
        }
    }

    #[test]
    fn mean_is_over_the_tokens_of_an_image() {
        let x: Vec<f32> = (0..2 * TOKENS).flat_map(|t| [t as f32, 1.0]).collect();
        let mut y = [f32::NAN; 4];
        mean(&x, 2, &mut y);
        assert_eq!(y, [7.5, 1.0, 23.5, 1.0]);
    }
}
