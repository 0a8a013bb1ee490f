//! The termination of an actor, as its watchers see it.

use crate::id::ActorId;

/// Why an actor terminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitReason {
    /// It stopped itself or was stopped.
    Stopped,
    /// It was stopped gracefully: its mailbox was empty.
    Drained,
    /// It panicked, and its supervision stopped it.
    Panicked,
    /// It failed with an error ([`crate::Context::fail`], or a start that failed), and its supervision stopped it.
    Failed,
    /// It exceeded its restart limit, or its children the intensity of a [`crate::Supervisor`].
    RestartLimit,
    /// It failed, and the failure was escalated to its parent.
    Escalated,
    /// There was no such actor to watch: see [`crate::Context::watch_name`].
    NotFound,
}

/// Sent once to each watcher of a terminated actor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terminated {
    /// The terminated actor.
    pub actor: ActorId,
    /// Its name, if it had one.
    pub name: Option<String>,
    /// Why it terminated.
    pub reason: ExitReason,
}

impl ExitReason {
    /// Whether the actor failed, in contrast to one that was stopped.
    #[must_use]
    pub const fn is_abnormal(self) -> bool {
        !matches!(self, Self::Stopped | Self::Drained)
    }

    pub(crate) const ALL: [Self; 7] = [
        Self::Stopped,
        Self::Drained,
        Self::Panicked,
        Self::Failed,
        Self::RestartLimit,
        Self::Escalated,
        Self::NotFound,
    ];
}
