//! Dispatchers: on which threads an actor runs.
//!
//! Most actors share the workers. One whose messages must not wait for others' turns, or that is to
//! take all a core gives, has a thread of its own; its mailbox is then one fixed ring per lane, and
//! what its thread does while there is nothing to do is a [`WaitStrategy`].

use std::{fmt, sync::Arc};

pub use freeboard_sched::{Blocking, BusySpin, Idle, Sleeping, WaitStrategy, Yielding};

/// Messages that a lane of a pinned actor holds, unless its options say otherwise.
pub const PINNED_BOUND_DEFAULT: usize = 4_096;

/// On which threads an actor runs. The default: on the shared workers.
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
    /// The workers that all actors share.
    #[must_use]
    pub fn shared() -> Self {
        Self::default()
    }

    /// A thread for this actor alone. Its lanes are rings, one each, of
    /// [`PINNED_BOUND_DEFAULT`] messages if the options name no lanes; they take all their memory at
    /// once, their slots being the next power of two of the bound, which itself is kept as asked for.
    ///
    /// What a strategy costs is measured in `docs/wait-strategies.md`.
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
