//! One subscriber of a topic: an actor, how messages become its own, and what happens when it is slow.

use std::{fmt, pin::Pin};

use freeboard_meter::{Counter, SubscriberSnapshot};

use crate::{
    actor::Message,
    catch_panic,
    core::Core,
    error::TellError,
    recipient::Recipient,
    sync::{AtomicBool, Ordering},
};

/// What a topic does when the lane of a subscriber is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlowSubscriber {
    /// The publisher waits, as for a tell to that actor alone: a thread blocks, a future is pending, and the actor of a
    /// handler is muted.
    Wait,
    /// The subscriber misses the message.
    Shed,
    /// The subscriber misses the message and all later ones: it is unsubscribed, with a `tracing` warning.
    Unsubscribe,
}

impl fmt::Display for SlowSubscriber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Wait => "wait",
            Self::Shed => "shed",
            Self::Unsubscribe => "unsubscribe",
        })
    }
}

/// What became of one message for one subscriber.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Accepted,
    Full,
    Closed,
    /// The subscriber's closure panicked.
    Panicked,
}

type Sending<'a> = Pin<Box<dyn Future<Output = Delivery> + Send + 'a>>;

pub(super) trait Deliver<M>: Send + Sync {
    /// `waits`: as [`Recipient::tell`]; otherwise as [`Recipient::try_tell`].
    fn tell(&self, msg: M, waits: bool) -> Delivery;
    fn send(&self, msg: M) -> Sending<'_>;
    fn core(&self) -> &Core;
}

/// An actor that gets each message as `map` makes it.
pub(super) struct Mapped<N: Message, F> {
    pub(super) to: Recipient<N>,
    pub(super) map: F,
}

/// Drops a refused message; a panic of its drop concerns no other subscriber.
fn outcome<N>(told: Result<(), TellError<N>>) -> Delivery {
    let Err(refused) = told else {
        return Delivery::Accepted;
    };
    let outcome = match refused {
        TellError::Closed(_) => Delivery::Closed,
        _ => Delivery::Full,
    };
    catch_panic::drop(refused);
    outcome
}

impl<M: Message, N: Message, F: Fn(M) -> N + Send + Sync> Deliver<M> for Mapped<N, F> {
    fn tell(&self, msg: M, waits: bool) -> Delivery {
        let Some(msg) = catch_panic::call(|| (self.map)(msg)) else {
            return Delivery::Panicked;
        };
        outcome(if waits {
            self.to.tell(msg)
        } else {
            self.to.try_tell(msg)
        })
    }

    fn send(&self, msg: M) -> Sending<'_> {
        Box::pin(async {
            match catch_panic::call(|| (self.map)(msg)) {
                Some(msg) => outcome(self.to.send(msg).await),
                None => Delivery::Panicked,
            }
        })
    }

    fn core(&self) -> &Core {
        self.to.core()
    }
}

pub(super) struct Subscriber<M> {
    pub(super) id: u64,
    pub(super) target: Box<dyn Deliver<M>>,
    pub(super) policy: SlowSubscriber,
    pub(super) counts: SubscriberCounts,
}

/// The counters of a subscriber, which outlive its subscription.
#[derive(Default)]
pub(super) struct SubscriberCounts {
    pub(super) delivered: Counter,
    pub(super) shed: Counter,
    is_removed: AtomicBool,
}

impl SubscriberCounts {
    pub(super) fn is_removed(&self) -> bool {
        // Ordering: Relaxed, a hint: a publisher that misses it delivers one message more.
        self.is_removed.load(Ordering::Relaxed)
    }

    pub(super) fn set_removed(&self) {
        // Ordering: Relaxed, as above.
        self.is_removed.store(true, Ordering::Relaxed);
    }
}

impl<M> Subscriber<M> {
    /// Whether it lets the publisher wait.
    pub(super) fn waits(&self) -> bool {
        self.policy == SlowSubscriber::Wait
    }

    pub(super) fn snapshot(&self) -> SubscriberSnapshot {
        let core = self.target.core();
        SubscriberSnapshot {
            actor: core.id().get(),
            name: core.options().name.as_deref().map(str::to_owned),
            policy: self.policy.to_string(),
            delivered: self.counts.delivered.get(),
            shed: self.counts.shed.get(),
        }
    }
}
