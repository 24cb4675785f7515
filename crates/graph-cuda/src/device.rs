//! The device: what its streams, buffers, modules and graphs share, and how it ends.

use std::{
    cell::Cell,
    fmt,
    ptr::null_mut,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use cudarc::driver::{
    CudaContext,
    sys::{CUctx_st, CUdevice, CUdevice_attribute, CUdevice_attribute_enum},
};
use graph_core::{Error, Result};

use crate::{
    CudaOptions, Leak,
    calls::{self, Failure},
    codes,
    control::Control,
    handle::Handle,
    loading::Driver,
    module::LoadedModule,
    pad::Pads,
};

/// A CUDA device. Clones are handles of the same device.
///
/// It works in the device's primary context, which it shares with everything else in the process that uses the CUDA
/// runtime. The context is released when the last handle of the device is gone, and the last buffer, stream, event,
/// module and graph.
///
/// ```no_run
/// use graph_core::{Engine, Registry};
/// use graph_cuda::Cuda;
///
/// Cuda::available()?; // says what is missing, and opens nothing
/// let cuda = Cuda::new(0)?;
/// assert!(cuda.compute_capability()? >= (8, 0));
/// let engine = Engine::builder(cuda).build(&Registry::collect()?)?;
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Cuda(pub(crate) Arc<Device>);

impl Cuda {
    /// The device of that number, counted from 0.
    ///
    /// # Errors
    /// What is missing: the driver library, one of its functions, a driver of CUDA 12.3 or newer, the device, NVRTC
    /// (which compiles the kernel that pads; see [`CudaOptions::images`] for doing without).
    pub fn new(ordinal: usize) -> Result<Cuda> {
        Self::with_options(ordinal, CudaOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`new`](Cuda::new).
    pub fn with_options(ordinal: usize, options: CudaOptions) -> Result<Cuda> {
        let driver = Driver::find()?;
        let count = driver.devices;
        let number = i32::try_from(ordinal).ok().filter(|number| *number < count).ok_or_else(|| {
            let call = format!("opening device {ordinal}");
            codes::error(call, codes::INVALID_DEVICE, format_args!("the driver has {count} device(s)"))
        })?;
        let failed = |f: Failure| codes::error(f.call, f.code, "");
        let (mut cu_device, mut context) = (0, null_mut());
        // SAFETY: `Driver::find` has called `cuInit` and has seen every function; the pointers are valid for the writes.
        unsafe {
            calls::device_get(&raw mut cu_device, number).map_err(failed)?;
            calls::context_retain(&raw mut context, cu_device).map_err(failed)?;
        }
        static IDS: AtomicU64 = AtomicU64::new(1);
        let device = Arc::new(Device {
            id: IDS.fetch_add(1, Ordering::Relaxed),
            ordinal,
            cu_device,
            context: Handle::new(context),
            driver,
            options,
            next: AtomicU64::new(1),
            ended: OnceLock::new(),
            capturing: AtomicUsize::new(0),
            control: Mutex::default(),
            pads: OnceLock::new(),
            loaded: Mutex::default(),
            lent: Mutex::default(),
        });
        // From here on a failure drops the device, which releases the context.
        device.enter("opening the device")?;
        let pads = Pads::load(&device)?;
        device.pads.get_or_init(|| pads);
        Ok(Cuda(device))
    }

    /// Whether a device can be opened at all: driver library, functions, version, at least one device.
    ///
    /// # Errors
    /// What is missing.
    pub fn available() -> Result<()> {
        match Driver::find()?.devices {
            0 => Err(codes::error("opening device 0", codes::INVALID_DEVICE, "the driver has 0 device(s)")),
            _ => Ok(()),
        }
    }

    /// The device's number.
    pub fn ordinal(&self) -> usize {
        self.0.ordinal
    }

    /// The CUDA version that the driver supports, as it writes versions: 13000 is 13.0.
    pub fn driver_version(&self) -> i32 {
        self.0.driver.version
    }

    /// The device's compute capability, such as `(9, 0)`.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn compute_capability(&self) -> Result<(i32, i32)> {
        self.0.compute_capability()
    }

    /// What could not be freed or destroyed although it was tried more than once. It is tried again here, at every later
    /// free, and when the device ends; what is left then is in [`lost`](crate::lost).
    pub fn leaked(&self) -> Vec<Leak> {
        self.0.settle();
        self.0.control().leaks()
    }

    /// Buffers, graphs and other things that were dropped while a capture runs and wait for its end, and how many ever
    /// did.
    pub fn put_aside(&self) -> (usize, usize) {
        let control = self.0.control();
        (control.put_aside(), control.put_aside_ever())
    }

    /// The error that ended the device, if one has: every later call returns it.
    ///
    /// Errors such as an illegal address (700) or a failed launch (719) leave a CUDA context unusable. Drop every
    /// handle of the device then and open it again; where something else in the process holds the primary context,
    /// the process must end.
    pub fn ended(&self) -> Option<Error> {
        self.0.ended.get().map(|by| self.0.ended_by("the device", *by))
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cuda({})", self.0.ordinal)
    }
}

thread_local! {
    /// Number of the device whose context this thread made current last.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

pub(crate) struct Device {
    /// No other device of the process has it, not even one of the same ordinal.
    pub(crate) id: u64,
    ordinal: usize,
    pub(crate) cu_device: CUdevice,
    context: Handle<CUctx_st>,
    pub(crate) driver: Driver,
    pub(crate) options: CudaOptions,
    next: AtomicU64,
    /// The call that made the context unusable.
    pub(crate) ended: OnceLock<Failure>,
    /// How many captures run.
    pub(crate) capturing: AtomicUsize,
    control: Mutex<Control>,
    pub(crate) pads: OnceLock<Pads>,
    /// The modules that somebody holds: for operations that have a stream and no module.
    pub(crate) loaded: Mutex<Vec<Weak<LoadedModule>>>,
    /// The same context as cudarc's type, made when a raw block first wants it.
    pub(crate) lent: Mutex<Option<Arc<CudaContext>>>,
}

impl Device {
    pub(crate) fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no other stream or capture of the device has.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// The start of every call: the device has not ended, and its context is current as far as this thread knows.
    #[inline]
    pub(crate) fn enter(&self, call: &str) -> Result<()> {
        if let Some(by) = self.ended.get() {
            return Err(self.ended_by(call, *by));
        }
        match CURRENT.get() == self.id {
            true => Ok(()),
            false => self.bind().map_err(|f| self.fail(f)),
        }
    }

    /// The same for calls that name no stream or memory of ours, where another current context would go unnoticed: the
    /// driver is asked.
    pub(crate) fn enter_surely(&self, call: &str) -> Result<()> {
        CURRENT.set(0);
        self.enter(call)
    }

    /// Makes the context current on this thread.
    pub(crate) fn bind(&self) -> Result<(), Failure> {
        let mut now = null_mut();
        // SAFETY: the pointer is valid for the write, and the context is retained as long as `self` lives.
        unsafe {
            calls::context_current(&raw mut now)?;
            if now != self.context.raw() {
                calls::context_make_current(self.context.raw())?;
            }
        }
        CURRENT.set(self.id);
        Ok(())
    }

    /// Somebody else's code has run on this thread: what is current is not known.
    pub(crate) fn unbound() {
        CURRENT.set(0);
    }

    /// The error of a failed call. A fatal one ends the device.
    #[cold]
    pub(crate) fn fail(&self, failure: Failure) -> Error {
        self.note(failure);
        codes::error(failure.call, failure.code, "")
    }

    /// The same with a clause about it.
    #[cold]
    pub(crate) fn fail_with(&self, failure: Failure, detail: impl fmt::Display) -> Error {
        self.note(failure);
        codes::error(failure.call, failure.code, detail)
    }

    pub(crate) fn note(&self, failure: Failure) {
        if codes::is_fatal(failure.code) {
            self.ended.get_or_init(|| failure);
        }
    }

    #[cold]
    fn ended_by(&self, call: &str, by: Failure) -> Error {
        let detail = format_args!(
            "device {} ended when {} reported this; drop everything that is on it and open it again",
            self.ordinal, by.call
        );
        codes::error(call, by.code, detail)
    }

    pub(crate) fn attribute(&self, which: CUdevice_attribute) -> Result<i32> {
        let mut value = 0;
        // SAFETY: the pointer is valid for the write.
        unsafe { calls::device_attribute(&raw mut value, which, self.cu_device) }
            .map_err(|f| self.fail(f))?;
        Ok(value)
    }

    pub(crate) fn compute_capability(&self) -> Result<(i32, i32)> {
        use CUdevice_attribute_enum as Which;
        Ok((
            self.attribute(Which::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            self.attribute(Which::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.end();
    }
}
