//! Kernels from their own `.cu` source: numbers, captured and eager, and that the source is what runs.
use super::*;
use cudarc::driver::{CudaModule, DeviceRepr, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use stand_in_driver::{Compiler, KernelLibrary};
use std::path::{Path, PathBuf};

/// A file of the folder of test kernels.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels").join(name)
}

/// The compiled kernels, or a line that says that the test did not run.
fn compiled(test: &str) -> Option<KernelLibrary> {
    stand_in_driver::compile_or_not_run(test, &source("softmax.cu"))
}

pub(crate) fn config(blocks: u32, threads: u32, shared_mem_bytes: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes }
}

const ROW: usize = 64;

/// Two rows of numbers whose sums are powers of two, so that every order of adding gives the same bytes.
fn rows() -> Vec<f32> {
    (0..2 * ROW).map(|i| if i % ROW == 0 { 65.0 } else { 1.0 }).collect()
}

fn normalise(stream: &Arc<CudaStream>, module: &Arc<CudaModule>, replays: usize) -> Vec<f32> {
    let kernel = module.load_function("normalise").expect("the kernel");
    let x = stream.clone_htod(&rows()).expect("memory");
    let mut out = stream.alloc_zeros::<f32>(2 * ROW).expect("memory");
    stream.synchronize().expect("wait");
    let mut launch = || {
        let mut launch = stream.launch_builder(&kernel);
        launch.arg(&mut out).arg(&x);
        // SAFETY: the arguments are those of the kernel, for two rows of 64.
        unsafe { launch.launch(config(2, 64, 0)) }.expect("launch");
    };
    if replays == 0 {
        launch();
    } else {
        stream.begin_capture(THREAD_LOCAL).expect("begin");
        launch();
        let graph = stream.end_capture(NO_FLAGS).expect("end").expect("a graph");
        (0..replays).for_each(|_| graph.launch().expect("launch"));
    }
    stream.clone_dtoh(&out).expect("read")
}

#[test]
fn shared_memory_barriers_and_shuffles_give_the_right_numbers() {
    let Some(library) = compiled("shared_memory_barriers_and_shuffles_give_the_right_numbers") else {
        return;
    };
    let session = session();
    let (context, stream) = start();
    let module = context.load_module(Ptx::from_src(library.image())).expect("a module");
    let expected: Vec<f32> = rows().iter().map(|x| 2.0 * x / 128.0).collect();
    for reversed in [false, true] {
        session.set_reversed_threads(reversed);
        for replays in [0, 1, 3] {
            assert_eq!(
                normalise(&stream, &module, replays),
                expected,
                "reversed: {reversed}, replays: {replays}"
            );
        }
    }
}

#[test]
fn changing_one_constant_of_the_source_changes_the_result() {
    let Some(compiler) = Compiler::find() else {
        return stand_in_driver::not_run("changing_one_constant_of_the_source_changes_the_result");
    };
    let text = std::fs::read_to_string(source("softmax.cu")).expect("the source");
    let changed = text.replace("#define SCALE 2.0f", "#define SCALE 3.0f");
    assert_ne!(text, changed);
    let folder = source("");
    let run = |text: &str| {
        let library = compiler.compile_text(text, "softmax.cu", &folder).expect("compiled");
        let _session = session();
        let (context, stream) = start();
        let module = context.load_module(Ptx::from_src(library.image())).expect("a module");
        normalise(&stream, &module, 0)
    };
    let (before, after) = (run(&text), run(&changed));
    assert_eq!(before[0], 130.0 / 128.0);
    assert_eq!(after[0], 195.0 / 128.0);
}

#[test]
fn the_host_headers_know_the_language() {
    let test = "the_host_headers_know_the_language";
    let Some(library) = stand_in_driver::compile_or_not_run(test, &source("language.cu")) else { return };
    // The template in the source is no kernel that could be loaded by name.
    assert_eq!(library.kernels(), ["language"]);
}

#[test]
fn dynamic_shared_memory_belongs_to_one_block() {
    let Some(library) = compiled("dynamic_shared_memory_belongs_to_one_block") else { return };
    let _session = session();
    let (context, stream) = start();
    let module = context.load_module(Ptx::from_src(library.image())).expect("a module");
    let reverse = module.load_function("reverse").expect("the kernel");
    // Not a multiple of a warp.
    let numbers: Vec<u32> = (0..3 * 40).collect();
    let mut data = stream.clone_htod(&numbers).expect("memory");
    let mut launch = stream.launch_builder(&reverse);
    launch.arg(&mut data);
    // SAFETY: three rows of forty, with room for one in shared memory.
    unsafe { launch.launch(config(3, 40, 160)) }.expect("launch");
    let expected: Vec<u32> = numbers.chunks(40).flat_map(|row| row.iter().rev().copied()).collect();
    assert_eq!(stream.clone_dtoh(&data).expect("read"), expected);
}

