//! What a wrong kernel shows.
use super::kernels::{config, source};
use super::*;
use cudarc::driver::{CudaModule, PushKernelArg};
use cudarc::nvrtc::Ptx;
use stand_in_driver::Session;

/// A session with the wrong kernels loaded, or a line that says that the test did not run.
fn wrong(test: &str) -> Option<(Session<'static>, Arc<CudaStream>, Arc<CudaModule>)> {
    let library = stand_in_driver::compile_or_not_run(test, &source("wrong.cu"))?;
    let session = session();
    let (context, stream) = start();
    let module = context.load_module(Ptx::from_src(library.image())).expect("a module");
    Some((session, stream, module))
}

/// The error of a launch with 32 threads over as many floats, and what the driver says about it.
fn run(
    session: &Session<'_>,
    stream: &Arc<CudaStream>,
    module: &Arc<CudaModule>,
    name: &str,
) -> (u32, String) {
    let kernel = module.load_function(name).expect("the kernel");
    let mut out = stream.alloc_zeros::<f32>(32).expect("memory");
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut out);
    // SAFETY: the kernels take a pointer to 32 floats; what they do wrong is caught.
    unsafe { launch.launch(config(1, 32, 16)) }.expect("enqueued");
    (code(stream.synchronize()), session.faults().pop().unwrap_or_default())
}

#[test]
fn reversed_threads_show_a_missing_barrier() {
    let Some((session, stream, module)) = wrong("reversed_threads_show_a_missing_barrier") else { return };
    let kernel = module.load_function("no_barrier").expect("the kernel");
    let first = |reversed: bool| {
        session.set_reversed_threads(reversed);
        let mut out = stream.alloc_zeros::<f32>(32).expect("memory");
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&mut out);
        // SAFETY: a pointer to 32 floats.
        unsafe { launch.launch(config(1, 32, 0)) }.expect("launch");
        stream.clone_dtoh(&out).expect("read")[31]
    };
    assert_eq!(first(false), 3.0);
    assert!(first(true).is_nan(), "shared memory starts as poison");
}

#[test]
fn barriers_that_not_all_threads_reach_are_719() {
    let cases = [
        ("early_return", "16 have returned"),
        ("two_barriers", "meets __syncthreads"),
        ("outside_mask", "lane 0"),
    ];
    for (name, text) in cases {
        let Some((session, stream, module)) = wrong("barriers_that_not_all_threads_reach_are_719") else {
            return;
        };
        let (error, fault) = run(&session, &stream, &module, name);
        assert_eq!(error, 719, "{name}: {fault}");
        assert!(fault.contains(name) && fault.contains(text), "{name}: {fault}");
    }
}

#[test]
fn a_failed_assertion_is_710() {
    let Some((session, stream, module)) = wrong("a_failed_assertion_is_710") else { return };
    let (error, fault) = run(&session, &stream, &module, "asserts");
    assert_eq!(error, 710, "{fault}");
    assert!(fault.contains("out == nullptr"), "{fault}");
}

#[test]
fn writes_outside_memory_are_700() {
    let Some((session, stream, module)) = wrong("writes_outside_memory_are_700") else { return };
    let (error, fault) = run(&session, &stream, &module, "dynamic_overrun");
    assert_eq!(error, 700, "{fault}");
    drop((module, stream, session));
    let Some((session, stream, module)) = wrong("writes_outside_memory_are_700") else { return };
    let kernel = module.load_function("past_the_end").expect("the kernel");
    let mut out = stream.alloc_zeros::<f32>(4).expect("memory");
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut out).arg(&4i32);
    // SAFETY: it writes one float behind the memory, into the red zone.
    unsafe { launch.launch(config(1, 1, 0)) }.expect("enqueued");
    assert_eq!(code(stream.synchronize()), 700);
    assert!(session.faults().iter().any(|fault| fault.contains("past the end")), "{:?}", session.faults());
}

#[test]
fn pointers_that_are_not_memory_of_the_device_are_700() {
    let mut host = [0f32; 32];
    let foreign = host.as_mut_ptr() as u64;
    for stale in [false, true] {
        let test = "pointers_that_are_not_memory_of_the_device_are_700";
        let Some((session, stream, module)) = wrong(test) else { return };
        let kernel = module.load_function("no_barrier").expect("the kernel");
        let freed = stream.alloc_zeros::<f32>(32).expect("memory");
        let pointer = if stale { cudarc::driver::DevicePtr::device_ptr(&freed, &stream).0 } else { foreign };
        drop(freed);
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&pointer);
        // SAFETY: the pointer is refused before the kernel runs.
        unsafe { launch.launch(config(1, 32, 0)) }.expect("enqueued");
        assert_eq!(code(stream.synchronize()), 700);
        let text = if stale { "was freed" } else { "not memory that this driver gave out" };
        assert!(session.faults().iter().any(|fault| fault.contains(text)), "{:?}", session.faults());
    }
    assert_eq!(host, [0.0; 32]);
}

#[test]
fn a_module_that_is_unloaded_too_early_is_700() {
    let Some((session, stream, module)) = wrong("a_module_that_is_unloaded_too_early_is_700") else { return };
    let kernel = module.load_function("no_barrier").expect("the kernel");
    let mut out = stream.alloc_zeros::<f32>(32).expect("memory");
    let mut launch = stream.launch_builder(&kernel);
    launch.arg(&mut out);
    // SAFETY: a pointer to 32 floats.
    unsafe { launch.launch(config(1, 32, 0)) }.expect("enqueued");
    drop((kernel, module));
    assert_eq!(code(stream.synchronize()), 700);
    assert!(session.faults().iter().any(|fault| fault.contains("unloaded")), "{:?}", session.faults());
}
