//! A message inside a broker, whichever it is.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;

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
