//! What is missing or does not fit, each with its message.

use super::*;
use graph_cuda::CudaOptions;

#[test]
fn a_driver_that_is_too_old_is_refused_with_the_calls_that_it_lacks() {
    let Some(session) = support::session("a_driver_that_is_too_old_is_refused_with_the_calls_that_it_lacks")
    else {
        return;
    };
    session.set_driver_version(12_020);
    let error = text(support::open());
    let start = "cuda: loading the driver failed: CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER (36): the driver supports CUDA \
                 12.2, 12.3 is the oldest that works; it lacks cuStreamGetCaptureInfo_v3, cuGraphGetEdges_v2, \
                 cuFuncGetName";
    assert_eq!(error, start);
    assert_eq!(text(Cuda::available()), error);
    session.set_driver_version(12_030);
    support::open().unwrap();
}

#[test]
fn an_index_that_is_out_of_range_is_refused_with_the_number_of_devices() {
    let Some(session) =
        support::session("an_index_that_is_out_of_range_is_refused_with_the_number_of_devices")
    else {
        return;
    };
    for ordinal in [1, 7, usize::MAX] {
        let error = text(Cuda::with_options(ordinal, support::options()));
        let start = format!("cuda: opening device {ordinal} failed: CUDA_ERROR_INVALID_DEVICE (101): ");
        assert_eq!(error, start + "the driver has 1 device(s)");
    }
    session.set_devices(2);
    assert_eq!(Cuda::with_options(1, support::options()).unwrap().ordinal(), 1);
    session.set_devices(0);
    let none = "cuda: cuInit failed: CUDA_ERROR_NO_DEVICE (100)";
    assert_eq!((text(support::open()), text(Cuda::available())), (none.into(), none.into()));
}

#[test]
fn an_image_that_is_none_is_refused_by_the_name_of_its_source() {
    let Some(session) = support::session("an_image_that_is_none_is_refused_by_the_name_of_its_source") else {
        return;
    };
    let bad = CudaOptions::default().images(|_| Some(b"no image".to_vec()));
    let error = text(Cuda::with_options(0, bad));
    assert_eq!(error, "cuda: cuModuleLoadData failed: CUDA_ERROR_INVALID_IMAGE (200): the image of pad.cu");
    assert!(session.live().is_zero(), "{:?}", session.live());
}

#[test]
fn out_of_memory_in_the_arena_says_how_much_was_asked_for() {
    let (session, cuda, _stream) = start!("out_of_memory_in_the_arena_says_how_much_was_asked_for");
    session.set_memory(1 << 20);
    let error = text(cuda.alloc(2 << 20));
    let start = "cuda: cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY (2): ";
    assert_eq!(error, format!("{start}2097152 bytes asked for, 1048576 of 1048576 free"));
    session.set_memory(100);
    let error = text(toy::build(cuda.clone()).map(drop));
    assert_eq!(error, format!("{start}512 bytes asked for, 100 of 100 free"));
    session.set_memory(1 << 30);
    toy::build(cuda).unwrap();
}

#[test]
fn out_of_memory_in_a_capture_and_in_instantiate_costs_one_bucket() {
    let Some(session) = support::session("out_of_memory_in_a_capture_and_in_instantiate_costs_one_bucket")
    else {
        return;
    };
    for (call, stage, sizes) in [
        ("cuStreamBeginCapture_v2", "capture", "(bs 6, tokens 6)"),
        ("cuStreamEndCapture", "capture", "(bs 6, tokens 6)"),
        ("cuGraphInstantiateWithFlags", "instantiate", "(bs 6, tokens 6)"),
        ("cuGraphUpload", "upload", "(bs 6, tokens 6)"),
    ] {
        session.reset();
        session.fail_once(call, 2, 2); // the second largest bucket
        let (engine, mut runner) = toy::build(support::open().unwrap()).unwrap();
        let failures = &engine.stats()[0].failures;
        assert_eq!(failures.len(), 1, "{call}");
        let error = failures[0].to_string();
        let want = format!("toy.mix: bucket {sizes}, slot 0, failed at {stage}: cuda: {call} failed: ");
        assert_eq!(error, want + "CUDA_ERROR_OUT_OF_MEMORY (2)");
        let (replayed, numbers) = toy::run(&engine, &mut runner, 6).unwrap();
        assert_eq!((replayed, numbers), (true, toy::expected(6)), "in the bucket of 8");
        drop((runner, engine));
        assert!(session.live().is_zero(), "{call}: {:?}", session.live());
    }
}
