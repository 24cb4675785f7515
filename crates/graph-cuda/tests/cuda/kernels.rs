//! Kernels: compiled from their source, checked against their declaration.

use super::*;
use graph_core::Elem;
use graph_cuda::{Arg, Kernel, KernelSource};
use toy::SOURCE;

#[test]
fn a_kernel_runs_and_is_recorded_under_its_name() {
    let (session, cuda, stream) = start!("a_kernel_runs_and_is_recorded_under_its_name");
    let mix = cuda.load(&SOURCE).unwrap().function("mix").unwrap();
    let two = |data: &[f32; 4]| Tensor::<Cuda, f32, 2>::from_slice(&cuda, &stream, data, [2, 2]).unwrap();
    let (x, w, y) = (two(&[1.0, 2.0, 3.0, 4.0]), two(&[10.0; 4]), two(&[0.0; 4]));
    let launch = || toy::mix(&mix, &stream, y.view_mut(), x.view(), w.view());
    launch().unwrap();
    assert_eq!(y.to_vec(&stream).unwrap(), [12.0, 14.0, 16.0, 18.0]);
    let recorded = captured(&stream, launch).unwrap();
    assert_eq!(Cuda::operations(&recorded), ["mix"]);
    let graph = cuda.instantiate(recorded).unwrap();
    drop(mix); // the graph keeps the module
    assert_eq!(session.live().modules, 2);
    Cuda::upload(&stream, &[0; 16], w.view().buffer(), 0).unwrap();
    Cuda::launch(&graph, &stream).unwrap();
    assert_eq!(y.to_vec(&stream).unwrap(), [2.0, 4.0, 6.0, 8.0]);
    drop(graph);
    assert_eq!(session.live().modules, 1, "the one that pads");
    drop((x, w, y, stream, cuda));
    nothing_left(&session);
}

#[test]
fn a_module_is_unloaded_behind_the_work_that_uses_it() {
    let (session, cuda, stream) = start!("a_module_is_unloaded_behind_the_work_that_uses_it");
    let two = |data: &[f32; 2]| Tensor::<Cuda, f32, 2>::from_slice(&cuda, &stream, data, [1, 2]).unwrap();
    let (x, w, y) = (two(&[1.0, 2.0]), two(&[10.0; 2]), two(&[0.0; 2]));
    let mix = cuda.load(&SOURCE).unwrap().function("mix").unwrap();
    toy::mix(&mix, &stream, y.view_mut(), x.view(), w.view()).unwrap();
    drop(mix); // its launch has not run: it does when something waits for it
    assert_eq!(session.live().modules, 1, "the one that pads");
    assert_eq!(y.to_vec(&stream).unwrap(), [12.0, 14.0]);
    drop((x, w, y, stream, cuda));
    nothing_left(&session);
}

#[test]
fn arguments_that_are_not_as_declared_are_refused_before_the_driver_is_called() {
    let (session, cuda, stream) =
        start!("arguments_that_are_not_as_declared_are_refused_before_the_driver_is_called");
    let mix = cuda.load(&SOURCE).unwrap().function("mix").unwrap();
    let x = tensor(&cuda, &stream, &[1.0; 4]);
    let ids = Tensor::<Cuda, i32, 1>::zeros(&cuda, &stream, [4]).unwrap();
    let second = support::open().unwrap();
    let foreign = tensor(&second, &second.stream().unwrap(), &[1.0; 4]);
    let calls = session.total_calls();
    let on = || mix.on(&stream).arg(x.view_mut()).arg(x.view());
    // SAFETY: every launch is refused.
    let refused = |launch: graph_cuda::Launch<'_>| text(unsafe { launch.launch() });
    let few = refused(on().arg(x.view()));
    assert!(few.ends_with("CUDA_ERROR_INVALID_VALUE (1): 3 argument(s), declared 4"), "{few}");
    let many = refused(on().arg(x.view()).arg(1_u32).arg(1_u32));
    assert!(many.ends_with("argument 4 is U32, declared: no such parameter"), "{many}");
    let element = refused(on().arg(ids.view()).arg(1_u32));
    assert!(element.ends_with("argument 2 is In(I32), declared: In(F32)"), "{element}");
    let written = refused(on().arg(x.view_mut()).arg(1_u32));
    assert!(written.ends_with("argument 2 is Out(F32), declared: In(F32)"), "{written}");
    let number = refused(on().arg(x.view()).arg(1.0_f32));
    assert!(number.ends_with("argument 3 is F32, declared: U32"), "{number}");
    let other = refused(on().arg(foreign.view()).arg(1_u32));
    assert!(other.ends_with("the buffer is of another device"), "{other}");
    assert_eq!(session.total_calls(), calls);
}

