//! Tensors of a file on the host.

use std::borrow::Cow;

use half::bf16;

use crate::Activation;

/// The numbers of a tensor, none of them rounded: bf16 where the file has it, else `f32`.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored {
    /// From f32, or f16 widened.
    F32(Vec<f32>),
    /// From bf16.
    Bf16(Vec<bf16>),
}

impl Stored {
    /// The same in `f32`; no copy where they are.
    pub fn widened(&self) -> Cow<'_, [f32]> {
        match self {
            Stored::F32(values) => f32::widen(values),
            Stored::Bf16(values) => bf16::widen(values),
        }
    }

    /// The same in `f32`.
    pub fn into_f32(self) -> Vec<f32> {
        match self {
            Stored::F32(values) => values,
            Stored::Bf16(values) => bf16::widen(&values).into_owned(),
        }
    }
}
