//! Element by element, or row by row.

/// `y = x * rsqrt(mean(x^2) + eps) * weight`, row by row.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, y: &mut [f32]) {
    let n = weight.len();
    for (x, y) in x.chunks_exact(n).zip(y.chunks_exact_mut(n)) {
        let mean = x.iter().map(|v| v * v).sum::<f32>() / n as f32;
        let scale = 1.0 / (mean + eps).sqrt();
        for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
            *y = x * scale * w;
        }
    }
}

/// `y[i] = a[i] + b[i mod b.len()]`: a residual, a bias, or one table for every request.
pub fn add(a: &[f32], b: &[f32], y: &mut [f32]) {
    for ((y, a), b) in y.iter_mut().zip(a).zip(b.iter().cycle()) {
        *y = a + b;
    }
}

/// `x / (1 + exp(-x))`.
pub fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rms_norm_scales_rows_to_unit_mean_square() {
        let mut y = [0.0; 4];
        rms_norm(&[3.0, 3.0, 0.0, 2.0], &[1.0, 2.0], 0.0, &mut y);
        assert_eq!(y[..2], [1.0, 2.0]);
        assert!((y[3] - 2.0 * 2.0_f32.sqrt()).abs() < 1e-6, "{y:?}");
    }

    #[test]
    fn add_repeats_the_shorter_operand() {
        let mut y = [0.0; 4];
        add(&[1.0, 2.0, 3.0, 4.0], &[10.0, 20.0], &mut y);
        assert_eq!(y, [11.0, 22.0, 13.0, 24.0]);
    }

    #[test]
    fn silu_of_zero_and_of_large_values() {
        assert_eq!(silu(0.0), 0.0);
        assert_eq!(silu(50.0), 50.0);
        assert_eq!(silu(-200.0), 0.0);
    }
}
