//! The poller's turn: who has it may ask the kernel.

use std::{io, sync::Arc, time::Duration};

use mio::{Events, Poll, Token};

use super::{ready::Ready, shared::WAKE, source::Source};

/// The most events that a busy worker takes in one look.
pub(crate) const LOOK_EVENTS_MAX: usize = 64;
/// The most events that are taken after a wait.
const WAIT_EVENTS_MAX: usize = 1_024;

/// How long to wait for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    None,
    For(Duration),
    Endless,
}

/// The kernel's side, and room for what it says.
pub(crate) struct Turn {
    poll: Poll,
    few: Events,
    many: Events,
    /// Tokens and what they are ready for; emptied with each use.
    found: Vec<(Token, Ready)>,
    /// Those whose owners are to be called.
    called: Vec<Arc<Source>>,
}

impl Turn {
    pub(crate) fn new(poll: Poll) -> Self {
        Self {
            poll,
            few: Events::with_capacity(LOOK_EVENTS_MAX),
            many: Events::with_capacity(WAIT_EVENTS_MAX),
            found: Vec::with_capacity(WAIT_EVENTS_MAX),
            called: Vec::with_capacity(WAIT_EVENTS_MAX),
        }
    }

    /// Asks, and waits until there is something if that is wanted; returns what was found.
    pub(crate) fn ask(&mut self, patience: Patience) -> io::Result<&[(Token, Ready)]> {
        let (events, timeout) = match patience {
            Patience::None => (&mut self.few, Some(Duration::ZERO)),
            Patience::For(time) => (&mut self.many, Some(time)),
            Patience::Endless => (&mut self.many, None),
        };
        self.found.clear();
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(&[]),
            result => result?,
        }
        let is_source = |token: Token| token != WAKE;
        let events = events.iter().filter(|event| is_source(event.token()));
        self.found
            .extend(events.map(|event| (event.token(), Ready::of(event))));
        Ok(&self.found)
    }

    /// Room for the sources whose owners are to be called.
    pub(crate) fn called(&mut self) -> &mut Vec<Arc<Source>> {
        &mut self.called
    }

    /// What the last question found.
    pub(crate) fn found(&self) -> &[(Token, Ready)] {
        &self.found
    }
}
