//! Dead letters: messages that no handler receives, counted by reason and passed to an observer.

use std::{any::Any, fmt};

use freeboard_flow::ShedReason;
use freeboard_meter::{ReasonCount, Striped};

use crate::{
    catch_panic,
    envelope::Envelope,
    gauges::{ShedCounters, add_counters, reason_counts},
    id::ActorId,
};

/// A message that was shed, or was left in the mailbox of a terminated actor.
#[non_exhaustive]
pub struct DeadLetter {
    /// The actor it was sent to.
    pub actor: ActorId,
    /// That actor's type.
    pub actor_type: &'static str,
    /// The message's type.
    pub message_type: &'static str,
    /// Why it was not handled.
    pub reason: ShedReason,
    /// The message, for a downcast; `None` if it was consumed (its handler panicked, or its asker was gone).
    pub message: Option<Box<dyn Any + Send>>,
}

impl fmt::Debug for DeadLetter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("DeadLetter")
            .field("actor", &self.actor)
            .field("actor_type", &self.actor_type)
            .field("message_type", &self.message_type)
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

pub(crate) type DeadLetterObserver = Box<dyn Fn(DeadLetter) + Send + Sync>;

/// Counts a system's dead letters and passes them to its observer.
pub(crate) struct DeadLetters {
    /// In an overload all workers count one for each message: each has cache lines of its own.
    counters: Striped<ShedCounters>,
    observer: Option<DeadLetterObserver>,
}

impl DeadLetters {
    pub(crate) fn new(observer: Option<DeadLetterObserver>) -> Self {
        Self {
            counters: Striped::new(),
            observer,
        }
    }

    pub(crate) fn counts(&self) -> Vec<ReasonCount> {
        let sums = ShedCounters::default();
        for counters in self.counters.iter() {
            add_counters(&sums, counters);
        }
        reason_counts(&sums)
    }

    #[inline]
    fn count(&self, reason: ShedReason) {
        self.counters.own()[reason.index()].add(1);
    }

    /// Records an envelope that will not be handled, of the actor with this id and type.
    #[inline]
    pub(crate) fn bury(
        &self,
        actor: ActorId,
        actor_type: &'static str,
        envelope: Envelope,
        reason: ShedReason,
    ) {
        self.count(reason);
        if self.observer.is_none() {
            catch_panic::drop(envelope);
            return;
        }
        self.show(DeadLetter {
            actor,
            actor_type,
            message_type: envelope.message_type_name(),
            reason,
            // It drops the reply port, which wakes an asker.
            message: catch_panic::call(|| envelope.into_message()),
        });
    }

    /// Records a message that was consumed without being handled to the end.
    pub(crate) fn note(
        &self,
        actor: ActorId,
        actor_type: &'static str,
        message_type: &'static str,
        reason: ShedReason,
    ) {
        self.count(reason);
        self.show(DeadLetter {
            actor,
            actor_type,
            message_type,
            reason,
            message: None,
        });
    }

    fn show(&self, letter: DeadLetter) {
        if let Some(observer) = &self.observer
            && catch_panic::call(|| observer(letter)).is_none()
        {
            catch_panic::call(|| tracing::error!("the observer of dead letters panicked"));
        }
    }
}
