//! Kernels as their authors declare them.

use graph_core::Elem;

/// One parameter of a kernel.
///
/// ```
/// use graph_core::Elem;
/// use graph_cuda::Arg;
///
/// // void scale(float* y, const float* x, float by, unsigned int n)
/// const SCALE: [Arg; 4] = [Arg::Out(Elem::F32), Arg::In(Elem::F32), Arg::F32, Arg::U32];
/// assert_eq!(SCALE.map(Arg::bytes), [8, 8, 4, 4]); // what the compiled kernel must agree with
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arg {
    /// A pointer to elements that are read: takes an [`In`](graph_core::In).
    In(Elem),
    /// A pointer to elements that are written, or read and written: takes an [`Out`](graph_core::Out).
    Out(Elem),
    /// `unsigned int`.
    U32,
    /// `int`.
    I32,
    /// `unsigned long long`.
    U64,
    /// `long long`.
    I64,
    /// `float`.
    F32,
}

impl Arg {
    /// Bytes of the parameter.
    pub const fn bytes(self) -> usize {
        match self {
            Arg::In(_) | Arg::Out(_) | Arg::U64 | Arg::I64 => 8,
            Arg::U32 | Arg::I32 | Arg::F32 => 4,
        }
    }
}

/// A kernel and its parameters, as `extern "C" __global__` functions have them.
///
/// ```
/// use graph_core::Elem;
/// use graph_cuda::{Arg, Kernel};
///
/// // Attention that keeps a tile of keys in 64 KiB of shared memory.
/// const ATTEND: Kernel =
///     Kernel::new("attend", &[Arg::Out(Elem::F32), Arg::In(Elem::F32), Arg::U32]).dynamic_shared(64 << 10);
/// assert_eq!(ATTEND.name(), "attend"); // as in `module.function("attend")`
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) args: &'static [Arg],
    pub(crate) shared_bytes: u32,
}

impl Kernel {
    /// A kernel of that name with these parameters, in order.
    pub const fn new(name: &'static str, args: &'static [Arg]) -> Self {
        Kernel { name, args, shared_bytes: 0 }
    }

    /// The same, launched with up to this much dynamic shared memory. Beyond 48 KiB a kernel must say so.
    pub const fn dynamic_shared(self, bytes: u32) -> Self {
        Kernel { shared_bytes: bytes, ..self }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

/// A source of kernels in CUDA C++, compiled when it is loaded.
///
/// ```
/// use graph_core::Elem;
/// use graph_cuda::{Arg, Kernel, KernelSource};
///
/// static SCALE: KernelSource = KernelSource {
///     name: "scale.cu",
///     text: r#"
///         extern "C" __global__ void scale(float* y, const float* x, float by, unsigned int n) {
///             unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
///             if (i < n) y[i] = by * x[i];
///         }
///     "#,
///     headers: &[],
///     options: &[],
///     kernels: &[Kernel::new("scale", &[Arg::Out(Elem::F32), Arg::In(Elem::F32), Arg::F32, Arg::U32])],
/// };
/// assert_eq!(SCALE.kernels[0].name(), "scale");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelSource {
    /// A name for messages, such as the file's.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
    /// Headers of its own by the name in their `#include "NAME"`; other headers are not there.
    pub headers: &'static [(&'static str, &'static str)],
    /// Options for NVRTC beyond the architecture and C++17, such as `--fmad=false`.
    pub options: &'static [&'static str],
    /// The kernels in it.
    pub kernels: &'static [Kernel],
}

impl KernelSource {
    /// The text with its headers in place of the lines that include them; each once, as if it had `#pragma once`.
    ///
    /// ```
    /// let source = graph_cuda::KernelSource {
    ///     name: "a.cu",
    ///     text: "#include \"one.h\"\n#include \"one.h\"\nint a = ONE;\n",
    ///     headers: &[("one.h", "#define ONE 1\n")],
    ///     options: &[],
    ///     kernels: &[],
    /// };
    /// assert_eq!(source.expanded(), "#define ONE 1\n\nint a = ONE;\n");
    /// ```
    pub fn expanded(&self) -> String {
        let mut done = Vec::new();
        let mut out = String::new();
        self.expand(self.text, &mut done, &mut out);
        out
    }

    fn expand(&self, text: &str, done: &mut Vec<&'static str>, out: &mut String) {
        for line in text.lines() {
            let included = line.trim().strip_prefix("#include").map(|rest| rest.trim().trim_matches('"'));
            match included.and_then(|name| self.headers.iter().find(|(header, _)| *header == name)) {
                Some((name, header)) if !done.contains(name) => {
                    done.push(name);
                    self.expand(header, done, out);
                }
                Some(_) => out.push('\n'),
                None => {
                    out.push_str(line);
                    out.push('\n');
                }
            }
        }
    }
}
