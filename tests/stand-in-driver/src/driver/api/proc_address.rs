//! Looking functions up by name through the driver itself.
use crate::driver::abi::{Handle, Out, Text};
use crate::driver::codes::{Code, Result};
use crate::driver::probe::driver_functions;
use std::ffi::{c_int, c_uint};

/// `CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`.
const SYMBOL_NOT_FOUND: c_uint = 1;

driver_functions! {
    fn cuGetProcAddress(symbol: Text, function: Out<Handle>, _version: c_int, _flags: u64) {
        function.set(find(&symbol)?)
    }

    fn cuGetProcAddress_v2(
        symbol: Text,
        function: Out<Handle>,
        _version: c_int,
        _flags: u64,
        status: Out<c_uint>,
    ) {
        let found = find(&symbol);
        status.set_if_wanted(if found.is_ok() { 0 } else { SYMBOL_NOT_FOUND });
        match found {
            Ok(address) => function.set(address),
            Err(code) => {
                function.set_if_wanted(0);
                Err(code)
            }
        }
    }
}

/// The function of that name, else its newest version: a name without a suffix means the version that is
/// current.
fn find(symbol: &Text) -> Result<Handle> {
    let name = symbol.get()?;
    let exact = |wanted: &str| super::functions().find(|function| function.probe.name == wanted);
    let found =
        exact(&name).or_else(|| (2..=4).rev().find_map(|version| exact(&format!("{name}_v{version}"))));
    found.map(|function| (function.address)()).ok_or(Code::NOT_FOUND)
}
