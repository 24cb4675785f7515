//! The backend's own calls: memory, order, and what is refused.

use graph_core::{ErrorKind, Result, Tensor};

use super::refused;
use crate::{Bench, SuiteOps};

pub(crate) fn memory_is_uploaded_copied_zeroed_and_downloaded<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let device = bench.device()?;
    let stream = device.stream()?;
    let (a, b) = (device.alloc(64)?, device.alloc(64)?);
    assert_eq!(B::buffer_bytes(&a), 64);
    let data: Vec<u8> = (0..64).collect();
    B::upload(&stream, &data, &a, 0)?;
    B::upload(&stream, &[99, 98], &a, 3)?;
    B::zero(&stream, &b, 0, 64)?;
    B::copy(&stream, (&a, 2), (&b, 10), 4)?;
    B::copy(&stream, (&a, 0), (&a, 32), 32)?;
    let mut got = [1; 16];
    B::download(&stream, &b, 0, &mut got)?;
    assert_eq!(got, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 99, 98, 5, 0, 0]);
    B::download(&stream, &a, 30, &mut got)?;
    assert_eq!(got[..6], [30, 31, 0, 1, 2, 99]);
    // Nothing, at the very end.
    B::zero(&stream, &a, 64, 0)?;
    B::copy(&stream, (&a, 0), (&b, 64), 0)?;
    B::upload(&stream, &[], &a, 64)
}

pub(crate) fn an_upload_is_done_with_its_source_even_if_that_is_pinned<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let device = bench.device()?;
    let stream = device.stream()?;
    let (pinned, buffer) = (device.alloc_pinned(4)?, device.alloc(4)?);
    let bytes = B::pinned_bytes(&pinned).cast::<[u8; 4]>();
    // SAFETY: the memory is alive, nobody else uses it, and each access is over before the next.
    unsafe {
        bytes.write([1, 2, 3, 4]);
        B::upload(&stream, bytes.as_ref(), &buffer, 0)?;
        bytes.write([9, 9, 9, 9]);
    }
    let mut got = [0; 4];
    B::download(&stream, &buffer, 0, &mut got)?;
    assert_eq!(got, [1, 2, 3, 4]);
    Ok(())
}

pub(crate) fn pinned_memory_is_zero_and_aligned_and_carries_block_and_signal<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let device = bench.device()?;
    let stream = device.stream()?;
    let (pinned, block) = (device.alloc_pinned(20)?, device.alloc(16)?);
    let bytes = B::pinned_bytes(&pinned);
    assert_eq!((bytes.len(), bytes.cast::<u8>().addr().get() % 16), (20, 0));
    let words = bytes.cast::<[u32; 5]>();
    // SAFETY: the memory is alive and aligned, and no work on it is in flight.
    assert_eq!(unsafe { words.read() }, [0; 5]);
    // SAFETY: as above.
    unsafe { words.write([1, 2, 3, 4, 0]) };
    B::upload_block(&stream, &pinned, &block, 16)?;
    B::signal(&stream, (&block, 8), (&pinned, 16))?;
    B::await_signal(&stream, (&pinned, 16), 3)?;
    B::synchronize(&stream)?;
    // SAFETY: as above, after the wait.
    assert_eq!(unsafe { words.read() }, [1, 2, 3, 4, 3]);
    Ok(())
}

pub(crate) fn ranges_are_checked_before_anything_is_touched<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let device = bench.device()?;
    let stream = device.stream()?;
    let (a, b, pinned) = (device.alloc(16)?, device.alloc(8)?, device.alloc_pinned(8)?);
    B::zero(&stream, &b, 0, 8)?;
    let issued = device.issued();
    let beyond = |kind: &ErrorKind| matches!(kind, ErrorKind::OutOfBounds { bytes: 8, .. });
    refused(B::upload(&stream, &[1; 9], &b, 0), beyond);
    refused(B::download(&stream, &b, 6, &mut [0; 3]), beyond);
    refused(B::copy(&stream, (&a, 0), (&b, 0), 9), beyond);
    refused(B::copy(&stream, (&b, 4), (&a, 0), 5), beyond);
    refused(B::zero(&stream, &b, usize::MAX, 2), beyond);
    refused(B::upload_block(&stream, &pinned, &a, 9), beyond);
    refused(B::signal(&stream, (&a, 0), (&pinned, 8)), beyond);
    let driver = |kind: &ErrorKind| matches!(kind, ErrorKind::Driver { .. });
    refused(B::copy(&stream, (&a, 0), (&a, 4), 8), driver);
    refused(B::signal(&stream, (&a, 2), (&pinned, 4)), driver);
    assert_eq!(device.issued(), issued, "nothing was issued");
    let mut got = [1; 8];
    B::download(&stream, &b, 0, &mut got)?;
    assert_eq!(got, [0; 8]);
    Ok(())
}

