//! Launches of kernels, whose arguments are checked against the declaration.

use std::{ffi::c_void, fmt};

use graph_core::{Element, Error, In, Out, Result};

use crate::{
    Arg, Buffer, Cuda, Function, Stream, calls,
    capture::{Keep, Recorded},
    codes,
    memory::foreign,
};

/// Parameters of a kernel at the most.
const MOST: usize = 24;

/// A launch that is being put together: see [`Function::on`].
///
/// ```no_run
/// use graph_core::{In, Out, Result};
/// use graph_cuda::{Cuda, Function, Stream};
///
/// // `scale`: declared as `[Arg::Out(Elem::F32), Arg::In(Elem::F32), Arg::F32, Arg::U32]`.
/// fn scale(f: &Function, s: &Stream, x: In<'_, Cuda, f32, 1>, y: Out<'_, Cuda, f32, 1>) -> Result<()> {
///     let n = x.len() as u32;
///     let launch = f.on(s).grid([n.div_ceil(256), 1, 1]).block([256, 1, 1]);
///     let launch = launch.arg(y).arg(x).arg(2.0_f32).arg(n);
///     // SAFETY: the kernel touches the first `n` elements of each view, and both have `n`.
///     unsafe { launch.launch() }
/// }
/// ```
#[must_use = "nothing happens before `launch`"]
pub struct Launch<'a> {
    function: &'a Function,
    stream: &'a Stream,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    given: usize,
    values: [Value; MOST],
    buffers: [Option<&'a Buffer>; MOST],
    /// The first argument that is not as declared.
    wrong: Option<Error>,
}

/// An argument's bytes, aligned for any parameter.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Value([u8; 8]);

/// An argument of a kernel: a view, or a number of a type that [`Arg`] names.
///
/// ```no_run
/// use graph_core::Result;
/// use graph_cuda::{Function, LaunchArg, Stream};
///
/// // A kernel with one parameter, whatever that is.
/// fn launch_one<'a>(f: &'a Function, s: &'a Stream, arg: impl LaunchArg<'a>) -> Result<()> {
///     // SAFETY: (of this kernel, and of this argument)
///     unsafe { f.on(s).arg(arg).launch() }
/// }
/// # fn both(f: &Function, s: &Stream, x: graph_core::In<'_, graph_cuda::Cuda, f32, 1>) -> Result<()> {
/// launch_one(f, s, 3_u32)?; // refused with both types in the message, if the kernel declares another
/// launch_one(f, s, x)
/// # }
/// ```
pub trait LaunchArg<'a> {
    #[doc(hidden)]
    fn give(self, stream: &Stream) -> Result<Given<'a>>;
}

/// What an argument is made of.
#[doc(hidden)]
pub struct Given<'a> {
    arg: Arg,
    value: Value,
    buffer: Option<&'a Buffer>,
}

impl Function {
    /// A launch on a stream: one thread, no dynamic shared memory, unless said otherwise.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> Launch<'a> {
        Launch {
            function: self,
            stream,
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            given: 0,
            values: [Value([0; 8]); MOST],
            buffers: [None; MOST],
            wrong: None,
        }
    }
}

impl<'a> Launch<'a> {
    /// Blocks, in three dimensions.
    pub fn grid(self, grid: [u32; 3]) -> Self {
        Launch { grid, ..self }
    }

    /// Threads of a block, in three dimensions.
    pub fn block(self, block: [u32; 3]) -> Self {
        Launch { block, ..self }
    }

    /// Bytes of dynamic shared memory.
    pub fn shared_bytes(self, bytes: u32) -> Self {
        Launch { shared_bytes: bytes, ..self }
    }

    /// The next argument.
    pub fn arg(mut self, arg: impl LaunchArg<'a>) -> Self {
        if let Err(wrong) = arg.give(self.stream).and_then(|given| self.take(given)) {
            self.wrong.get_or_insert(wrong);
        }
        self
    }

    fn take(&mut self, given: Given<'a>) -> Result<()> {
        let (i, kernel) = (self.given, self.function.kernel);
        self.given += 1;
        let declared = kernel.args.get(i).filter(|_| i < MOST);
        if declared != Some(&given.arg) {
            let declared = declared.map_or("no such parameter".into(), |arg| format!("{arg:?}"));
            let detail = format_args!("argument {i} is {:?}, declared: {declared}", given.arg);
            return Err(codes::error(kernel.name, codes::INVALID_VALUE, detail));
        }
        (self.values[i], self.buffers[i]) = (given.value, given.buffer);
        Ok(())
    }

