//! A machine without a driver: an error that says so. This program never loads the stand-in driver.

use graph_core::ErrorKind;
use graph_cuda::Cuda;

#[test]
fn without_a_driver_there_is_a_clear_error_and_no_panic() {
    let opened = Cuda::new(0);
    if Cuda::available().is_ok() {
        eprintln!(
            "NOT RUN: without_a_driver_there_is_a_clear_error_and_no_panic: this machine has a CUDA device"
        );
        return;
    }
    let error = opened.expect_err("no driver");
    let ErrorKind::Driver { backend: "cuda", code: 500, name: "CUDA_ERROR_NOT_FOUND", .. } = error.kind()
    else {
        eprintln!("NOT RUN: the machine has a driver and no device: {error}");
        return;
    };
    assert_eq!(
        error.to_string(),
        "cuda: loading the driver failed: CUDA_ERROR_NOT_FOUND (500): there is no libcuda.so, libcuda.so.1 on this machine"
    );
    assert_eq!(Cuda::available().expect_err("no driver").to_string(), error.to_string());
}
