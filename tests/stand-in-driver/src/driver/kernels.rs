//! Kernels compiled for the host: their libraries, their parameters, and how one runs.
use super::codes::Code;
use super::module::{Function, Shape};
use super::state::State;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;

/// A kernel's parameter, as it lies in the block that a launch carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Parameter {
    pub(crate) offset: usize,
    pub(crate) size: usize,
    /// Whether the source declares it as a pointer.
    pub(crate) pointer: bool,
}

/// `CudaHostLaunch` of the host header.
#[repr(C)]
struct CLaunch {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    reversed: u32,
    params: *const *const u8,
}

/// `CudaHostParam` of the host header.
#[repr(C)]
struct CParam {
    size: u32,
    align: u32,
    pointer: u32,
}

/// `CudaHostKernel` of the host header.
#[repr(C)]
struct CKernel {
    name: *const c_char,
    run: RunFn,
    param_count: u32,
    params: *const CParam,
}

type RunFn = unsafe extern "C" fn(*const CLaunch) -> c_int;
type KernelsFn = unsafe extern "C" fn(*mut u32) -> *const CKernel;
type FaultFn = unsafe extern "C" fn() -> *const c_char;
type AbiFn = unsafe extern "C" fn() -> u32;

/// The layout of the C structs above that this driver understands.
const ABI: u32 = 1;

/// A kernel's host code. The library that it lies in stays loaded as long as this lives.
#[derive(Clone)]
pub(crate) struct HostKernel {
    run: RunFn,
    fault: FaultFn,
    pub(crate) parameters: Arc<[Parameter]>,
    _library: Arc<libloading::Library>,
}

/// Libraries that were registered for use with PTX.
#[derive(Default)]
pub(crate) struct Libraries {
    registered: HashMap<String, HostKernel>,
}

impl Libraries {
    pub(crate) fn register(&mut self, path: &str) -> Result<(), String> {
        self.registered.extend(open(path)?);
        Ok(())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&HostKernel> {
        self.registered.get(name)
    }
}

/// Opens a library that the kernel compiler of this crate has made, and reads its table of kernels.
pub(crate) fn open(path: &str) -> Result<Vec<(String, HostKernel)>, String> {
    let failed = |error: libloading::Error| format!("{path}: {error}");
    // SAFETY: the library's initialisers fill its table of kernels and nothing else.
    let library = Arc::new(unsafe { libloading::Library::new(path) }.map_err(failed)?);
    // SAFETY: the host header defines these symbols with these types; the number says for which layout of the
    // structs.
    let (abi, kernels, fault) = unsafe {
        let abi = *library.get::<AbiFn>(b"cuda_host_abi").map_err(failed)?;
        let kernels = *library.get::<KernelsFn>(b"cuda_host_kernels").map_err(failed)?;
        (abi, kernels, *library.get::<FaultFn>(b"cuda_host_fault").map_err(failed)?)
    };
    // SAFETY: the function takes nothing and returns a number.
    if unsafe { abi() } != ABI {
        return Err(format!("{path} was compiled for another version of the stand-in driver"));
    }
    let mut count = 0;
    // SAFETY: the function writes the number of kernels and returns its table, which lives as long as the
    // library.
    let table = unsafe { std::slice::from_raw_parts(kernels(&mut count), count as usize) };
    let read = |kernel: &CKernel| {
        // SAFETY: a kernel's name is a string literal, its parameters an array of the given length, in the
        // library.
        let (name, params) = unsafe {
            let params = std::slice::from_raw_parts(kernel.params, kernel.param_count as usize);
            (CStr::from_ptr(kernel.name), params)
        };
        let parameters = layout(params);
        let host = HostKernel { run: kernel.run, fault, parameters, _library: library.clone() };
        (name.to_string_lossy().into_owned(), host)
    };
    Ok(table.iter().map(read).collect())
}

fn layout(params: &[CParam]) -> Arc<[Parameter]> {
    let mut offset = 0usize;
    let place = |param: &CParam| {
        let here = offset.next_multiple_of((param.align as usize).max(1));
        offset = here + param.size as usize;
        Parameter { offset: here, size: param.size as usize, pointer: param.pointer != 0 }
    };
    params.iter().map(place).collect()
}

/// A kernel launch: the function, its shape, and its parameters by value.
pub(crate) struct Launch {
    pub(crate) function: Arc<Function>,
    pub(crate) shape: Shape,
    pub(crate) values: Box<[u8]>,
    /// The address of each parameter in `values`.
    pub(crate) pointers: Box<[usize]>,
}

impl Launch {
    /// Whose parameters are `values`, laid out as the function declares.
    pub(crate) fn new(function: Arc<Function>, shape: Shape, values: Box<[u8]>) -> Self {
        let start = values.as_ptr().expose_provenance();
        let pointers = function.parameters.iter().map(|parameter| start + parameter.offset).collect();
        Self { function, shape, values, pointers }
    }

    /// The value of a pointer parameter.
    fn pointer(&self, parameter: &Parameter) -> usize {
        let bytes = &self.values[parameter.offset..parameter.offset + size_of::<usize>()];
        usize::from_ne_bytes(bytes.try_into().expect("eight bytes"))
    }
}

impl State {
    /// Runs a kernel's host code, after a look at its pointers and before one at what it wrote outside them.
    pub(crate) fn run_kernel(&mut self, launch: &Launch) -> Result<(), (Code, String)> {
        let name = &launch.function.name;
        if !self.modules.contains_key(&launch.function.module) {
            return Err((
                Code::ILLEGAL_ADDRESS,
                format!("{name}: its module was unloaded before this launch ran"),
            ));
        }
        let Some(host) = &launch.function.host else { return Ok(()) };
        let pointers: Vec<(usize, usize)> = launch
            .function
            .parameters
            .iter()
            .enumerate()
            .filter(|(_, parameter)| parameter.pointer)
            .map(|(index, parameter)| (index, launch.pointer(parameter)))
            .filter(|(_, addr)| *addr != 0)
            .collect();
        for (index, addr) in &pointers {
            self.memory.find_live(*addr).map_err(|refusal| {
                (Code::ILLEGAL_ADDRESS, format!("{name}: parameter {index} ({addr:#x}) {refusal}"))
            })?;
        }
        let c_launch = CLaunch {
            grid: launch.shape.grid,
            block: launch.shape.block,
            shared_bytes: launch.shape.shared_bytes,
            reversed: u32::from(self.settings.reversed_threads),
            params: launch.pointers.as_ptr().cast(),
        };
        // SAFETY: the library was compiled for this layout of the struct; the parameters have the sizes of
        // its own table and outlive the call. Kernels run one at a time, under the driver's lock. A kernel
        // that follows a pointer out of bounds is undefined behaviour of the tested program; what of it can
        // be seen is, just below.
        let code = unsafe { (host.run)(&raw const c_launch) };
        if code != 0 {
            // SAFETY: the library returns a nul-terminated text that lives until its next launch.
            let why = unsafe { CStr::from_ptr((host.fault)()) }.to_string_lossy().into_owned();
            return Err((Code(code), format!("{name}: {why}")));
        }
        match pointers.iter().find_map(|(_, addr)| self.memory.damage_at(*addr)) {
            Some(damage) => Err((Code::ILLEGAL_ADDRESS, format!("{name}: {damage}"))),
            None => Ok(()),
        }
    }
}
