//! Events: marks in streams, outside captures and inside them.
use super::abi::Handle;
use super::codes::{Code, Result};
use super::op::Op;
use super::state::State;
use std::time::Instant;

#[derive(Default)]
pub(crate) struct Event {
    pub(crate) context: Handle,
    /// `CU_EVENT_DISABLE_TIMING`.
    pub(crate) untimed: bool,
    /// The stream and the operation number of the last record outside a capture.
    at: Option<(Handle, u64)>,
    /// The capture of the last record and the nodes that it stands for. It stays when the capture ends.
    captured: Option<(Handle, Vec<usize>)>,
    pub(crate) time: Option<Instant>,
}

impl Event {
    pub(crate) fn new(context: Handle, untimed: bool) -> Self {
        Self { context, untimed, ..Self::default() }
    }
}

impl State {
    pub(crate) fn event(&self, event: Handle) -> Result<&Event> {
        self.events.get(&event).ok_or(Code::INVALID_HANDLE)
    }

    pub(crate) fn record_event(&mut self, event: Handle, key: Handle) -> Result {
        self.event(event)?;
        let stream = self.stream(key)?;
        let mark = match stream.capture {
            Some(capture) => {
                self.check_valid(capture)?;
                let tail = self.captures.get(&capture).and_then(|it| it.tails.get(&key).cloned());
                Event { captured: Some((capture, tail.unwrap_or_default())), ..Event::default() }
            }
            None => {
                self.submit(key, Op::Record { event })?;
                Event { at: Some((key, self.stream(key)?.tail())), ..Event::default() }
            }
        };
        if let Some(it) = self.events.get_mut(&event) {
            (it.at, it.captured) = (mark.at, mark.captured);
        }
        Ok(())
    }

    /// `cuStreamWaitEvent`: an edge between streams, a fork or a join inside a capture, or a broken rule.
    pub(crate) fn wait_event(&mut self, key: Handle, event: Handle) -> Result {
        let it = self.event(event)?;
        let (at, captured) = (it.at, it.captured.clone());
        let stream = self.stream(key)?;
        let (mine, legacy) = (stream.capture, super::context::legacy_stream(stream.context) == key);
        match (mine, captured) {
            (Some(mine), Some((theirs, _))) if mine != theirs => {
                self.invalidate(theirs, "another capture waited for its event");
                self.break_rule(mine, Code::CAPTURE_MERGE, "a capture waited for an event of another capture")
            }
            (_, Some((capture, _))) if !self.captures.contains_key(&capture) => self.refuse(
                Code::CAPTURED_EVENT,
                "a stream waited for an event of a capture that is over".into(),
            ),
            (None, Some((capture, _))) if legacy => self.break_rule(
                capture,
                Code::CAPTURE_IMPLICIT,
                "the legacy stream waited for a captured event",
            ),
            (_, Some((capture, nodes))) => self.join_capture(capture, key, &nodes),
            (Some(mine), None) => self.break_rule(
                mine,
                Code::CAPTURE_ISOLATION,
                "a capture waited for an event recorded outside it",
            ),
            (None, None) => match at {
                Some((stream, upto)) => self.submit(key, Op::Wait { stream, upto }),
                None => Ok(()),
            },
        }
    }

    /// Refuses a captured event: it stands for nothing that runs.
    pub(crate) fn check_not_captured(&mut self, event: Handle) -> Result {
        let Some((capture, _)) = self.event(event)?.captured else { return Ok(()) };
        if self.captures.contains_key(&capture) {
            return self.break_rule(
                capture,
                Code::CAPTURED_EVENT,
                "a captured event was queried or waited for",
            );
        }
        self.refuse(
            Code::CAPTURED_EVENT,
            "an event last recorded in a capture was queried or waited for".into(),
        )
    }

    pub(crate) fn synchronise_event(&mut self, event: Handle) -> Result {
        let it = self.event(event)?;
        let (context, at) = (it.context, it.at);
        if let Some((stream, upto)) = at {
            self.run(stream, upto);
        }
        self.outcome(context)
    }

    pub(crate) fn query_event(&mut self, event: Handle) -> Result {
        match self.event(event)?.at {
            Some((stream, upto)) if self.streams.contains_key(&stream) => self.poll(stream, upto),
            _ => Ok(()),
        }
    }

    /// Milliseconds between two recorded events that have happened.
    pub(crate) fn elapsed(&mut self, start: Handle, end: Handle) -> Result<f32> {
        self.check_not_captured(start)?;
        self.check_not_captured(end)?;
        let time = |event: Handle| -> Result<Instant> {
            let it = self.event(event)?;
            if it.untimed || it.at.is_none() {
                return Err(Code::INVALID_HANDLE);
            }
            it.time.ok_or(Code::NOT_READY)
        };
        let (start, end) = (time(start)?, time(end)?);
        Ok(end.saturating_duration_since(start).as_secs_f32() * 1e3)
    }
}
