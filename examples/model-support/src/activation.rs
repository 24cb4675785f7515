//! The elements that a model computes in.

use std::borrow::Cow;

use graph_core::{Element, bf16};

/// The element of a model's activations: hidden states, queries, keys, values, and all that lies between them. Sums are
/// in `f32` with either, and so are logits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// `f32`: the reference.
    #[default]
    F32,
    /// `bf16`: half the memory. Each operation rounds once, at its end.
    Bf16,
}

impl Activations {
    /// One of two things by the element, such as a kernel's name.
    pub const fn pick<T: Copy>(self, f32: T, bf16: T) -> T {
        match self {
            Activations::F32 => f32,
            Activations::Bf16 => bf16,
        }
    }
}

/// [`Activations`] as a type: `f32` or `bf16`.
pub trait Activation: Element {
    /// The same, as data.
    const ACTIVATIONS: Activations;

    /// The nearest value; of two that are as near, the even one. A NaN stays one.
    fn narrow(value: f32) -> Self;

    /// The same values in `f32`: no copy where they are.
    fn widen(values: &[Self]) -> Cow<'_, [f32]>;

    /// Fills `values` with what `compute` writes, rounded at the end: no copy in `f32`. What `compute` finds is
    /// unspecified.
    fn write(values: &mut [Self], compute: impl FnOnce(&mut [f32]));
}

impl Activation for f32 {
    const ACTIVATIONS: Activations = Activations::F32;

    fn narrow(value: f32) -> f32 {
        value
    }

    fn widen(values: &[f32]) -> Cow<'_, [f32]> {
        Cow::Borrowed(values)
    }

    fn write(values: &mut [f32], compute: impl FnOnce(&mut [f32])) {
        compute(values);
    }
}

impl Activation for bf16 {
    const ACTIVATIONS: Activations = Activations::Bf16;

    fn narrow(value: f32) -> bf16 {
        bf16::from_f32(value)
    }

    fn widen(values: &[bf16]) -> Cow<'_, [f32]> {
        values.iter().map(|value| value.to_f32()).collect()
    }

    fn write(values: &mut [bf16], compute: impl FnOnce(&mut [f32])) {
        let mut computed = vec![0.0; values.len()];
        compute(&mut computed);
        values.iter_mut().zip(computed).for_each(|(to, from)| *to = bf16::from_f32(from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f32_is_never_copied() {
        let mut values = [1.0_f32, 2.0];
        assert!(matches!(f32::widen(&values), Cow::Borrowed(widened) if std::ptr::eq(widened, &values)));
        let at = values.as_ptr();
        f32::write(&mut values, |y| assert_eq!(y.as_ptr(), at));
    }

    #[test]
    fn bf16_is_rounded_once_at_the_end() {
        let mut values = [bf16::ZERO; 2];
        bf16::write(&mut values, |y| {
            y.copy_from_slice(&[1.0, 1.0]);
            // Each step alone would round to nothing.
            (0..4).for_each(|_| y[0] += 1.0 / 512.0);
        });
        assert_eq!(*bf16::widen(&values), [1.0 + 1.0 / 128.0, 1.0]);
    }
}