#[test]
fn more_dynamic_shared_memory_than_48_kib_needs_the_attribute() {
    let Some(library) = compiled("more_dynamic_shared_memory_than_48_kib_needs_the_attribute") else {
        return;
    };
    let _session = session();
    let (context, stream) = start();
    let module = context.load_module(Ptx::from_src(library.image())).expect("a module");
    let reverse = module.load_function("reverse").expect("the kernel");
    let mut data = stream.alloc_zeros::<u32>(8).expect("memory");
    let mut launch = |threads: u32, shared: u32| {
        let mut launch = stream.launch_builder(&reverse);
        launch.arg(&mut data);
        // SAFETY: one row of eight, or a launch that is refused.
        code(unsafe { launch.launch(config(1, threads, shared)) })
    };
    assert_eq!([launch(8, 48 << 10), launch(8, 49 << 10), launch(0, 0), launch(1025, 0)], [0, 1, 1, 1]);
    let most = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    assert_eq!(code(reverse.set_attribute(most, 228 << 10)), 1);
    reverse.set_attribute(most, 100 << 10).expect("an attribute");
    assert_eq!([launch(8, 100 << 10), launch(8, 101 << 10)], [0, 1]);
    stream.synchronize().expect("wait");
}

#[repr(C)]
struct Affine {
    factor: f32,
    offset: f32,
    count: i32,
}

// SAFETY: the same plain struct as in the kernels' source.
unsafe impl DeviceRepr for Affine {}

#[test]
fn bf16_rounds_to_nearest_even_and_structs_go_by_value() {
    let Some(library) = compiled("bf16_rounds_to_nearest_even_and_structs_go_by_value") else { return };
    let _session = session();
    let (context, stream) = start();
    let module = context.load_module(Ptx::from_src(library.image())).expect("a module");
    let affine = module.load_function("affine").expect("the kernel");
    // 1, 1 + 1/128 (the next bf16), infinity, NaN, and one that the count leaves alone.
    let mut data = stream.clone_htod(&[0x3F80u16, 0x3F81, 0x7F80, 0x7FC0, 0x3F80]).expect("memory");
    let map = Affine { factor: 1.0, offset: 1.0 / 256.0, count: 4 };
    let mut launch = stream.launch_builder(&affine);
    launch.arg(&mut data).arg(&map);
    // SAFETY: the arguments are those of the kernel.
    unsafe { launch.launch(config(1, 32, 0)) }.expect("launch");
    // A tie goes to the even neighbour: down from 1, up from 1 + 1/128.
    assert_eq!(stream.clone_dtoh(&data).expect("read"), [0x3F80, 0x3F82, 0x7F80, 0x7FFF, 0x3F80]);
}

#[test]
fn votes_and_directed_shuffles_follow_the_lanes() {
    let Some(library) = compiled("votes_and_directed_shuffles_follow_the_lanes") else { return };
    let _session = session();
    let (context, stream) = start();
    let module = context.load_module(Ptx::from_src(library.image())).expect("a module");
    let ballot = module.load_function("ballot").expect("the kernel");
    let flags: Vec<i32> = (0..32).map(|lane| i32::from(lane % 3 == 0)).collect();
    let on = stream.clone_htod(&flags).expect("memory");
    let mut out = stream.alloc_zeros::<u32>(33).expect("memory");
    let mut launch = stream.launch_builder(&ballot);
    launch.arg(&mut out).arg(&on);
    // SAFETY: the arguments are those of the kernel, for one warp.
    unsafe { launch.launch(config(1, 32, 0)) }.expect("launch");
    let mask = flags.iter().rev().fold(0u32, |mask, flag| mask << 1 | *flag as u32);
    let expected = (0..32usize).map(|lane| {
        let down = if lane < 31 { flags[lane + 1] } else { flags[lane] };
        let up = if lane % 8 >= 2 { flags[lane - 2] } else { flags[lane] };
        mask ^ (down + 16 * flags[0] + 256 * up) as u32
    });
    let expected: Vec<u32> = expected.chain([mask.count_ones()]).collect();
    assert_eq!(stream.clone_dtoh(&out).expect("read"), expected);
}

const PTX: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\
    .visible .entry reverse(.param .u64 .ptr .global .align 4 reverse_param_0)\n{ ret; }\n";

