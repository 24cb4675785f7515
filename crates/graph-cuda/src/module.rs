//! Loading kernels: image, module, functions, and whether they are what their author declares.

use std::{ffi::CString, fmt, ptr::null_mut, sync::Arc};

use cudarc::driver::sys::{CUfunc_st, CUfunction_attribute_enum, CUmod_st};
use graph_core::{Error, Result};

use crate::{
    Cuda, Kernel, KernelSource, calls, calls::Failure, codes, control::Doomed, device::Device,
    handle::Handle, nvrtc,
};

/// Loaded kernels. Clones share them; they are unloaded when the last handle and the last graph that recorded one are
/// gone.
///
/// ```no_run
/// use graph_cuda::{Cuda, Kernel, KernelSource};
///
/// static SOURCE: KernelSource = KernelSource {
///     name: "nothing.cu",
///     text: r#"extern "C" __global__ void nothing() {}"#,
///     headers: &[],
///     options: &[],
///     kernels: &[Kernel::new("nothing", &[])],
/// };
/// let module = Cuda::new(0)?.load(&SOURCE)?; // in a submodule's `load`, not in a forward
/// assert!(module.function("nothing").is_ok());
/// let error = module.function("nothin").err().unwrap();
/// assert!(error.to_string().contains("nothing.cu declares nothing, not `nothin`"));
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Module(pub(crate) Arc<LoadedModule>);

pub(crate) struct LoadedModule {
    pub(crate) device: Arc<Device>,
    raw: Handle<CUmod_st>,
    pub(crate) source: &'static KernelSource,
    functions: Vec<Handle<CUfunc_st>>,
}

/// A kernel that can be launched: see [`on`](Function::on).
///
/// See [`Launch`](crate::Launch) for an example.
#[derive(Clone)]
pub struct Function {
    pub(crate) module: Arc<LoadedModule>,
    pub(crate) kernel: &'static Kernel,
    pub(crate) raw: Handle<CUfunc_st>,
}

impl Cuda {
    /// Compiles and loads a source, and looks every declared kernel up: number and sizes of its parameters must be the
    /// declared ones (where the driver can be asked: CUDA 12.4 and newer). It belongs into a submodule's `load`, and is
    /// refused inside a capture.
    ///
    /// # Errors
    /// What NVRTC says about the source; a kernel that is missing or has other parameters; what the driver reports.
    pub fn load(&self, source: &'static KernelSource) -> Result<Module> {
        let (raw, functions) = load(&self.0, source)?;
        Ok(Module(Arc::new(LoadedModule { device: self.0.clone(), raw, source, functions })))
    }
}

impl Module {
    /// A kernel by name: no driver call.
    ///
    /// # Errors
    /// A name that the source does not declare; the message lists those that it does.
    pub fn function(&self, name: &str) -> Result<Function> {
        let kernels = self.0.source.kernels;
        let found = kernels.iter().zip(&self.0.functions).find(|(kernel, _)| kernel.name == name);
        let Some((kernel, raw)) = found else {
            let known = kernels.iter().map(|kernel| kernel.name).collect::<Vec<_>>().join(", ");
            let detail = format_args!("{} declares {known}, not `{name}`", self.0.source.name);
            return Err(codes::error("function", codes::NOT_FOUND, detail));
        };
        Ok(Function { module: self.0.clone(), kernel, raw: *raw })
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({})", self.0.source.name)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({})", self.kernel.name)
    }
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        self.device.discard(Doomed::Module(self.raw));
    }
}

/// The module of a source, and its functions in declared order.
pub(crate) fn load(
    device: &Arc<Device>,
    source: &KernelSource,
) -> Result<(Handle<CUmod_st>, Vec<Handle<CUfunc_st>>)> {
    device.may_wait("load", None)?;
    let given = device.options.images.as_ref().and_then(|images| images(source));
    let mut image = match given {
        Some(image) => image,
        None => nvrtc::compile(source, device.compute_capability()?)?,
    };
    image.push(0); // text ends with it; to a binary it does nothing
    device.enter_surely("load")?;
    let mut module = null_mut();
    // SAFETY: the context is current, the image ends with a zero and is read during the call, and the pointer is valid
    // for the write.
    unsafe { calls::module_load(&raw mut module, image.as_ptr().cast()) }
        .map_err(|f| device.fail_with(f, format_args!("the image of {}", source.name)))?;
    let module = Handle::new(module);
    let functions = source.kernels.iter().map(|kernel| look_up(device, module, source, kernel));
    functions.collect::<Result<Vec<_>>>().map(|functions| (module, functions)).inspect_err(|_| {
        device.discard(Doomed::Module(module));
    })
}

fn look_up(
    device: &Device,
    module: Handle<CUmod_st>,
    source: &KernelSource,
    kernel: &Kernel,
) -> Result<Handle<CUfunc_st>> {
    let about = |what: &dyn fmt::Display| format!("kernel `{}` of {}{what}", kernel.name, source.name);
    let failed = |f: Failure| device.fail_with(f, about(&""));
    let name = CString::new(kernel.name)
        .map_err(|_| codes::error("load", codes::INVALID_VALUE, about(&": a name with a zero in it")))?;
    let mut function = null_mut();
    // SAFETY: the context is current, the module is alive, and the pointers are valid.
    unsafe { calls::module_function(&raw mut function, module.raw(), name.as_ptr()) }.map_err(failed)?;
    let function = Handle::new(function);
    check_parameters(device, function, kernel).map_err(|wrong| match wrong {
        Wrong::Call(f) => failed(f),
        Wrong::Parameters(what) => mismatch(about(&what)),
    })?;
    if kernel.shared_bytes > 0 {
        let which = CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function is alive. More than the device has is refused by the driver.
        unsafe { calls::function_set(function.raw(), which, kernel.shared_bytes.cast_signed()) }
            .map_err(failed)?;
    }
    Ok(function)
}

fn mismatch(what: String) -> Error {
    codes::error("load", codes::INVALID_VALUE, what)
}

enum Wrong {
    Call(Failure),
    Parameters(String),
}

/// Compares the declared parameters with the compiled ones: their number and sizes.
fn check_parameters(device: &Device, function: Handle<CUfunc_st>, kernel: &Kernel) -> Result<(), Wrong> {
    let Some(ask) = device.driver.param_info() else { return Ok(()) };
    let declared = kernel.args.len();
    for i in 0..=declared {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: the function is alive, and the pointers are valid for the writes.
        let code = unsafe { ask(function.raw(), i, &raw mut offset, &raw mut size) };
        let wrong = match (code, kernel.args.get(i)) {
            (0, Some(arg)) if arg.bytes() == size => continue,
            (0, Some(arg)) => format!(" has {size} bytes in parameter {i}, declared {arg:?}"),
            (0, None) => format!(" has more than the {declared} declared parameter(s)"),
            (codes::INVALID_VALUE, None) => break, // there is no such parameter
            (codes::INVALID_VALUE, Some(_)) => format!(" has {i} parameter(s), declared {declared}"),
            (code, _) => return Err(Wrong::Call(Failure { call: "cuFuncGetParamInfo", code })),
        };
        return Err(Wrong::Parameters(wrong));
    }
    Ok(())
}
