//! A message in its consumer's hands.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;

use super::message::Message;

/// The longest reason that a dead letter carries, in bytes; what is beyond is cut.
pub const REASON_BYTES_MAX: usize = 1 << 10;
/// How long one that was dropped unsaid is put off.
const DROPPED_DELAY: Duration = Duration::from_millis(100);
/// How long one is put off that the queue of dead letters refused.
pub(super) const DEAD_LETTER_REFUSED_DELAY: Duration = Duration::from_secs(1);

/// What is to become of a delivery.
#[derive(Clone, Debug)]
pub(super) enum Settlement {
    Ack,
    Retry(Duration),
    Defer(Duration),
    DeadLetter(Arc<str>),
    /// Back to its queue at once: no inbox had room for it.
    GiveBack,
}

/// Whom deliveries are given back to. A tag that is not known any more, since its consumer or connection
/// has gone, is passed over. Never blocks.
pub(super) trait Settle: Send + Sync {
    fn settle(&self, tag: u64, settlement: Settlement);
}

/// A message that is its holder's until it says what is to become of it.
///
/// One that is dropped unsaid, for example by an actor that panics, is put off for a moment: its
/// attempts grow, so that who counts them sees a message that nobody survives.
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

    /// What was published.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.message.body
    }

    /// How often it was tried before: put off by [`Delivery::retry`], or dropped unsaid.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.message.attempts
    }

    /// How often it was put off untried, by [`Delivery::defer`] or because the dead letters had no room.
    #[must_use]
    pub fn deferrals(&self) -> u32 {
        self.message.deferrals
    }

    /// Whether it may have been delivered before to a consumer that went without settling it.
    #[must_use]
    pub fn is_redelivered(&self) -> bool {
        self.message.redelivered
    }

    /// Why it is a dead letter, if it is one.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.message.reason.as_deref()
    }

    /// When it was published first, by the publisher's clock, if it says so.
    #[must_use]
    pub fn published_at(&self) -> Option<SystemTime> {
        self.message.published_at()
    }

    /// It is done: it will not come again.
    pub fn ack(mut self) {
        self.settle(Settlement::Ack);
    }

    /// It comes again, to any consumer, not before this delay and with one attempt more.
    pub fn retry(mut self, delay: Duration) {
        self.settle(Settlement::Retry(delay));
    }

    /// It comes again, to any consumer, not before this delay: it was not tried, so this is no attempt.
    pub fn defer(mut self, delay: Duration) {
        self.settle(Settlement::Defer(delay));
    }

    /// It goes back to its queue, for others: its inbox has no room, and is not asked any more.
    pub(super) fn give_back(mut self) {
        self.settle(Settlement::GiveBack);
    }

    /// It goes to [`Queue::DeadLetters`](super::Queue::DeadLetters) with the reason. If that queue refuses it,
    /// it is deferred for a second.
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
            .field("redelivered", &self.message.redelivered)
            .field("reason", &self.message.reason)
            .finish_non_exhaustive()
    }
}
