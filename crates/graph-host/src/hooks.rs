//! For tests: failures on demand, and operations that quietly do nothing.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use graph_core::Result;

use crate::{Host, codes};

/// A call that can be made to fail with [`Host::fail_next`].
///
/// ```
/// use graph_core::{Backend, ErrorKind};
/// use graph_host::{Call, Host, codes};
///
/// let host = Host::new();
/// host.fail_next(Call::Stream, codes::OUT_OF_MEMORY);
/// let error = host.stream().err().expect("it was ordered");
/// let ErrorKind::Driver { call, code, .. } = error.kind() else { panic!("{error}") };
/// assert_eq!((call.as_str(), *code), (Call::Stream.name(), codes::OUT_OF_MEMORY));
/// assert!(host.stream().is_ok());
/// # Ok::<(), graph_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// `alloc`
    Alloc,
    /// `alloc_pinned`
    AllocPinned,
    /// `stream`
    Stream,
    /// `synchronize`
    Synchronize,
    /// `record_event`
    RecordEvent,
    /// `wait_event`
    WaitEvent,
    /// `upload`
    Upload,
    /// `download`
    Download,
    /// `copy`
    Copy,
    /// `zero`
    Zero,
    /// `upload_block`
    UploadBlock,
    /// `pad_rows`
    PadRows,
    /// `signal`
    Signal,
    /// A kernel of any name.
    Kernel,
    /// A host callback of any name.
    Callback,
    /// `begin_capture`
    BeginCapture,
    /// `end_capture`: the capture ends all the same.
    EndCapture,
    /// `instantiate`
    Instantiate,
    /// `upload_graph`
    UploadGraph,
    /// `launch`
    Launch,
}

impl Call {
    /// Its name in errors.
    pub const fn name(self) -> &'static str {
        match self {
            Call::Alloc => "alloc",
            Call::AllocPinned => "alloc_pinned",
            Call::Stream => "stream",
            Call::Synchronize => "synchronize",
            Call::RecordEvent => "record_event",
            Call::WaitEvent => "wait_event",
            Call::Upload => "upload",
            Call::Download => "download",
            Call::Copy => "copy",
            Call::Zero => "zero",
            Call::UploadBlock => "upload_block",
            Call::PadRows => "pad_rows",
            Call::Signal => "signal",
            Call::Kernel => "kernel",
            Call::Callback => "callback",
            Call::BeginCapture => "begin_capture",
            Call::EndCapture => "end_capture",
            Call::Instantiate => "instantiate",
            Call::UploadGraph => "upload_graph",
            Call::Launch => "launch",
        }
    }
}

/// What is armed on a device.
#[derive(Default)]
pub(crate) struct Hooks {
    armed: AtomicBool,
    failures: Mutex<Vec<Failure>>,
    corruption: Mutex<Option<(String, usize)>>,
}

struct Failure {
    /// `None`: any call.
    call: Option<Call>,
    /// Calls that still succeed.
    left: u64,
    code: u32,
}

impl Hooks {
    /// Fails where a failure is due; one relaxed load where none is armed.
    #[inline]
    pub(crate) fn check(&self, call: Call, name: &str) -> Result<()> {
        match self.armed.load(Ordering::Relaxed) {
            false => Ok(()),
            true => self.due(call, name),
        }
    }

    #[cold]
    fn due(&self, call: Call, name: &str) -> Result<()> {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = None;
        for (i, failure) in failures.iter_mut().enumerate() {
            if failure.call.is_none_or(|c| c == call) {
                match failure.left.checked_sub(1) {
                    Some(left) => failure.left = left,
                    None => due = due.or(Some(i)),
                }
            }
        }
        let Some(due) = due else { return Ok(()) };
        let code = failures.remove(due).code;
        self.armed.store(!failures.is_empty(), Ordering::Relaxed);
        Err(codes::error(name, code, "injected"))
    }

    /// Takes the armed corruption, if the operations have it; gives its position.
    pub(crate) fn corrupted<'n>(&self, names: impl Iterator<Item = &'n str>) -> Option<usize> {
        let mut armed = self.corruption.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, n) = armed.as_ref()?;
        let found = names.enumerate().filter(|(_, this)| this == name).nth(*n)?.0;
        *armed = None;
        Some(found)
    }
}

/// For tests. None of it costs more than one relaxed load where it is not used.
impl Host {
    /// The next call of this kind fails with this code, once, and does nothing else.
    ///
    /// ```
    /// use graph_core::Backend;
    /// use graph_host::{Call, Host, codes};
    /// let host = Host::new();
    /// host.fail_next(Call::Alloc, codes::OUT_OF_MEMORY);
    /// let error = host.alloc(16).err().unwrap();
    /// assert_eq!(error.to_string(), "host: alloc failed: CUDA_ERROR_OUT_OF_MEMORY (2): injected");
    /// assert!(host.alloc(16).is_ok());
    /// ```
    pub fn fail_next(&self, call: Call, code: u32) {
        self.arm(Failure { call: Some(call), left: 0, code });
    }

    /// The call after `n` more calls of any kind fails with this code, once: the way to fail every call of a program
    /// in turn.
    ///
    /// ```
    /// use graph_core::Backend;
    /// use graph_host::{Host, codes};
    /// let program = |host: &Host| Host::synchronize(&host.stream()?);
    /// let mut failed = 0;
    /// loop {
    ///     let host = Host::new();
    ///     host.fail_after(failed, codes::OUT_OF_MEMORY);
    ///     if program(&host).is_ok() {
    ///         break;
    ///     }
    ///     failed += 1;
    /// }
    /// assert_eq!(failed, 2, "it makes two calls");
    /// ```
    pub fn fail_after(&self, n: u64, code: u32) {
        self.arm(Failure { call: None, left: n, code });
    }

    /// Forgets failures that were not reached; gives their number.
    pub fn disarm(&self) -> usize {
        let hooks = &self.0.hooks;
        let mut failures = hooks.failures.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.armed.store(false, Ordering::Relaxed);
        std::mem::take(&mut *failures).len()
    }

    /// In the next graph that has more than `n` operations of this name, operation `n` of them (counted from 0) does
    /// nothing, although it is still listed: what a comparison must find.
    ///
    /// ```
    /// use graph_core::{Backend, Tensor};
    /// use graph_host::Host;
    /// let host = Host::new();
    /// let stream = host.stream()?;
    /// let t = Tensor::<Host, i32, 1>::from_slice(&host, &stream, &[7], [1])?;
    /// host.corrupt_operation("zero", 0);
    /// Host::begin_capture(&stream)?;
    /// Host::zero(&stream, t.view().buffer(), 0, 4)?;
    /// let graph = host.instantiate(Host::end_capture(&stream)?)?;
    /// Host::launch(&graph, &stream)?;
    /// assert_eq!(t.to_vec(&stream)?, [7]);
    /// # Ok::<(), graph_core::Error>(())
    /// ```
    pub fn corrupt_operation(&self, name: impl Into<String>, n: usize) {
        let mut armed = self.0.hooks.corruption.lock().unwrap_or_else(PoisonError::into_inner);
        *armed = Some((name.into(), n));
    }

    fn arm(&self, failure: Failure) {
        let hooks = &self.0.hooks;
        let mut failures = hooks.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.push(failure);
        hooks.armed.store(true, Ordering::Relaxed);
    }
}
