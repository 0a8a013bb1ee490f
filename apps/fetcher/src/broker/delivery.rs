//! A message that a consumer holds until it settles it.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;

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
        let end = reason.floor_char_boundary(REASON_BYTES_MAX);
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

/// A body and what its broker knows of it. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) body: Bytes,
    /// How often it was tried and put off.
    pub(super) attempts: u32,
    /// How often it was put off untried.
    pub(super) deferrals: u32,
    pub(super) redelivered: bool,
    /// Why it is a dead letter.
    pub(super) reason: Option<Arc<str>>,
    /// Microseconds since the Unix epoch, if its publisher said so.
    pub(super) published_us: Option<u64>,
}

impl Message {
    pub(super) fn now(body: Bytes) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            body,
            attempts: 0,
            deferrals: 0,
            redelivered: false,
            reason: None,
            published_us: since
                .ok()
                .and_then(|since| u64::try_from(since.as_micros()).ok()),
        }
    }

    /// The same, once it was tried and put off.
    pub(super) fn put_off(mut self) -> Self {
        self.attempts = self.attempts.saturating_add(1);
        self.redelivered = false;
        self
    }

    /// The same, once it was put off untried.
    pub(super) fn deferred(mut self) -> Self {
        self.deferrals = self.deferrals.saturating_add(1);
        self.redelivered = false;
        self
    }

    /// The same, as a dead letter.
    pub(super) fn dead(mut self, reason: Arc<str>) -> Self {
        self.redelivered = false;
        self.reason = Some(reason);
        self
    }

    /// The same, once its consumer has gone.
    pub(super) fn again(mut self) -> Self {
        self.redelivered = true;
        self
    }

    pub(super) fn published_at(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_micros(self.published_us?))
    }
}
