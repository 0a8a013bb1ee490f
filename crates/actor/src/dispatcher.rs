//! Dispatchers: the threads that an actor runs on.
//!
//! Most actors share the workers. An actor that must not wait for others, or that needs a whole core, is pinned to
//! a thread of its own. Its mailbox is then one fixed ring per lane, and a [`WaitStrategy`] defines how its idle
//! thread waits.

use std::{fmt, sync::Arc};

pub use freeboard_sched::{Blocking, BusySpin, Idle, Sleeping, WaitStrategy, Yielding};

/// The default bound of a pinned actor's lane, in messages.
pub const PINNED_BOUND_DEFAULT: usize = 4_096;

/// The threads that an actor runs on. Default: the shared workers.
#[derive(Clone, Default)]
pub struct Dispatcher {
    pinned: Option<PinnedTo>,
}

#[derive(Clone)]
pub(crate) struct PinnedTo {
    pub(crate) wait: Arc<dyn WaitStrategy>,
    pub(crate) core: Option<usize>,
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

    pub(crate) fn pinned_to(&self) -> Option<&PinnedTo> {
        self.pinned.as_ref()
    }
}
