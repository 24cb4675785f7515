//! Modules and their functions: which host code a kernel's name means, and what a launch of it may ask for.
use super::abi::{Handle, Params};
use super::codes::{Code, Result};
use super::image::{self, Image};
use super::kernels::{self, HostKernel, Launch, Parameter};
use super::op::Op;
use super::state::State;
use std::collections::HashMap;
use std::sync::Arc;

/// Dynamic shared memory that every function may have.
const SHARED_BYTES: u32 = 48 << 10;
/// Dynamic shared memory that a function may be allowed with its attribute.
pub(crate) const SHARED_BYTES_OPTIN: u32 = 227 << 10;

pub(crate) struct Module {
    pub(crate) context: Handle,
    kernels: HashMap<String, Entry>,
}

/// A kernel of a module: its parameters, and its host code if there is any.
type Entry = (Arc<[Parameter]>, Option<HostKernel>);

pub(crate) struct Function {
    pub(crate) context: Handle,
    pub(crate) module: Handle,
    pub(crate) handle: Handle,
    pub(crate) name: String,
    pub(crate) c_name: std::ffi::CString,
    pub(crate) parameters: Arc<[Parameter]>,
    pub(crate) host: Option<HostKernel>,
    pub(crate) max_shared_bytes: u32,
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
}

impl State {
    pub(crate) fn load_module(&mut self, context: Handle, text: Option<String>) -> Result<Handle> {
        let Some(image) = text.as_deref().and_then(image::parse) else {
            let why = "a module image is neither PTX nor an image of the stand-in driver";
            return self.refuse(Code::INVALID_IMAGE, why.into());
        };
        let found = match image {
            Image::Library(path) => kernels::open(&path).map(|kernels| {
                kernels
                    .into_iter()
                    .map(|(name, host)| (name, (host.parameters.clone(), Some(host))))
                    .collect()
            }),
            Image::Ptx(kernels) => kernels.into_iter().map(|entry| self.with_host_code(entry)).collect(),
        };
        let kernels = match found {
            Ok(kernels) => kernels,
            Err(why) => return self.refuse(Code::INVALID_IMAGE, why),
        };
        let handle = self.new_handle();
        self.modules.insert(handle, Module { context, kernels });
        Ok(handle)
    }

    /// Finds the registered host code of a kernel of a PTX module. Both must declare the same parameters.
    fn with_host_code(
        &self,
        (name, parameters): (String, Vec<Parameter>),
    ) -> std::result::Result<(String, Entry), String> {
        let Some(host) = self.kernels.get(&name) else { return Ok((name, (parameters.into(), None))) };
        let place = |it: &Parameter| (it.offset, it.size);
        if !host.parameters.iter().map(place).eq(parameters.iter().map(place)) {
            return Err(format!("{name}: the PTX and the registered host code declare different parameters"));
        }
        Ok((name, (host.parameters.clone(), Some(host.clone()))))
    }

    pub(crate) fn get_function(&mut self, module: Handle, name: &str) -> Result<Handle> {
        let it = self.modules.get(&module).ok_or(Code::INVALID_HANDLE)?;
        let context = it.context;
        let Some((parameters, host)) = it.kernels.get(name).cloned() else {
            return self.refuse(Code::NOT_FOUND, format!("the module has no kernel {name}"));
        };
        let handle = self.new_handle();
        let c_name = std::ffi::CString::new(name).map_err(|_| Code::INVALID_VALUE)?;
        let name = name.to_owned();
        let max_shared_bytes = SHARED_BYTES;
        let function = Function { context, module, handle, name, c_name, parameters, host, max_shared_bytes };
        self.functions.insert(handle, Arc::new(function));
        Ok(handle)
    }

    pub(crate) fn function(&self, handle: Handle) -> Result<&Arc<Function>> {
        self.functions.get(&handle).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn unload_module(&mut self, module: Handle) -> Result {
        self.modules.remove(&module).ok_or(Code::INVALID_HANDLE)?;
        self.functions.retain(|_, function| function.module != module);
        Ok(())
    }

    pub(crate) fn allow_shared_bytes(&mut self, handle: Handle, bytes: i32) -> Result {
        let bytes = u32::try_from(bytes).map_err(|_| Code::INVALID_VALUE)?;
        if bytes > SHARED_BYTES_OPTIN {
            return self.refuse(Code::INVALID_VALUE, format!("{bytes} bytes of dynamic shared memory"));
        }
        let old = self.function(handle)?;
        let changed = Function {
            name: old.name.clone(),
            c_name: old.c_name.clone(),
            parameters: old.parameters.clone(),
            host: old.host.clone(),
            max_shared_bytes: bytes,
            ..**old
        };
        self.functions.insert(handle, Arc::new(changed));
        Ok(())
    }

    /// A launch as an operation, with its parameters copied.
    pub(crate) fn kernel_op(&mut self, function: Handle, shape: Shape, params: Params) -> Result<Op> {
        let function = self.function(function)?.clone();
        self.check_shape(&function, &shape)?;
        if function.host.is_none() && !self.settings.noop_kernels {
            let why = format!("{}: no host code was registered for this kernel", function.name);
            return self.refuse(Code::NOT_SUPPORTED, why);
        }
        let layout: Vec<(usize, usize)> = function.parameters.iter().map(|it| (it.offset, it.size)).collect();
        let bytes = layout.last().map_or(0, |(offset, size)| offset + size);
        let values = params.gather(&layout, bytes)?;
        Ok(Op::Kernel(Arc::new(Launch::new(function, shape, values))))
    }

    fn check_shape(&mut self, function: &Function, shape: &Shape) -> Result {
        let Shape { grid, block, shared_bytes } = shape;
        let threads: u64 = block.iter().map(|it| u64::from(*it)).product();
        let grid_fits = grid[0] <= i32::MAX as u32 && grid[1] <= 0xFFFF && grid[2] <= 0xFFFF;
        let fits = grid_fits && !grid.contains(&0) && (1..=1024).contains(&threads) && block[2] <= 64;
        if fits && *shared_bytes <= function.max_shared_bytes {
            return Ok(());
        }
        let why = format!("{}: grid {grid:?}, block {block:?}, {shared_bytes} dynamic bytes", function.name);
        self.refuse(Code::INVALID_VALUE, why)
    }
}
