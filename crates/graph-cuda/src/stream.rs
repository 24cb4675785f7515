//! Streams and events.

use std::{
    fmt,
    ptr::null_mut,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use cudarc::driver::{
    CudaStream,
    sys::{CUevent_st, CUstream, CUstream_st},
};
use graph_core::Result;

use crate::{
    Cuda,
    calls::{self, Failure},
    capture::Recorded,
    control::Doomed,
    device::Device,
    handle::Handle,
    issued,
    memory::foreign,
    staging::Staging,
};

/// `CU_STREAM_NON_BLOCKING`: the stream never waits for the legacy stream, which no capture may touch.
const NON_BLOCKING: u32 = 1;
/// `CU_EVENT_DISABLE_TIMING`: an event that is there to be waited for.
const NO_TIMING: u32 = 2;

/// A queue of operations.
///
/// Operations run in order and later than the call that issues them; while the stream captures they are recorded
/// instead. Clones share the stream.
///
/// ```no_run
/// use graph_core::{Backend, Tensor};
/// use graph_cuda::Cuda;
///
/// let cuda = Cuda::new(0)?;
/// let stream = cuda.stream()?;
/// let x = Tensor::<Cuda, f32, 1>::zeros(&cuda, &stream, [1024])?; // issued, perhaps not yet done
/// let y = Tensor::<Cuda, f32, 1>::alloc(&cuda, [1024])?;
/// y.view_mut().copy_from(&stream, x.view())?; // after it, for they are on one stream
/// assert_eq!(y.to_vec(&stream)?[0], 0.0); // waits
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Stream(pub(crate) Arc<StreamShared>);

pub(crate) struct StreamShared {
    pub(crate) device: Arc<Device>,
    pub(crate) raw: Handle<CUstream_st>,
    /// Number of the capture that it is part of, or 0; changed under the device's control lock.
    pub(crate) capture: Arc<AtomicU64>,
    /// The same stream as cudarc's type, made when a raw block first wants it.
    pub(crate) lent: OnceLock<Arc<CudaStream>>,
    pub(crate) staging: Mutex<Staging>,
}

/// A point in a stream.
///
/// ```no_run
/// use graph_core::{Backend, Tensor};
/// use graph_cuda::Cuda;
///
/// let cuda = Cuda::new(0)?;
/// let (one, two) = (cuda.stream()?, cuda.stream()?);
/// let x = Tensor::<Cuda, f32, 1>::zeros(&cuda, &one, [4])?;
/// Cuda::wait_event(&two, &Cuda::record_event(&one)?)?; // without it the copy races with the zeros
/// let y = Tensor::<Cuda, f32, 1>::alloc(&cuda, [4])?;
/// y.view_mut().copy_from(&two, x.view())?;
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Event {
    mark: Mark,
    /// The capture that recorded it, or 0.
    capture: u64,
}

/// An event of the driver.
pub(crate) struct Mark {
    device: Arc<Device>,
    pub(crate) raw: Handle<CUevent_st>,
}

impl Stream {
    pub(crate) fn new(cuda: &Cuda) -> Result<Stream> {
        let device = &cuda.0;
        device.enter_surely("stream")?;
        let mut raw = null_mut();
        // SAFETY: the context is current, and the pointer is valid for the write.
        unsafe { calls::stream_create(&raw mut raw, NON_BLOCKING) }.map_err(|f| device.fail(f))?;
        let raw = Handle::new(raw);
        if let Err(failure) = device.add_stream(raw) {
            device.discard(Doomed::Stream(raw));
            return Err(device.fail(failure));
        }
        let (device, capture, lent) = (device.clone(), Arc::default(), OnceLock::new());
        Ok(Stream(Arc::new(StreamShared { device, raw, capture, lent, staging: Mutex::default() })))
    }

    /// The device.
    pub fn device(&self) -> Cuda {
        Cuda(self.0.device.clone())
    }

    #[inline]
    pub(crate) fn on(&self) -> &Arc<Device> {
        &self.0.device
    }

    #[inline]
    pub(crate) fn raw_stream(&self) -> CUstream {
        self.0.raw.raw()
    }

    #[inline]
    pub(crate) fn is_recording(&self) -> bool {
        self.0.capture.load(Ordering::Acquire) != 0
    }

    /// Issues one operation: runs the call, counts it, and notes what it uses where it was recorded.
    #[inline]
    pub(crate) fn issue(
        &self,
        name: &'static str,
        recorded: impl FnOnce() -> Recorded,
        call: impl FnOnce(CUstream) -> Result<(), Failure>,
    ) -> Result<()> {
        let device = self.on();
        device.enter(name)?;
        call(self.raw_stream()).map_err(|f| device.fail_with(f, format_args!("in `{name}`")))?;
        issued::bump(device.id);
        if self.is_recording() {
            self.note_recorded(recorded());
        }
        Ok(())
    }

    pub(crate) fn wait(&self) -> Result<()> {
        let device = self.on();
        device.may_wait("synchronize", Some(self))?;
        device.enter("synchronize")?;
        // SAFETY: the context is current, and the stream is alive.
        unsafe { calls::stream_synchronize(self.raw_stream()) }.map_err(|f| device.fail(f))
    }

    pub(crate) fn mark(&self) -> Result<Event> {
        let device = self.on();
        device.enter("record_event")?;
        let event = Event { mark: self.new_event()?, capture: self.0.capture.load(Ordering::Acquire) };
        // SAFETY: both handles are alive, of this context.
        unsafe { calls::event_record(event.mark.raw.raw(), self.raw_stream()) }
            .map_err(|f| device.fail(f))?;
        Ok(event)
    }

    /// An event that was not recorded; it is destroyed whatever happens.
    pub(crate) fn new_event(&self) -> Result<Mark> {
        let device = self.on();
        let mut raw = null_mut();
        // SAFETY: the context is current, and the pointer is valid for the write.
        unsafe { calls::event_create(&raw mut raw, NO_TIMING) }.map_err(|f| device.fail(f))?;
        Ok(Mark { device: device.clone(), raw: Handle::new(raw) })
    }

    pub(crate) fn wait_for(&self, event: &Event) -> Result<()> {
        let device = self.on();
        if device.id != event.mark.device.id {
            return Err(foreign("wait_event", "event"));
        }
        device.enter("wait_event")?;
        // SAFETY: both handles are alive, of this context.
        unsafe { calls::stream_wait(self.raw_stream(), event.mark.raw.raw(), 0) }
            .map_err(|f| device.fail(f))?;
        self.join(event.capture);
        Ok(())
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?} of device {})", self.raw_stream(), self.on().ordinal())
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({:?})", self.mark.raw.raw())
    }
}

impl Drop for StreamShared {
    fn drop(&mut self) {
        let capture = self.capture.load(Ordering::Acquire);
        if capture != 0 {
            self.device.abandon(capture, self.raw);
        }
        drop(self.lent.take());
        // Before the stream, which is waited for before their memory is freed.
        drop(std::mem::take(self.staging.get_mut().unwrap_or_else(PoisonError::into_inner)));
        self.device.discard(Doomed::Stream(self.raw));
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.device.discard(Doomed::Event(self.raw));
    }
}
