//! That cudarc drives the stand-in, under which name, and that nothing else can.
use cudarc::driver::{CudaContext, sys};
use std::ffi::{CStr, CString, c_void};

#[test]
fn cudarc_finds_the_loaded_driver_and_its_made_up_device() {
    let driver = stand_in_driver::load().expect("the stand-in driver");
    let session = driver.session();
    // SAFETY: asking has no other effect.
    assert!(unsafe { sys::is_culib_present() });
    assert_eq!(CudaContext::new(0).expect("a context").name().expect("a name"), "stand-in driver (no GPU)");
    assert!(session.calls("cuInit") > 0);
    let context = CudaContext::new(0).expect("a context");
    assert_eq!(context.compute_capability().expect("capability"), (9, 0));
    drop(context);

    // No device, too few devices, an old driver.
    assert_eq!(CudaContext::new(1).expect_err("one device").0 as u32, 101);
    session.set_devices(2);
    CudaContext::new(1).expect("two devices");
    session.set_driver_version(11_000);
    let mut version = 0;
    // SAFETY: the pointer is valid for the write.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().expect("a version");
    assert_eq!(version, 11_000);
    session.set_devices(0);
    assert_eq!(CudaContext::new(0).expect_err("no device").0 as u32, 100);
}

#[test]
fn the_file_is_not_called_like_a_driver() {
    let driver = stand_in_driver::load().expect("the stand-in driver");
    let name = driver.path().file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(name, "libstand_in_driver.so");
    // The folder that cargo puts in front of the library search path has no file of a driver's name.
    let folder = driver.path().parent().expect("a folder");
    assert!(!folder.join("libcuda.so").exists() && !folder.join("libcuda.so.1").exists());
}

#[test]
fn errors_have_names_and_texts() {
    stand_in_driver::load().expect("the stand-in driver");
    for (code, name) in [(2, "CUDA_ERROR_OUT_OF_MEMORY"), (906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT")] {
        let mut text = std::ptr::null();
        // SAFETY: the code is one of the enum's; the pointer is valid for the write.
        let found = unsafe {
            let code = std::mem::transmute::<u32, sys::CUresult>(code);
            sys::cuGetErrorName(code, &raw mut text)
        };
        assert_eq!(found as u32, 0);
        // SAFETY: the driver returns a static text.
        assert_eq!(unsafe { CStr::from_ptr(text) }.to_str(), Ok(name));
    }
}

/// The address that the driver gives for a name, none if it does not know it.
fn address(name: &str) -> Option<*mut c_void> {
    let name = CString::new(name).expect("a name");
    let mut found = std::ptr::null_mut();
    let mut status = sys::CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS;
    // SAFETY: the name is nul-terminated, the pointers are valid for the writes.
    let result =
        unsafe { sys::cuGetProcAddress_v2(name.as_ptr(), &raw mut found, 12_000, 0, &raw mut status) };
    assert_eq!(
        result as u32 == 0,
        status == sys::CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS
    );
    (result as u32 == 0).then_some(found)
}

#[test]
fn functions_are_found_by_name_through_the_driver_itself() {
    stand_in_driver::load().expect("the stand-in driver");
    assert_eq!(address("cuNothing"), None);
    assert_eq!(address("cuMemAlloc"), address("cuMemAlloc_v2"));
    let count = address("cuDeviceGetCount").expect("an address");
    // SAFETY: the address is that function's, which has this type.
    let count =
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut i32) -> sys::CUresult>(count) };
    let mut devices = 0;
    // SAFETY: the pointer is valid for the write.
    unsafe { count(&raw mut devices) }
        .result()
        .or_else(|error| {
            // Not initialised yet if this test is the first.
            if error.0 as u32 == 3 { Ok(()) } else { Err(error) }
        })
        .expect("a count");
}

/// A library that calls itself a CUDA driver, in a folder of its own under this test's name.
fn another_driver(test: &str, soname: &str) -> Option<std::path::PathBuf> {
    let Some(_) = stand_in_driver::Compiler::find() else {
        stand_in_driver::not_run(test);
        return None;
    };
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).expect("a folder");
    let source = folder.join("driver.cpp");
    std::fs::write(&source, "extern \"C\" int cuInit(unsigned) { return 999; }\n").expect("a source");
    let library = folder.join(soname);
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "g++".into());
    let mut compile = std::process::Command::new(compiler);
    compile.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    let compiled = compile.arg(format!("-Wl,-soname,{soname}")).status().expect("a compiler");
    assert!(compiled.success());
    Some(library)
}

/// Runs the first test of this file in a process of its own, and gives what it said.
fn first_test_with(variable: &str, value: &std::path::Path) -> (bool, String) {
    let test = "cudarc_finds_the_loaded_driver_and_its_made_up_device";
    let mut again = std::process::Command::new(std::env::current_exe().expect("this program"));
    let output = again.args([test, "--exact"]).env(variable, value).output().expect("a run");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_driver_that_is_installed_does_not_get_in_between() {
    let test = "a_driver_that_is_installed_does_not_get_in_between";
    let Some(library) = another_driver(test, "libcuda.so") else { return };
    let (passed, said) = first_test_with("LD_LIBRARY_PATH", library.parent().expect("a folder"));
    assert!(passed, "{said}");
}

#[test]
fn a_driver_that_is_in_the_process_already_is_not_replaced() {
    let test = "a_driver_that_is_in_the_process_already_is_not_replaced";
    let Some(library) = another_driver(test, "libcuda.so.1") else { return };
    let (passed, said) = first_test_with("LD_PRELOAD", &library);
    assert!(!passed && said.contains("RealDriverLoaded"), "{said}");
}
