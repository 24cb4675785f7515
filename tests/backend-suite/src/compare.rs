//! Comparisons that say where two results differ.

use model_support::Activation;

/// Whether results differ by no more than the tolerance, relative to the larger of 1 and the wanted value.
///
/// # Errors
/// The worst difference, and where it is.
pub fn close(what: &str, got: &[f32], want: &[f32], tolerance: f32) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!("{what}: {} values, not {}", got.len(), want.len()));
    }
    let distance = |(got, want): (&f32, &f32)| match (got - want).abs() / want.abs().max(1.0) {
        distance if distance.is_nan() => f32::INFINITY,
        distance => distance,
    };
    let worst = got.iter().zip(want).map(distance).enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
    match worst {
        Some((i, distance)) if distance > tolerance => {
            Err(format!("{what}: {} at {i}, not {}: off by {distance:e}", got[i], want[i]))
        }
        _ => Ok(()),
    }
}

/// The same for results that were rounded to their element, from what is wanted: in bf16 half of its last bit comes to
/// the tolerance.
///
/// # Errors
/// The worst difference, and where it is.
pub fn rounded<A: Activation>(what: &str, got: &[A], want: &[f32], tolerance: f32) -> Result<(), String> {
    close(what, &A::widen(got), want, tolerance + A::ACTIVATIONS.pick(0.0, 1.0 / 256.0))
}

/// Whether results differ by no more than `worst`, and by the root of the mean square no more than `rms`.
///
/// # Errors
/// Both differences.
pub fn near(what: &str, got: &[f32], want: &[f32], worst: f32, rms: f32) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!("{what}: {} values, not {}", got.len(), want.len()));
    }
    let all = || got.iter().zip(want).map(|(got, want)| (got - want).abs());
    let is_worst = all().fold(0.0, |worst, d| if d <= worst { worst } else { d });
    let is_rms = (all().map(|d| d * d).sum::<f32>() / got.len().max(1) as f32).sqrt();
    match is_worst <= worst && is_rms <= rms {
        true => Ok(()),
        false => Err(format!("{what}: off by {is_worst} at worst, {is_rms} by the mean square")),
    }
}

/// Whether results are equal to the bit.
///
/// # Errors
/// The first difference.
pub fn same<A: Activation>(what: &str, got: &[A], want: &[A]) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!("{what}: {} values, not {}", got.len(), want.len()));
    }
    let (got, want) = (A::widen(got), A::widen(want));
    match got.iter().zip(&*want).position(|(got, want)| got.to_bits() != want.to_bits()) {
        Some(i) => Err(format!("{what}: {} at {i}, not {}", got[i], want[i])),
        None => Ok(()),
    }
}
