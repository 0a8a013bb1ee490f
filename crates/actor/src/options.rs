//! The options for spawning an actor: mailbox, supervision, and the threads that it runs on.
//!
//! Most actors share the workers. An actor that must not wait for others, or that needs a whole core, is pinned to
//! a thread of its own. Its mailbox is then one fixed ring per lane, and a [`WaitStrategy`] defines how its idle
//! thread waits.

use std::{fmt, io, sync::Arc};

use freeboard_flow::{ConfigError, LaneConfig, MailboxConfig};
use freeboard_queue::Ring;
use freeboard_sched::{Pinned, Scheduler, WaitStrategy};

use crate::{
    pending_asks::{PENDING_ASKS_BOUND_DEFAULT, PENDING_ASKS_BOUND_MAX},
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
    pub(crate) pending_asks_bound: usize,
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
            pending_asks_bound: PENDING_ASKS_BOUND_DEFAULT,
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

    /// The bound of the actor's asks by [`crate::Context::ask`] that have no reply yet, at most
    /// [`crate::PENDING_ASKS_BOUND_MAX`]; default [`crate::PENDING_ASKS_BOUND_DEFAULT`]. Further asks are refused.
    #[must_use]
    pub fn pending_asks(mut self, asks: usize) -> Self {
        self.pending_asks_bound = asks.min(PENDING_ASKS_BOUND_MAX);
        self
    }

    /// Starts the thread that the dispatcher requires.
    pub(crate) fn start_thread(&mut self, scheduler: &Scheduler) -> io::Result<()> {
        let Some(pinned) = &self.dispatcher.pinned else {
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
        let is_pinned = self.dispatcher.pinned.is_some();
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

/// The default bound of a pinned actor's lane, in messages.
pub const PINNED_BOUND_DEFAULT: usize = 4_096;

/// The threads that an actor runs on. Default: the shared workers.
#[derive(Clone, Default)]
pub struct Dispatcher {
    pinned: Option<PinnedTo>,
}

#[derive(Clone)]
struct PinnedTo {
    wait: Arc<dyn WaitStrategy>,
    core: Option<usize>,
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pinned {
            None => formatter.write_str("Dispatcher::shared()"),
            Some(pinned) => {
                write!(formatter, "Dispatcher::pinned({:?})", pinned.wait)?;
                match pinned.core {
                    None => Ok(()),
                    Some(core) => write!(formatter, ".affinity({core})"),
                }
            }
        }
    }
}

impl Dispatcher {
    /// The shared workers.
    #[must_use]
    pub fn shared() -> Self {
        Self::default()
    }

    /// A thread for this actor alone. Each lane is a ring, of [`PINNED_BOUND_DEFAULT`] messages if the options name no
    /// lanes. A ring allocates all its slots at once; their number is the bound rounded up to a power of two, while
    /// the bound stays exact.
    ///
    /// `docs/wait-strategies.md` has measurements of the strategies.
    #[must_use]
    pub fn pinned(wait: impl WaitStrategy) -> Self {
        Self {
            pinned: Some(PinnedTo {
                wait: Arc::new(wait),
                core: None,
            }),
        }
    }

    /// Binds the thread of a pinned actor to one core, counted from 0. Spawning fails if this process
    /// may not use it. Without effect on the shared dispatcher.
    #[must_use]
    pub fn affinity(mut self, core: usize) -> Self {
        if let Some(pinned) = &mut self.pinned {
            pinned.core = Some(core);
        }
        self
    }
}
