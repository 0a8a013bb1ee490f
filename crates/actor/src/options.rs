//! The options for spawning an actor.

use std::{io, sync::Arc};

use freeboard_flow::{ConfigError, LaneConfig, MailboxConfig};

use freeboard_queue::Ring;
use freeboard_sched::{Pinned, Scheduler};

use crate::{
    dispatcher::{Dispatcher, PINNED_BOUND_DEFAULT},
    supervision::Supervision,
};

/// The default bound of an actor's outbox.
pub const OUTBOX_BOUND_DEFAULT: usize = 1_024;

/// Mailbox, supervision and name of an actor. The default is one lane of 65,536 messages whose senders wait when
/// it is full, no name, and a stop after a panic.
#[derive(Debug, Clone)]
pub struct SpawnOptions {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) mailbox: MailboxConfig,
    pub(crate) supervision: Supervision,
    pub(crate) outbox_bound: usize,
    pub(crate) dispatcher: Dispatcher,
    has_lanes: bool,
    /// The thread that was started for a pinned actor.
    pub(crate) pinned: Option<Arc<Pinned>>,
}

impl Default for SpawnOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl SpawnOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            name: None,
            mailbox: MailboxConfig::default(),
            supervision: Supervision::default(),
            outbox_bound: OUTBOX_BOUND_DEFAULT,
            dispatcher: Dispatcher::shared(),
            has_lanes: false,
            pinned: None,
        }
    }

    /// Registers the actor under `name`, see [`crate::System::whereis`].
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into().into());
        self
    }

    /// One lane with this bound and policy; for several see [`SpawnOptions::lanes`].
    #[must_use]
    pub fn lane(mut self, lane: LaneConfig) -> Self {
        self.mailbox = MailboxConfig::single(lane);
        self.has_lanes = true;
        self
    }

    /// Several lanes, the most urgent first.
    #[must_use]
    pub fn lanes(mut self, lanes: impl Into<Vec<LaneConfig>>) -> Self {
        self.mailbox = MailboxConfig::lanes(lanes.into());
        self.has_lanes = true;
        self
    }

    /// The threads that the actor runs on.
    #[must_use]
    pub fn dispatcher(mut self, dispatcher: Dispatcher) -> Self {
        self.dispatcher = dispatcher;
        self
    }

    /// The reaction to a panic of the actor.
    #[must_use]
    pub fn supervision(mut self, supervision: Supervision) -> Self {
        self.supervision = supervision;
        self
    }

    /// The bound of the actor's outbox: messages that wait for full lanes of other actors. Further messages are
    /// refused.
    #[must_use]
    pub fn outbox(mut self, messages: usize) -> Self {
        self.outbox_bound = messages;
        self
    }

    /// Starts the thread that the dispatcher requires.
    pub(crate) fn start_thread(&mut self, scheduler: &Scheduler) -> io::Result<()> {
        let Some(pinned) = self.dispatcher.pinned_to() else {
            return Ok(());
        };
        let thread = scheduler.start_pinned(pinned.wait.clone(), pinned.core)?;
        self.pinned = Some(Arc::new(thread));
        if !self.has_lanes {
            self.mailbox = MailboxConfig::single(LaneConfig::bounded(PINNED_BOUND_DEFAULT));
        }
        Ok(())
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.mailbox.validate()?;
        let is_pinned = self.dispatcher.pinned_to().is_some();
        for (lane, config) in self.mailbox.as_slice().iter().enumerate() {
            if is_pinned && self.has_lanes && config.bound() > Ring::<()>::BOUND_MAX {
                let (bound, bound_max) = (config.bound(), Ring::<()>::BOUND_MAX);
                let error = Box::new(ConfigError::RingTooLarge { bound, bound_max });
                return Err(ConfigError::Lane { lane, error });
            }
        }
        self.supervision.validate()
    }
}
