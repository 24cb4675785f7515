//! The weight of a token: a power of e as an integer, the same to the bit on every machine.

/// `floor(2^32 * exp((logit - top) / temperature))`, to about 30 bits, with only operations that IEEE 754 defines to the
/// bit (f64 add, subtract, multiply, divide, floor; no fused multiply-add). `top` itself has exactly 2^32.
///
/// `x = (logit - top) / temperature * log2(e)` is split into `n + f` with `f` in `[0, 1)`; `2^f` is its Taylor series of
/// degree 13 by Horner's rule, times 2^32 as an integer, shifted right by `-n`.
pub fn weight(logit: f32, top: f32, temperature: f32) -> u64 {
    if logit == top {
        return ONE;
    }
    let x = (f64::from(logit) - f64::from(top)) / f64::from(temperature) * std::f64::consts::LOG2_E;
    // NaN, and what is too small: of two infinities, say.
    if x.is_nan() || x < -32.0 {
        return 0;
    }
    let whole = x.floor();
    let part = x - whole;
    let mut power = TAYLOR[TAYLOR.len() - 1];
    for coefficient in TAYLOR.iter().rev().skip(1) {
        power = power * part + coefficient;
    }
    (power * ONE as f64) as u64 >> (-whole) as u32
}

/// The weight of the largest token.
const ONE: u64 = 1 << 32;

/// `ln(2)^k / k!`: the series of `2^f`.
const TAYLOR: [f64; 14] = taylor();

const fn taylor() -> [f64; 14] {
    let mut terms = [1.0; 14];
    let mut k = 1;
    while k < terms.len() {
        terms[k] = terms[k - 1] * std::f64::consts::LN_2 / k as f64;
        k += 1;
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_power_of_e() {
        for i in 0..4000 {
            let (logit, temperature) = (-(i as f32) * 0.011, 0.5 + (i % 7) as f32 * 0.3);
            let want = (f64::from(logit) / f64::from(temperature)).exp() * ONE as f64;
            let got = weight(logit, 0.0, temperature) as f64;
            assert!((got - want).abs() <= 1.0 + want * 1e-9, "{logit} / {temperature}: {got}, not {want}");
        }
        assert_eq!(weight(3.5, 3.5, 0.1), ONE);
        assert_eq!(weight(f32::NEG_INFINITY, 0.0, 1.0), 0);
        assert_eq!(weight(f32::NAN, 0.0, 1.0), 0);
        assert_eq!(weight(-1.0, f32::INFINITY, 1.0), 0);
        assert!(weight(-1e-30, 0.0, 1e30) >= ONE - 1, "a tiny difference is none");
    }

    #[test]
    fn it_never_rises_as_the_logit_falls() {
        let weights = (0..100_000).map(|i| weight(-(i as f32) * 2e-4, 0.0, 1.0));
        assert!(weights.is_sorted_by(|a, b| a >= b));
    }
}
