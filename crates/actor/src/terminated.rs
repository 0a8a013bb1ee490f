//! How an actor's life ended, and the message that tells a watcher.

use crate::id::ActorId;

/// Why an actor ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitReason {
    /// It stopped itself or was stopped.
    Stopped,
    /// It was told to stop once its mailbox was empty, and did.
    Drained,
    /// A panic, and its supervisor stopped it.
    Panicked,
    /// More panics than its supervisor restarts.
    RestartLimit,
    /// A panic, given on to its parent.
    Escalated,
}

/// Sent to those who watch an actor, once, when it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terminated {
    /// The actor that has ended.
    pub actor: ActorId,
    /// Its name, if it had one.
    pub name: Option<String>,
    /// Why it ended.
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