#[test]
fn ptx_gets_the_host_code_that_was_registered_for_its_names() {
    let session = session();
    let (context, stream) = start();
    let mut data = stream.clone_htod(&[1u32, 2, 3]).expect("memory");
    let mut launch = |module: &Arc<CudaModule>| {
        let reverse = module.load_function("reverse").expect("the kernel");
        let mut launch = stream.launch_builder(&reverse);
        launch.arg(&mut data);
        // SAFETY: one row of three, with room for it in shared memory.
        code(unsafe { launch.launch(config(1, 3, 12)) })
    };
    let module = context.load_module(Ptx::from_src(PTX)).expect("a module");
    assert_eq!(launch(&module), 801, "no host code");
    assert!(session.faults().last().is_some_and(|fault| fault.contains("reverse")));
    session.set_noop_kernels(true);
    assert_eq!(launch(&module), 0, "accepted, and does nothing");
    assert_eq!(code(module.load_function("backwards")), 500);
    assert_eq!(code(context.load_module(Ptx::from_src("hello"))), 200);
    let Some(library) = compiled("ptx_gets_the_host_code_that_was_registered_for_its_names") else { return };
    session.register_kernels(&library).expect("registered");
    let module = context.load_module(Ptx::from_src(PTX)).expect("a module");
    assert_eq!(launch(&module), 0);
    assert_eq!(stream.clone_dtoh(&data).expect("read"), [3, 2, 1]);
    let other = PTX.replace(".u64 .ptr .global .align 4", ".u32");
    assert_eq!(code(context.load_module(Ptx::from_src(other))), 200, "not the parameters of the host code");
}

#[test]
fn kernel_nodes_show_their_parameters_and_take_new_ones() {
    let Some(library) = compiled("kernel_nodes_show_their_parameters_and_take_new_ones") else { return };
    let _session = session();
    let (context, stream) = start();
    let module = context.load_module(Ptx::from_src(library.image())).expect("a module");
    let reverse = module.load_function("reverse").expect("the kernel");
    let mut data = stream.clone_htod(&[1u32, 2, 3, 4]).expect("memory");
    stream.synchronize().expect("wait");
    stream.begin_capture(THREAD_LOCAL).expect("begin");
    let mut launch = stream.launch_builder(&reverse);
    launch.arg(&mut data);
    // SAFETY: one row of four, with room for it in shared memory.
    unsafe { launch.launch(config(1, 4, 16)) }.expect("launch");
    let graph = stream.end_capture(NO_FLAGS).expect("end").expect("a graph");
    let pointer = cudarc::driver::DevicePtr::device_ptr(&data, &stream).0;
    // SAFETY: the graph has one node, a kernel's, with one pointer as parameter; zeros are valid for the
    // struct.
    unsafe {
        let mut node = std::ptr::null_mut();
        assert_eq!(raw(sys::cuGraphGetNodes(graph.cu_graph(), &raw mut node, &mut 1)), 0);
        let mut params: sys::CUDA_KERNEL_NODE_PARAMS = std::mem::zeroed();
        assert_eq!(raw(sys::cuGraphKernelNodeGetParams_v2(node, &raw mut params)), 0);
        assert_eq!((params.gridDimX, params.blockDimX, params.sharedMemBytes), (1, 4, 16));
        assert_eq!(params.kernelParams.read().cast::<u64>().read(), pointer);
        let mut name = std::ptr::null();
        assert_eq!(raw(sys::cuFuncGetName(&raw mut name, params.func)), 0);
        assert_eq!(std::ffi::CStr::from_ptr(name), c"reverse");
        // Two blocks of two instead of one of four.
        (params.gridDimX, params.blockDimX) = (2, 2);
        assert_eq!(
            raw(sys::cuGraphExecKernelNodeSetParams_v2(graph.cu_graph_exec(), node, &raw const params)),
            0
        );
    }
    graph.launch().expect("launch");
    assert_eq!(stream.clone_dtoh(&data).expect("read"), [2, 1, 4, 3]);
}

#[test]
fn without_a_compiler_a_kernel_test_says_that_it_did_not_run() {
    let test = "kernels::dynamic_shared_memory_belongs_to_one_block";
    let mut again = std::process::Command::new(std::env::current_exe().expect("this program"));
    let output = again.args([test, "--exact"]).env("PATH", "").env_remove("CXX").output().expect("a run");
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("NOT RUN: dynamic_shared_memory_belongs_to_one_block: no C++ compiler"), "{said}");
}
