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
    /// It exceeded its restart limit.
    RestartLimit,
    /// It panicked, and the failure was escalated to its parent.
    Escalated,
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
    pub(crate) const ALL: [Self; 5] = [
        Self::Stopped,
        Self::Drained,
        Self::Panicked,
        Self::RestartLimit,
        Self::Escalated,
    ];
}
