//! Products with weights in the layout of the files: `[out, in]`.

use ndarray::{ArrayView1, ArrayView2, ArrayViewMut1, linalg::general_mat_vec_mul};

/// `y = x W^T`, one row of `x` at a time, so that a row's sums never depend on how many rows there are.
///
/// # Panics
/// When the lengths do not make whole matrices.
pub fn linear(x: &[f32], weight: &[f32], in_features: usize, y: &mut [f32]) {
    let out_features = weight.len() / in_features;
    let weight =
        ArrayView2::from_shape((out_features, in_features), weight).expect("a weight is [out, in_features]");
    assert_eq!(x.len() / in_features, y.len() / out_features, "as many rows of y as of x");
    for (x, y) in x.chunks_exact(in_features).zip(y.chunks_exact_mut(out_features)) {
        general_mat_vec_mul(1.0, &weight, &ArrayView1::from(x), 0.0, &mut ArrayViewMut1::from(y));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_a_plain_loop() {
        let x = [1.0, 2.0, 3.0, -1.0, 0.5, 4.0];
        let w = [1.0, 0.0, 2.0, 0.0, -1.0, 1.0];
        let mut y = [f32::NAN; 4];
        linear(&x, &w, 3, &mut y);
        assert_eq!(y, [7.0, 1.0, 7.0, 3.5]);
    }

    #[test]
    fn a_row_has_the_same_bits_alone_and_in_any_batch() {
        let value = |i: usize| ((i * 2_654_435_761) % 1000) as f32 / 321.0 - 1.5;
        for (rows, inner, outer) in [(1, 128, 64), (7, 352, 128), (16, 37, 5), (256, 64, 10)] {
            let x: Vec<f32> = (0..rows * inner).map(value).collect();
            let w: Vec<f32> = (0..outer * inner).map(|i| value(i + 17)).collect();
            let mut batch = vec![0.0; rows * outer];
            linear(&x, &w, inner, &mut batch);
            for r in 0..rows {
                // At an odd address too: alignment must not change the sums.
                let mut shifted = vec![0.0; inner + 1];
                shifted[1..].copy_from_slice(&x[r * inner..(r + 1) * inner]);
                let mut alone = vec![0.0; outer];
                linear(&shifted[1..], &w, inner, &mut alone);
                let bits = |y: &[f32]| y.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&alone), bits(&batch[r * outer..(r + 1) * outer]), "row {r} of {rows}");
            }
        }
    }
}
