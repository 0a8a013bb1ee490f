//! A message that a consumer holds until it settles it.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use freeboard::meter::clock;

/// The longest reason of a dead letter, in bytes; longer ones are cut.
pub const REASON_BYTES_MAX: usize = 1 << 10;
/// The delay of a delivery that was dropped unsettled.
const DROPPED_DELAY: Duration = Duration::from_millis(100);
/// The delay of a delivery whose dead letter was refused.
pub(super) const DEAD_LETTER_REFUSED_DELAY: Duration = Duration::from_secs(1);

/// How a delivery is settled.
#[derive(Clone, Debug)]
pub(super) enum Settlement {
    Ack,
    Retry(Duration),
    Defer(Duration),
    DeadLetter(Arc<str>),
    /// Back to its queue at once: no inbox had capacity.
    GiveBack,
}

/// Settles deliveries. An unknown tag, whose consumer or connection is gone, is ignored. Never blocks.
pub(super) trait Settle: Send + Sync {
    fn settle(&self, tag: u64, settlement: Settlement);
}

/// A message that its holder must settle.
///
/// A delivery that is dropped unsettled, for example by an actor that panics, is retried after a short delay. Its
/// attempts grow, so a message that causes panics can be recognized.
pub struct Delivery {
    message: Message,
    tag: u64,
    settle: Option<Arc<dyn Settle>>,
}

impl Delivery {
    pub(super) fn new(message: Message, tag: u64, settle: Arc<dyn Settle>) -> Self {
        Self {
            message,
            tag,
            settle: Some(settle),
        }
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.message.body
    }

    /// The number of earlier attempts: by [`Delivery::retry`], or dropped unsettled.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.message.attempts
    }

    /// The number of deferrals: by [`Delivery::defer`], or because the dead-letter queue was full.
    #[must_use]
    pub fn deferrals(&self) -> u32 {
        self.message.deferrals
    }

    /// The number of attempts and deferrals together.
    #[must_use]
    pub fn redeliveries(&self) -> u32 {
        self.attempts().saturating_add(self.deferrals())
    }

    /// The reason, if it is a dead letter.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.message.reason.as_deref()
    }

    /// When it was first published, by the publisher's clock, if known.
    #[must_use]
    pub fn published_at(&self) -> Option<SystemTime> {
        self.message.published_at()
    }

    /// The time at which its last delay ended or, without a delay so far, at which it was first published; by the clock
    /// of the consumer that delayed it, or of the publisher. `None` if it is not known.
    #[must_use]
    pub fn ready_at(&self) -> Option<SystemTime> {
        time_of(self.message.again_us.or(self.message.published_us)?)
    }

    /// Acknowledges it: it is not delivered again.
    pub fn ack(mut self) {
        self.settle(Settlement::Ack);
    }

    /// Delivers it again after the delay, to any consumer, with one more attempt.
    pub fn retry(mut self, delay: Duration) {
        self.settle(Settlement::Retry(delay));
    }

    /// Delivers it again after the delay, to any consumer, without counting an attempt.
    pub fn defer(mut self, delay: Duration) {
        self.settle(Settlement::Defer(delay));
    }

    /// Returns it to its queue for other consumers: its inbox is full and is no longer asked.
    pub(super) fn give_back(mut self) {
        self.settle(Settlement::GiveBack);
    }

    /// Moves it to [`Queue::DeadLetters`](super::Queue::DeadLetters) with the reason. If that queue refuses it, it
    /// is deferred for a second.
    pub fn dead_letter(mut self, reason: &str) {
        let mut end = reason.len().min(REASON_BYTES_MAX);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        self.settle(Settlement::DeadLetter(reason[..end].into()));
    }

    fn settle(&mut self, settlement: Settlement) {
        if let Some(settle) = self.settle.take() {
            settle.settle(self.tag, settlement);
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.settle(Settlement::Retry(DROPPED_DELAY));
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Delivery")
            .field("tag", &self.tag)
            .field("bytes", &self.message.body.len())
            .field("attempts", &self.message.attempts)
            .field("deferrals", &self.message.deferrals)
            .field("reason", &self.message.reason)
            .finish_non_exhaustive()
    }
}

/// A body with the broker's metadata. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) body: Bytes,
    /// The number of attempts.
    pub(super) attempts: u32,
    /// The number of deferrals.
    pub(super) deferrals: u32,
    /// The reason, if it is a dead letter.
    pub(super) reason: Option<Arc<str>>,
    /// Microseconds since the Unix epoch, if the publisher gave it.
    pub(super) published_us: Option<u64>,
    /// When its last delay ends, in the same unit; `None` without a delay so far.
    pub(super) again_us: Option<u64>,
}

impl Message {
    pub(super) fn now(body: Bytes) -> Self {
        Self {
            body,
            attempts: 0,
            deferrals: 0,
            reason: None,
            published_us: micros_after(Duration::ZERO),
            again_us: None,
        }
    }

    /// The message with one more attempt, ready again after the delay.
    pub(super) fn retried(mut self, delay: Duration) -> Self {
        self.attempts = self.attempts.saturating_add(1);
        self.again_us = micros_after(delay);
        self
    }

    /// The message with one more deferral, ready again after the delay.
    pub(super) fn deferred(mut self, delay: Duration) -> Self {
        self.deferrals = self.deferrals.saturating_add(1);
        self.again_us = micros_after(delay);
        self
    }

    /// The message as a dead letter.
    pub(super) fn dead(mut self, reason: Arc<str>) -> Self {
        self.reason = Some(reason);
        self
    }

    pub(super) fn published_at(&self) -> Option<SystemTime> {
        time_of(self.published_us?)
    }
}

fn time_of(since_1970_us: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_micros(since_1970_us))
}

/// The time at which a delay that begins now ends, in microseconds since the Unix epoch.
fn micros_after(delay: Duration) -> Option<u64> {
    let then = clock::since_1970().checked_add(delay)?;
    u64::try_from(then.as_micros()).ok()
}