#[test]
fn a_declaration_that_the_compiled_kernel_does_not_have_is_refused_when_it_is_loaded() {
    let test = "a_declaration_that_the_compiled_kernel_does_not_have_is_refused_when_it_is_loaded";
    let Some(session) = support::session(test) else { return };
    let cuda = support::open().unwrap();
    const F: Elem = Elem::F32;
    macro_rules! declared { ($name:literal, $($arg:expr),*) => {{
        static KERNELS: &[Kernel] = &[Kernel::new($name, &[$($arg),*])];
        static WRONG: KernelSource = KernelSource { kernels: KERNELS, ..SOURCE };
        text(cuda.load(&WRONG))
    }} }
    let few = declared!("mix", Arg::Out(F), Arg::In(F), Arg::In(F));
    assert!(few.contains("kernel `mix` of mix.cu has more than the 3 declared parameter(s)"), "{few}");
    let many = declared!("mix", Arg::Out(F), Arg::In(F), Arg::In(F), Arg::U32, Arg::F32);
    assert!(many.contains("kernel `mix` of mix.cu has 4 parameter(s), declared 5"), "{many}");
    let size = declared!("mix", Arg::Out(F), Arg::In(F), Arg::In(F), Arg::U64);
    assert!(size.contains("kernel `mix` of mix.cu has 4 bytes in parameter 3, declared U64"), "{size}");
    let missing = declared!("blend", Arg::Out(F));
    assert!(missing.contains("CUDA_ERROR_NOT_FOUND (500): kernel `blend` of mix.cu"), "{missing}");
    assert_eq!(session.live().modules, 1, "the one that pads");
    let unknown = text(cuda.load(&SOURCE).unwrap().function("blend"));
    assert!(unknown.ends_with("mix.cu declares mix, not `blend`"), "{unknown}");
}

#[test]
fn dynamic_shared_memory_beyond_48_kib_is_declared() {
    let (_session, cuda, stream) = start!("dynamic_shared_memory_beyond_48_kib_is_declared");
    static BIG: KernelSource = KernelSource {
        name: "big.cu",
        text: r#"
            extern "C" __global__ void turn(float* x) {
                extern __shared__ float all[];
                all[threadIdx.x] = x[threadIdx.x];
                __syncthreads();
                x[threadIdx.x] = all[blockDim.x - 1 - threadIdx.x];
            }
            extern "C" __global__ void turn_small(float* x) {}
        "#,
        headers: &[],
        options: &[],
        kernels: &[
            Kernel::new("turn", &[Arg::Out(Elem::F32)]).dynamic_shared(64 << 10),
            Kernel::new("turn_small", &[Arg::Out(Elem::F32)]),
        ],
    };
    let (module, x) = (cuda.load(&BIG).unwrap(), tensor(&cuda, &stream, &[1.0, 2.0, 3.0]));
    let launch = |name: &str| {
        let function = module.function(name).unwrap();
        // SAFETY: three threads, an element each.
        unsafe { function.on(&stream).block([3, 1, 1]).shared_bytes(64 << 10).arg(x.view_mut()).launch() }
    };
    launch("turn").unwrap();
    assert_eq!(x.to_vec(&stream).unwrap(), [3.0, 2.0, 1.0]);
    assert!(text(launch("turn_small")).contains("CUDA_ERROR_INVALID_VALUE (1): in `turn_small`"));
}

#[test]
fn headers_stand_where_they_are_included() {
    let (_session, cuda, stream) = start!("headers_stand_where_they_are_included");
    static SPLIT: KernelSource = KernelSource {
        name: "split.cu",
        text: "#include \"three.h\"\nextern \"C\" __global__ void put(float* x) { x[0] = three(); }\n",
        headers: &[
            ("three.h", "#include \"inner.h\"\n__device__ float three() { return THREE; }\n"),
            ("inner.h", "#define THREE 3.0f\n"),
        ],
        options: &[],
        kernels: &[Kernel::new("put", &[Arg::Out(Elem::F32)])],
    };
    let put = cuda.load(&SPLIT).unwrap().function("put").unwrap();
    let x = tensor(&cuda, &stream, &[0.0]);
    // SAFETY: one thread writes one element.
    unsafe { put.on(&stream).arg(x.view_mut()).launch() }.unwrap();
    assert_eq!(x.to_vec(&stream).unwrap(), [3.0]);
}