    /// Runs the kernel in the stream's order, or records it while the stream captures. A graph keeps the views' memory
    /// and the kernel's module alive.
    ///
    /// # Errors
    /// Arguments whose number, elements or types are not the declared ones, memory of another device, a view outside its
    /// buffer, a misaligned one; what the driver reports.
    ///
    /// # Safety
    /// The kernel, launched in this shape with these numbers, reads within the views of its `In` parameters and reads
    /// and writes within the views of its `Out` parameters, and nowhere else. The views do not overlap unless the kernel
    /// is made for it. Its text is what its declaration says; that number and sizes of its parameters agree is checked
    /// at [`Cuda::load`], their meaning is not.
    pub unsafe fn launch(mut self) -> Result<()> {
        let (function, stream) = (self.function, self.stream);
        let (kernel, device) = (function.kernel, stream.on());
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        if self.given != kernel.args.len() {
            let detail = format_args!("{} argument(s), declared {}", self.given, kernel.args.len());
            return Err(codes::error(kernel.name, codes::INVALID_VALUE, detail));
        }
        if function.module.device.id != device.id {
            return Err(foreign(kernel.name, "kernel"));
        }
        let mut arguments = self.values.each_mut().map(|value| (&raw mut value.0).cast::<c_void>());
        let keeps = || {
            let buffers = self.buffers.iter().flatten().map(|buffer| Keep::of(buffer));
            Recorded::uses(buffers.chain([Keep::Module(function.module.clone())]).collect::<Vec<_>>())
        };
        let (grid, block, shared) = (self.grid, self.block, self.shared_bytes);
        let arguments = arguments.as_mut_ptr();
        // SAFETY: the arguments have the number and the sizes of the kernel's parameters, and are copied before the call
        // returns. What the kernel does with them is the caller's promise; the memory lives as for every operation.
        stream.issue(kernel.name, keeps, |s| unsafe {
            calls::launch_kernel(function.raw.raw(), grid, block, shared, s, arguments)
        })
    }
}

impl fmt::Debug for Launch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Launch({}, grid {:?}, block {:?})", self.function.kernel.name, self.grid, self.block)
    }
}

fn view<'a, T: Element, const R: usize>(
    arg: Arg,
    view: In<'a, Cuda, T, R>,
    stream: &Stream,
) -> Result<Given<'a>> {
    let bytes = view.len() * size_of::<T>();
    let at = view.buffer().0.range("a kernel's view", stream.on(), view.offset(), bytes)?;
    if !at.is_multiple_of(align_of::<T>() as u64) {
        let detail = format_args!("byte {} is not aligned to {}", view.offset(), T::ELEM.name());
        return Err(codes::error("a kernel's view", codes::INVALID_VALUE, detail));
    }
    Ok(Given { arg, value: Value(at.to_ne_bytes()), buffer: Some(view.buffer()) })
}

impl<'a, T: Element, const R: usize> LaunchArg<'a> for In<'a, Cuda, T, R> {
    fn give(self, stream: &Stream) -> Result<Given<'a>> {
        view(Arg::In(T::ELEM), self, stream)
    }
}

impl<'a, T: Element, const R: usize> LaunchArg<'a> for Out<'a, Cuda, T, R> {
    fn give(self, stream: &Stream) -> Result<Given<'a>> {
        view(Arg::Out(T::ELEM), self.read(), stream)
    }
}

macro_rules! numbers {
    ($($type:ty = $arg:ident),*) => { $(
        impl<'a> LaunchArg<'a> for $type {
            fn give(self, _: &Stream) -> Result<Given<'a>> {
                let mut value = [0; 8];
                value[..size_of::<$type>()].copy_from_slice(&self.to_ne_bytes());
                Ok(Given { arg: Arg::$arg, value: Value(value), buffer: None })
            }
        }
    )* };
}
numbers! { u32 = U32, i32 = I32, u64 = U64, i64 = I64, f32 = F32 }
