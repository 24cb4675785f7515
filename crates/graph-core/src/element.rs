//! Element types of tensors.

use half::{bf16, f16};

/// The element of a tensor, as data.
///
/// ```
/// use graph_core::{Elem, Element};
/// assert_eq!(<f32 as Element>::ELEM, Elem::F32);
/// assert_eq!((Elem::BF16.name(), Elem::BF16.bytes()), ("bf16", 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elem {
    /// 32-bit float.
    F32,
    /// 16-bit IEEE float.
    F16,
    /// 16-bit brain float.
    BF16,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// 32-bit unsigned integer.
    U32,
    /// Byte.
    U8,
}

impl Elem {
    /// The name that attributes and messages use.
    pub const fn name(self) -> &'static str {
        match self {
            Elem::F32 => "f32",
            Elem::F16 => "f16",
            Elem::BF16 => "bf16",
            Elem::I32 => "i32",
            Elem::I64 => "i64",
            Elem::U32 => "u32",
            Elem::U8 => "u8",
        }
    }

    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Elem::F32 | Elem::I32 | Elem::U32 => 4,
            Elem::F16 | Elem::BF16 => 2,
            Elem::I64 => 8,
            Elem::U8 => 1,
        }
    }
}

/// A Rust type that can be the element of a tensor: `f32`, `f16`, `bf16`, `i32`, `i64`, `u32`, `u8`.
///
/// ```
/// use graph_core::{Backend, Elem, Element, Result, Tensor};
/// use graph_host::Host;
///
/// fn filled<B: Backend, T: Element>(device: &B, stream: &B::Stream, value: T) -> Result<Tensor<B, T, 1>> {
///     Tensor::from_slice(device, stream, &[value; 4], [4])
/// }
/// let host = Host::new();
/// let stream = host.stream()?;
/// assert_eq!(filled(&host, &stream, 7_i32)?.to_vec(&stream)?, [7; 4]);
/// assert_eq!(<u8 as Element>::ELEM, Elem::U8);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub trait Element: bytemuck::Pod + Default + Send + Sync + sealed::Sealed {
    /// The same, as data.
    const ELEM: Elem;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($rust:ty => $elem:ident),*) => { $(
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const ELEM: Elem = Elem::$elem;
        }
    )* };
}
elements!(f32 => F32, f16 => F16, bf16 => BF16, i32 => I32, i64 => I64, u32 => U32, u8 => U8);
