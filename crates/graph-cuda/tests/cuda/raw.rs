//! Raw blocks: on cudarc's own types, counted as one operation, listed as unchecked.

use super::*;
use graph_cuda::cudarc::driver::DriverError;

#[test]
fn a_raw_block_is_recorded_as_one_operation_and_listed() {
    let (session, cuda, stream) = start!("a_raw_block_is_recorded_as_one_operation_and_listed");
    let buffer = cuda.alloc(16).unwrap();
    let pointer = buffer.device_ptr();
    let block = || {
        Cuda::zero(&stream, &buffer, 0, 16)?;
        stream.keep(&buffer);
        // SAFETY: the ranges are the buffer's, which the graph keeps; the driver's functions are there.
        unsafe {
            stream.raw("two sets", |s| {
                use graph_cuda::cudarc::driver::result::memset_d8_async;
                memset_d8_async(pointer, 1, 4, s.cu_stream())?;
                memset_d8_async(pointer + 4, 2, 4, s.cu_stream())
            })
        }
    };
    let before = cuda.issued();
    block().unwrap();
    assert_eq!(cuda.issued() - before, 2);
    let recorded = captured(&stream, block).unwrap();
    assert_eq!(Cuda::operations(&recorded), ["zero", "raw: two sets"]);
    assert_eq!(recorded.unchecked(), ["two sets"]);
    let graph = cuda.instantiate(recorded).unwrap();
    assert_eq!(graph.unchecked(), ["two sets"]);
    Cuda::zero(&stream, &buffer, 0, 16).unwrap();
    Cuda::launch(&graph, &stream).unwrap();
    let mut got = [9; 16];
    Cuda::download(&stream, &buffer, 0, &mut got).unwrap();
    assert_eq!(got, [1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
    drop((buffer, graph, stream, cuda));
    nothing_left(&session);
}

#[test]
fn a_raw_block_on_another_stream_records_nothing() {
    let (_session, cuda, stream) = start!("a_raw_block_on_another_stream_records_nothing");
    let (buffer, other) = (cuda.alloc(16).unwrap(), cuda.stream().unwrap());
    let elsewhere = || {
        // SAFETY: the buffer outlives the work.
        unsafe { stream.raw("elsewhere", |_| Cuda::zero(&other, &buffer, 0, 16)) }
    };
    elsewhere().unwrap();
    let recorded = captured(&stream, elsewhere).unwrap();
    assert!(
        Cuda::operations(&recorded).is_empty(),
        "so graph-core sees one operation less than in the warm-up"
    );
    Cuda::synchronize(&other).unwrap();
}

#[test]
fn errors_of_a_raw_block_and_those_that_cudarc_parks_are_its_errors() {
    let (session, _cuda, stream) = start!("errors_of_a_raw_block_and_those_that_cudarc_parks_are_its_errors");
    // SAFETY: these blocks enqueue nothing that lasts.
    let error = text(unsafe {
        stream.raw("returns", |s| {
            session.fail_once("cuMemAllocAsync", 1, 2);
            s.alloc_zeros::<u8>(8).map(drop)
        })
    });
    assert_eq!(error, "cuda: raw block `returns` failed: CUDA_ERROR_OUT_OF_MEMORY (2)");
    // SAFETY: as above.
    let error = text(unsafe {
        stream.raw("parks", |s| {
            let slice = s.alloc_zeros::<u8>(8)?;
            session.fail_once("cuMemFreeAsync", 1, 1);
            drop(slice);
            Ok::<_, DriverError>(())
        })
    });
    assert_eq!(error, "cuda: a call in a raw block failed: CUDA_ERROR_INVALID_VALUE (1): in `parks`");
    captured(&stream, || Ok(())).unwrap();
}

#[test]
fn cudarcs_own_calls_on_its_own_memory_can_be_recorded() {
    let (session, cuda, stream) = start!("cudarcs_own_calls_on_its_own_memory_can_be_recorded");
    // A second stream of cudarc's turns its tracking by events on where that is allowed, and a wait for an event from
    // before the capture breaks it (905).
    // SAFETY: the stream is dropped with the slices, before the device; one stream uses the slices.
    let (_other, from, mut to) = unsafe {
        stream.raw("allocates", |s| {
            let other = s.context().new_stream()?;
            Ok::<_, DriverError>((other, s.clone_htod(&[1_u32, 2, 3])?, s.alloc_zeros::<u32>(3)?))
        })
    }
    .unwrap();
    // SAFETY: the slices outlive the graph.
    let recorded =
        captured(&stream, || unsafe { stream.raw("copies", |s| s.memcpy_dtod(&from, &mut to)) }).unwrap();
    let graph = cuda.instantiate(recorded).unwrap();
    Cuda::launch(&graph, &stream).unwrap();
    // SAFETY: as above.
    let read = unsafe { stream.raw("reads", |s| s.clone_dtoh(&to)) }.unwrap();
    assert_eq!(read, [1, 2, 3]);
    drop((graph, _other, from, to, stream, cuda));
    nothing_left(&session);
}

#[test]
fn the_first_raw_block_of_a_device_is_not_inside_a_capture() {
    let (_session, _cuda, stream) = start!("the_first_raw_block_of_a_device_is_not_inside_a_capture");
    // SAFETY: it does nothing.
    let nothing = || unsafe { stream.raw("nothing", |_| Ok::<_, DriverError>(())) };
    let error = text(captured(&stream, nothing));
    assert!(error.contains("the first raw block of the device failed"), "{error}");
    nothing().unwrap();
    captured(&stream, nothing).unwrap();
}

#[test]
fn a_panic_in_a_raw_block_leaves_the_stream_usable() {
    let (session, cuda, stream) = start!("a_panic_in_a_raw_block_leaves_the_stream_usable");
    Cuda::begin_capture(&stream).unwrap();
    // SAFETY: it does nothing.
    let block = || unsafe { stream.raw("panics", |_| -> Result<()> { panic!("on purpose") }) };
    assert!(
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(block)).is_ok(),
        "the first is refused, unrun"
    );
    assert_eq!(code(Cuda::end_capture(&stream)), 901);
    // SAFETY: it does nothing.
    unsafe { stream.raw("makes the context", |_| Ok::<_, DriverError>(())) }.unwrap();
    Cuda::begin_capture(&stream).unwrap();
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(block)).is_err());
    Cuda::end_capture(&stream).unwrap();
    captured(&stream, || Ok(())).unwrap();
    drop((stream, cuda));
    nothing_left(&session);
}
