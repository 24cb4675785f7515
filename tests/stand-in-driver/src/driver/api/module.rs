//! Modules, functions, launches.
use crate::driver::abi::{Handle, HostPtr, Out, Params, Text};
use crate::driver::codes::{Code, Result};
use crate::driver::module::Shape;
use crate::driver::probe::driver_functions;
use crate::driver::state::enter;
use std::ffi::{c_int, c_uint};

/// `CU_FUNC_ATTRIBUTE_*`.
const MAX_THREADS_PER_BLOCK: c_uint = 0;
const NUM_REGS: c_uint = 4;
const MAX_DYNAMIC_SHARED_SIZE_BYTES: c_uint = 8;

driver_functions! {
    fn cuModuleLoadData(module: Out<Handle>, image: HostPtr) {
        load(&module, image.read_text())
    }

    fn cuModuleLoadDataEx(module: Out<Handle>, image: HostPtr, _count: c_uint, _names: Handle, _values: Handle) {
        load(&module, image.read_text())
    }

    fn cuModuleLoad(module: Out<Handle>, path: Text) {
        let text = std::fs::read(path.get()?).map_err(|_| Code::FILE_NOT_FOUND)?;
        load(&module, String::from_utf8(text).ok())
    }

    fn cuModuleUnload(module: Handle) {
        let (mut state, _) = enter()?;
        state.check_unsafe_call("cuModuleUnload")?;
        state.unload_module(module)
    }

    fn cuModuleGetFunction(function: Out<Handle>, module: Handle, name: Text) {
        let (mut state, _) = enter()?;
        function.set(state.get_function(module, &name.get()?)?)
    }

    fn cuFuncGetModule(module: Out<Handle>, function: Handle) {
        let (state, _) = enter()?;
        module.set(state.function(function)?.module)
    }

    fn cuFuncGetParamInfo(function: Handle, index: usize, offset: Out<usize>, size: Out<usize>) {
        let (state, _) = enter()?;
        let parameter = *state.function(function)?.parameters.get(index).ok_or(Code::INVALID_VALUE)?;
        size.set_if_wanted(parameter.size);
        offset.set(parameter.offset)
    }

    fn cuFuncGetAttribute(value: Out<c_int>, attribute: c_uint, function: Handle) {
        let (state, _) = enter()?;
        let function = state.function(function)?;
        value.set(match attribute {
            MAX_THREADS_PER_BLOCK => 1024,
            NUM_REGS => 32,
            MAX_DYNAMIC_SHARED_SIZE_BYTES => function.max_shared_bytes as c_int,
            _ => 0,
        })
    }

    fn cuFuncSetAttribute(function: Handle, attribute: c_uint, value: c_int) {
        let (mut state, _) = enter()?;
        if attribute == MAX_DYNAMIC_SHARED_SIZE_BYTES {
            return state.allow_shared_bytes(function, value);
        }
        state.function(function).map(|_| ())
    }

    fn cuFuncSetCacheConfig(function: Handle, _config: c_uint) {
        let (state, _) = enter()?;
        state.function(function).map(|_| ())
    }

    fn cuLaunchKernel(
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: Handle,
        params: Params,
        extra: Handle,
    ) {
        let (mut state, context) = enter()?;
        let key = state.stream_key(context, stream)?;
        if extra != 0 {
            return state.refuse(Code::NOT_SUPPORTED, "parameters in a packed buffer (`extra`)".into());
        }
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let op = state.kernel_op(function, Shape { grid, block, shared_bytes }, params)?;
        state.submit(key, op)
    }
}

fn load(module: &Out<Handle>, text: Option<String>) -> Result {
    let (mut state, context) = enter()?;
    state.check_unsafe_call("cuModuleLoad")?;
    module.set(state.load_module(context, text)?)
}
