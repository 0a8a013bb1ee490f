//! The options of a directory.

use std::time::Duration;

use freeboard_flow::ConfigError;

use crate::{
    options::SpawnOptions,
    supervision::{Directive, FailureKind, Supervision},
};

/// The default of [`DirectoryOptions::activations_max`].
pub const DIRECTORY_ACTIVATIONS_DEFAULT: usize = 65_536;

/// What a directory does with a message for a new key when it has as many activations as its options permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AtBound {
    /// The message comes back.
    #[default]
    Refuse,
    /// The activation that was idle for the longest time is passivated, and the new one starts when it has ended. If
    /// none is idle, the message comes back, and so do others for the next 10 ms, without a search. One whose async
    /// handler waits is not idle.
    PassivateIdle,
}

/// The options of a directory.
#[derive(Debug, Clone)]
#[must_use = "options alone make no directory"]
pub struct DirectoryOptions {
    pub(super) name: Option<String>,
    pub(super) idle_after: Option<Duration>,
    pub(super) activations_max: usize,
    pub(super) at_bound: AtBound,
    pub(super) member: SpawnOptions,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl DirectoryOptions {
    /// No passivation, [`DIRECTORY_ACTIVATIONS_DEFAULT`], and actors that restart after a failure in a handler and stop
    /// after a failed load.
    pub fn new() -> Self {
        Self {
            name: None,
            idle_after: None,
            activations_max: DIRECTORY_ACTIVATIONS_DEFAULT,
            at_bound: AtBound::default(),
            member: Self::member_options(),
        }
    }

    /// The default options of each actor, to be changed for [`DirectoryOptions::member`].
    pub fn member_options() -> SpawnOptions {
        let decide = Supervision::decide(|failure| {
            let is_start = failure.kind == FailureKind::Error && failure.message_type.is_none();
            if is_start {
                Directive::Stop
            } else {
                Directive::Restart
            }
        });
        SpawnOptions::new().supervision(decide)
    }

    /// The name in snapshots and metrics. Without one, it is the type of the actors.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Passivates an activation that has handled no message for this time, or up to a quarter longer.
    pub fn idle_after(mut self, idle: Duration) -> Self {
        self.idle_after = Some(idle);
        self
    }

    /// The bound on activations, at least 1. Activations that stay because their save has failed may exceed it.
    pub fn activations_max(mut self, activations: usize) -> Self {
        self.activations_max = activations.max(1);
        self
    }

    /// What happens at the bound.
    pub fn at_bound(mut self, at_bound: AtBound) -> Self {
        self.at_bound = at_bound;
        self
    }

    /// Mailbox, supervision and outbox of each actor. A name given here is ignored.
    pub fn member(mut self, options: SpawnOptions) -> Self {
        self.member = options;
        self.member.name = None;
        self
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        self.member.validate()
    }
}