pub(crate) fn events_order_two_streams<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let device = bench.device()?;
    let (stream, other) = (device.stream()?, device.stream()?);
    let a = Tensor::<B, f32, 1>::from_slice(&device, &stream, &[1.0; 4], [4])?;
    let b = Tensor::<B, f32, 1>::from_slice(&device, &stream, &[2.0; 4], [4])?;
    B::synchronize(&stream)?;
    B::zero(&other, a.view().buffer(), 0, 16)?;
    B::wait_event(&stream, &B::record_event(&other)?)?;
    b.view_mut().copy_from(&stream, a.view())?;
    assert_eq!(b.to_vec(&stream)?, [0.0; 4]);
    // Another device's stream knows neither the event nor the memory.
    let second = bench.device()?;
    let (foreign, event) = (second.stream()?, B::record_event(&other)?);
    let driver = |kind: &ErrorKind| matches!(kind, ErrorKind::Driver { .. });
    refused(B::wait_event(&foreign, &event), driver);
    refused(B::zero(&foreign, a.view().buffer(), 0, 4), driver);
    Ok(())
}

pub(crate) fn a_forked_stream_that_joins_again_is_part_of_the_capture<B: SuiteOps>(
    bench: &Bench<B>,
) -> Result<()> {
    let device = bench.device()?;
    let (stream, side) = (device.stream()?, device.stream()?);
    let a = Tensor::<B, f32, 1>::from_slice(&device, &stream, &[1.0], [1])?;
    let b = Tensor::<B, f32, 1>::from_slice(&device, &stream, &[2.0], [1])?;
    B::synchronize(&stream)?;
    B::begin_capture(&stream)?;
    let fork = || -> Result<()> {
        B::zero(&stream, a.view().buffer(), 0, 4)?;
        B::wait_event(&side, &B::record_event(&stream)?)?;
        b.view_mut().copy_from(&side, a.view())?;
        B::wait_event(&stream, &B::record_event(&side)?)
    };
    let recorded = fork();
    let captured = B::end_capture(&stream);
    recorded?;
    let captured = captured?;
    assert!(!B::is_capturing(&stream) && !B::is_capturing(&side));
    assert_eq!(B::operations(&captured), ["zero", "copy"]);
    assert_eq!(b.to_vec(&stream)?, [2.0], "nothing has run");
    let graph = device.instantiate(captured)?;
    B::launch(&graph, &stream)?;
    assert_eq!(b.to_vec(&stream)?, [0.0]);
    Ok(())
}

pub(crate) fn operations_are_counted_per_thread_and_device<B: SuiteOps>(bench: &Bench<B>) -> Result<()> {
    let device = bench.device()?;
    let (stream, buffer) = (device.stream()?, device.alloc(8)?);
    let before = device.issued();
    B::zero(&stream, &buffer, 0, 8)?;
    let second = bench.device()?;
    let (stream2, buffer2, before2) = (second.stream()?, second.alloc(8)?, second.issued());
    B::zero(&stream2, &buffer2, 0, 8)?;
    B::zero(&stream, &buffer, 0, 8)?;
    std::thread::scope(|scope| scope.spawn(|| B::zero(&stream, &buffer, 0, 4)).join().expect("no panic"))?;
    assert_eq!((device.issued() - before, second.issued() - before2), (2, 1));
    Ok(())
}
