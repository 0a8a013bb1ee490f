//! The poller's turn: the thread that has it may ask the kernel for events.

use std::{io, sync::Arc, time::Duration};

use mio::{Events, Poll, Token};

use super::{
    shared::WAKE,
    source::{Ready, Source},
};

/// The most events of one poll of a busy worker.
const POLL_EVENTS_MAX: usize = 64;
/// The most events of one wait.
const WAIT_EVENTS_MAX: usize = 1_024;

/// How long to wait for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    Zero,
    After(Duration),
    Never,
}

/// The kernel's poller, and buffers for its events.
pub(crate) struct Turn {
    poll: Poll,
    few: Events,
    many: Events,
    /// The events' tokens and readiness.
    events: Vec<(Token, Ready)>,
    /// Sources whose owners are to be called.
    called: Vec<Arc<Source>>,
}

impl Turn {
    pub(crate) fn new(poll: Poll) -> Self {
        Self {
            poll,
            few: Events::with_capacity(POLL_EVENTS_MAX),
            many: Events::with_capacity(WAIT_EVENTS_MAX),
            events: Vec::with_capacity(WAIT_EVENTS_MAX),
            called: Vec::with_capacity(WAIT_EVENTS_MAX),
        }
    }

    /// Asks the kernel, waiting up to `timeout`; returns the events.
    pub(crate) fn ask(&mut self, timeout: Timeout) -> io::Result<&[(Token, Ready)]> {
        let (events, time) = match timeout {
            Timeout::Zero => (&mut self.few, Some(Duration::ZERO)),
            Timeout::After(time) => (&mut self.many, Some(time)),
            Timeout::Never => (&mut self.many, None),
        };
        self.events.clear();
        match self.poll.poll(events, time) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(&[]),
            result => result?,
        }
        let is_source = |token: Token| token != WAKE;
        let events = events.iter().filter(|event| is_source(event.token()));
        self.events
            .extend(events.map(|event| (event.token(), Ready::of(event))));
        Ok(&self.events)
    }

    /// A buffer for the sources whose owners are to be called.
    pub(crate) fn called(&mut self) -> &mut Vec<Arc<Source>> {
        &mut self.called
    }

    /// The events of the last call.
    pub(crate) fn events(&self) -> &[(Token, Ready)] {
        &self.events
    }
}
