//! Initialisation, version and devices.
use crate::driver::abi::Out;
use crate::driver::codes::Code;
use crate::driver::module::SHARED_BYTES_OPTIN;
use crate::driver::probe::driver_functions;
use crate::driver::state::{State, lock};
use std::ffi::{c_char, c_int, c_uint};

const NAME: &std::ffi::CStr = c"stand-in driver (no GPU)";

driver_functions! {
    fn cuInit(_flags: c_uint) {
        let mut state = lock()?;
        if state.settings.devices == 0 {
            return Err(Code(100));
        }
        state.initialised = true;
        Ok(())
    }

    fn cuDriverGetVersion(version: Out<c_int>) {
        version.set(lock()?.settings.driver_version)
    }

    fn cuDeviceGetCount(count: Out<c_int>) {
        let state = lock()?;
        if !state.initialised {
            return Err(Code::NOT_INITIALIZED);
        }
        count.set(state.settings.devices)
    }

    fn cuDeviceGet(device: Out<c_int>, ordinal: c_int) {
        lock()?.check_device(ordinal)?;
        device.set(ordinal)
    }

    fn cuDeviceGetName(name: Out<c_char>, len: c_int, device: c_int) {
        lock()?.check_device(device)?;
        let room = usize::try_from(len).map_err(|_| Code::INVALID_VALUE)?;
        if room == 0 || name.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let text = NAME.to_bytes().iter().take(room - 1).chain([&0]);
        name.fill(text.map(|byte| *byte as c_char));
        Ok(())
    }

    fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: c_int) {
        lock()?.check_device(device)?;
        uuid.set(uuid_of(device))
    }

    fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: c_int) {
        lock()?.check_device(device)?;
        uuid.set(uuid_of(device))
    }

    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) {
        let state = lock()?;
        state.check_device(device)?;
        bytes.set(state.settings.memory_bytes)
    }

    fn cuDeviceGetAttribute(value: Out<c_int>, attribute: c_int, device: c_int) {
        let state = lock()?;
        state.check_device(device)?;
        value.set(attribute_value(&state, attribute))
    }
}

fn uuid_of(device: c_int) -> [u8; 16] {
    let mut uuid = *b"stand-in driver\0";
    uuid[15] = device as u8;
    uuid
}

/// Values of a made-up device of compute capability 9.0. Attributes that are not listed are 0.
fn attribute_value(state: &State, attribute: c_int) -> c_int {
    match attribute {
        1 => 1024,                                      // MAX_THREADS_PER_BLOCK
        2 | 3 => 1024,                                  // MAX_BLOCK_DIM_X, _Y
        4 => 64,                                        // MAX_BLOCK_DIM_Z
        5 => c_int::MAX,                                // MAX_GRID_DIM_X
        6 | 7 => 0xFFFF,                                // MAX_GRID_DIM_Y, _Z
        8 => 48 << 10,                                  // MAX_SHARED_MEMORY_PER_BLOCK
        9 => 64 << 10,                                  // TOTAL_CONSTANT_MEMORY
        10 => 32,                                       // WARP_SIZE
        12 => 64 << 10,                                 // MAX_REGISTERS_PER_BLOCK
        16 => 8,                                        // MULTIPROCESSOR_COUNT
        19 | 31 | 41 => 1, // CAN_MAP_HOST_MEMORY, CONCURRENT_KERNELS, UNIFIED_ADDRESSING
        39 => 2048,        // MAX_THREADS_PER_MULTIPROCESSOR
        75 => 9,           // COMPUTE_CAPABILITY_MAJOR
        76 => 0,           // COMPUTE_CAPABILITY_MINOR
        81 => 228 << 10,   // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
        97 => SHARED_BYTES_OPTIN as c_int, // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        115 => c_int::from(state.settings.async_alloc), // MEMORY_POOLS_SUPPORTED
        _ => 0,
    }
}
