//! Names and texts of errors.
use crate::driver::abi::Out;
use crate::driver::codes::{Code, describe};
use crate::driver::probe::driver_functions;
use std::ffi::{c_char, c_int};

driver_functions! {
    fn cuGetErrorName(error: c_int, name: Out<*const c_char>) {
        let (text, _) = known(error, &name)?;
        name.set(text)
    }

    fn cuGetErrorString(error: c_int, text: Out<*const c_char>) {
        let (_, found) = known(error, &text)?;
        text.set(found)
    }
}

/// The name and the text of an error; an unknown one gets null and is an error itself.
fn known(error: c_int, out: &Out<*const c_char>) -> Result<(*const c_char, *const c_char), Code> {
    match describe(error) {
        Some((name, text)) => Ok((name.as_ptr(), text.as_ptr())),
        None => {
            out.set_if_wanted(std::ptr::null());
            Err(Code::INVALID_VALUE)
        }
    }
}
