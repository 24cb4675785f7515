//! Streams: run at once, or record.

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use graph_core::{Error, ErrorKind, Result};

use crate::{Host, device::Device, hooks::Call, issued, kernel::Label, turn::Turn};

/// A queue of operations: run by the call that issues them, or recorded while the stream captures.
///
/// Streams may be used from several threads at once: one operation of a device runs at a time.
///
/// ```
/// use graph_core::{Backend, Tensor};
/// use graph_host::{Host, Stream};
/// let host = Host::new();
/// let (a, b): (Stream, Stream) = (host.stream()?, host.stream()?);
/// let x = Tensor::<Host, i32, 1>::from_slice(&host, &a, &[1, 2], [2])?;
/// a.kernel("negate", (), (x.view_mut(),), |(), (x,)| x.iter_mut().for_each(|x| *x = -*x))?;
/// Host::wait_event(&b, &Host::record_event(&a)?)?;
/// assert_eq!(x.to_vec(&b)?, [-1, -2]);
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Stream(pub(crate) Arc<StreamShared>);

impl Stream {
    pub(crate) fn new(host: &Host) -> Self {
        Stream(Arc::new(StreamShared {
            id: host.0.number(),
            host: host.clone(),
            capturing: Arc::default(),
            clock: AtomicU64::new(0),
        }))
    }

    /// Its number, unique within the device.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The device.
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.0.host.0
    }

    #[inline]
    pub(crate) fn is_capturing(&self) -> bool {
        self.0.capturing.load(Ordering::Acquire)
    }

    /// Runs an operation now, or records it.
    pub(crate) fn submit(
        &self,
        call: Call,
        label: Label,
        body: impl Fn(&mut Turn<'_>) + Send + 'static,
    ) -> Result<()> {
        self.device().enter(call, label.name)?;
        if self.is_capturing() {
            self.record(label, Box::new(body))?;
        } else {
            self.execute(label, body)?;
        }
        issued::bump(self.device());
        Ok(())
    }

    /// Runs an operation now; a panic in it is an error.
    pub(crate) fn execute(&self, label: Label, body: impl FnOnce(&mut Turn<'_>)) -> Result<()> {
        let device = self.device();
        let mut turn = device.gate.enter(label.name)?;
        let ran = catch_unwind(AssertUnwindSafe(|| body(&mut turn)));
        if device.timeline.is_on() {
            device.timeline.operation(&self.0, label);
        }
        drop(turn);
        ran.map_err(|panic| panicked(label.name, panic))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} of {:?})", self.0.id, self.0.host)
    }
}

pub(crate) struct StreamShared {
    pub(crate) id: u64,
    host: Host,
    /// Whether it is part of a capture; changed under the device's control lock.
    pub(crate) capturing: Arc<AtomicBool>,
    /// Its end on the virtual clock.
    pub(crate) clock: AtomicU64,
}

impl Drop for StreamShared {
    fn drop(&mut self) {
        if self.capturing.load(Ordering::Acquire) {
            self.host.0.abandon(self.id);
        }
    }
}

/// The error of an operation whose body panicked.
#[cold]
pub(crate) fn panicked(operation: &str, panic: Box<dyn Any + Send>) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    ErrorKind::Panicked(format!("in `{operation}`: {}", text.unwrap_or("(no message)"))).into()
}
