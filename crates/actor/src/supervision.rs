//! Supervision: the reaction to an actor's failure, which is a panic or an error ([`crate::Context::fail`]).
//!
//! It is part of the [`crate::SpawnOptions`]: a fixed directive, or a function that decides per failure. Restarts
//! have a back-off and a limit per time, as in OTP's supervisors; beyond the limit the actor is stopped.

use std::{any::Any, fmt, sync::Arc, time::Duration};

use freeboard_flow::{Backoff, ConfigError, RestartLimit};

use crate::id::ActorId;

/// The reaction to a failed actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directive {
    /// Stop it. Queued messages are shed as stopped.
    Stop,
    /// Create a new one with its factory; the mailbox survives. Without a factory: stop.
    Restart,
    /// Stop it and fail its parent. Without a parent: stop.
    Escalate,
}

/// How an actor failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// User code panicked.
    Panic,
    /// An error: [`crate::Context::fail`], or a start that failed.
    Error,
}

/// One failure of an actor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The actor that failed.
    pub actor: ActorId,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Name of its type.
    pub actor_type: &'static str,
    /// A panic or an error. An escalated failure keeps the child's kind.
    pub kind: FailureKind,
    /// Type of the message it was handling; `None` in a hook or the factory.
    pub message_type: Option<&'static str>,
    /// The panic message, or the error's text.
    pub reason: String,
    /// Earlier restarts of the actor.
    pub restarts: u32,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.actor_type)?;
        if let Some(name) = &self.name {
            write!(formatter, " \"{name}\"")?;
        }
        write!(formatter, " ({})", self.actor)?;
        formatter.write_str(match self.kind {
            FailureKind::Panic => " panicked",
            FailureKind::Error => " failed",
        })?;
        match self.message_type {
            Some(message_type) => write!(formatter, " on {message_type}: ")?,
            None => formatter.write_str(" outside a message: ")?,
        }
        formatter.write_str(&self.reason)
    }
}

/// Text of a caught panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without text".to_owned())
}

#[derive(Clone)]
enum Decision {
    Always(Directive),
    PerFailure(Arc<dyn Fn(&Failure) -> Directive + Send + Sync>),
}

/// The reaction to a failure of an actor, with the back-off and the limit of restarts. The default stops the actor.
#[derive(Clone)]
pub struct Supervision {
    decision: Decision,
    pub(crate) backoff: Backoff,
    pub(crate) limit: RestartLimit,
}

impl Default for Supervision {
    fn default() -> Self {
        Self::stop()
    }
}

impl fmt::Debug for Supervision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Supervision")
            .field("backoff", &self.backoff)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl Supervision {
    fn new(decision: Decision) -> Self {
        Self {
            decision,
            backoff: Backoff::default(),
            limit: RestartLimit::default(),
        }
    }

    /// A failed actor is stopped.
    pub fn stop() -> Self {
        Self::new(Decision::Always(Directive::Stop))
    }

    /// A failed actor is restarted, after 10 ms to 10 s of back-off, at most 3 times in 5 s; after that
    /// it is stopped. Each failure logs a `tracing` error and is passed to
    /// [`crate::SystemBuilder::on_failure`].
    pub fn restart() -> Self {
        Self::new(Decision::Always(Directive::Restart))
    }

    pub(crate) fn always_restarts(&self) -> bool {
        matches!(self.decision, Decision::Always(Directive::Restart))
    }

    /// A failed actor is stopped, and its parent fails, too.
    pub fn escalate() -> Self {
        Self::new(Decision::Always(Directive::Escalate))
    }

    /// `decide` chooses the directive for each failure.
    pub fn decide(decide: impl Fn(&Failure) -> Directive + Send + Sync + 'static) -> Self {
        Self::new(Decision::PerFailure(Arc::new(decide)))
    }

    /// Waits `min` before the first restart and twice as long before each further one within the
    /// limit's time, but at most `max`. Zero restarts at once.
    #[must_use]
    pub fn backoff(mut self, min: Duration, max: Duration) -> Self {
        self.backoff.min_ns = saturating_ns(min);
        self.backoff.max_ns = saturating_ns(max);
        self
    }

    /// At most `restarts` within `time`; the failure after that stops the actor. The time must be above 0, and the
    /// restarts at most [`freeboard_flow::RESTARTS_MAX`].
    #[must_use]
    pub fn limit(mut self, restarts: u32, time: Duration) -> Self {
        self.limit.max = restarts;
        self.limit.within_ns = saturating_ns(time);
        self
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        self.backoff.validate()?;
        self.limit.validate()
    }

    pub(crate) fn directive(&self, failure: &Failure) -> Directive {
        match &self.decision {
            Decision::Always(directive) => *directive,
            Decision::PerFailure(decide) => decide(failure),
        }
    }
}

pub(crate) fn saturating_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
