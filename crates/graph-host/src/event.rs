//! Events: points in a stream, for other streams to wait for.

use std::{fmt, sync::atomic::Ordering};

use graph_core::Result;

use crate::{Host, Stream, codes, hooks::Call};

/// A point in a stream: what another stream waits for, and, inside a capture, what forks and joins.
///
/// ```
/// use graph_core::Backend;
/// use graph_host::Host;
/// let host = Host::new();
/// let (main, side) = (host.stream()?, host.stream()?);
/// Host::begin_capture(&main)?;
/// Host::wait_event(&side, &Host::record_event(&main)?)?; // fork
/// side.callback("on the side", || {})?;
/// Host::wait_event(&main, &Host::record_event(&side)?)?; // join
/// assert_eq!(Host::operations(&Host::end_capture(&main)?), ["on the side"]);
///
/// let outside = Host::record_event(&main)?;
/// assert!(outside.query()?);
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Event {
    pub(crate) host: Host,
    pub(crate) at: At,
}

/// Where an event was recorded.
pub(crate) enum At {
    /// Outside any capture, at this time of the virtual clock.
    Past { clock: u64 },
    /// In a capture, behind these of its operations.
    Captured { capture: u64, tips: Vec<usize> },
}

impl Event {
    /// Waits on the host until the stream has passed the event.
    ///
    /// # Errors
    /// 907 for an event that a capture recorded, which breaks the capture; 900 on a thread that captures.
    pub fn synchronize(&self) -> Result<()> {
        self.host_side("event synchronize")?;
        match self.at {
            At::Past { clock } => self.host.0.host_waits(clock),
            At::Captured { .. } => Ok(()),
        }
    }

    /// Whether the stream has passed the event: always, on this backend, where the question is permitted.
    ///
    /// # Errors
    /// As [`synchronize`](Event::synchronize).
    pub fn query(&self) -> Result<bool> {
        self.host_side("event query").map(|()| true)
    }

    fn host_side(&self, call: &str) -> Result<()> {
        crate::turn::not_inside(call)?;
        match self.at {
            At::Captured { capture, .. } => Err(self.host.0.forbid_event(call, capture)),
            At::Past { .. } => self.host.0.not_capturing(call, None),
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let captured = matches!(self.at, At::Captured { .. });
        f.debug_struct("Event").field("host", &self.host).field("captured", &captured).finish()
    }
}

impl Stream {
    pub(crate) fn record_event(&self) -> Result<Event> {
        let call = Call::RecordEvent.name();
        self.device().enter(Call::RecordEvent, call)?;
        let past = At::Past { clock: self.0.clock.load(Ordering::Relaxed) };
        let at = match self.is_capturing() {
            true => self.captured_end(call)?.unwrap_or(past),
            false => past,
        };
        Ok(Event { host: self.host().clone(), at })
    }

    pub(crate) fn wait_event(&self, event: &Event) -> Result<()> {
        let call = Call::WaitEvent.name();
        self.device().enter(Call::WaitEvent, call)?;
        if self.device().gate.id() != event.host.0.gate.id() {
            return Err(codes::error(call, codes::INVALID_HANDLE, "the event is of another device"));
        }
        let captured = self.is_capturing() || matches!(event.at, At::Captured { .. });
        if captured && self.wait_captured(call, event)? {
            return Ok(());
        }
        if let At::Past { clock } = event.at {
            self.0.clock.fetch_max(clock, Ordering::Relaxed);
        }
        Ok(())
    }
}
