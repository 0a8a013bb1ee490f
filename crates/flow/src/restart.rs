//! Whether an actor that failed may be restarted once more.
//!
//! The restart intensity of OTP's supervisors: more than `max` restarts within `within_ns` mean that
//! restarting does not help, and the failure goes up.

use std::collections::VecDeque;

use crate::error::ConfigError;

/// The largest restart limit: its history has to fit in bounded memory (8 bytes each).
pub const RESTARTS_MAX: u32 = 1_024;

/// How many restarts are allowed in how long a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartLimit {
    /// The most restarts within the time; 0 allows none.
    pub max: u32,
    /// The length of the time, in nanoseconds.
    pub within_ns: u64,
}

impl RestartLimit {
    /// Checks that the history fits in bounded memory.
    ///
    /// # Errors
    ///
    /// [`ConfigError::RestartsTooMany`] above [`RESTARTS_MAX`].
    pub const fn validate(&self) -> Result<(), ConfigError> {
        if self.max > RESTARTS_MAX {
            return Err(ConfigError::RestartsTooMany { max: self.max });
        }
        Ok(())
    }
}

impl Default for RestartLimit {
    /// 3 restarts within 5 s.
    fn default() -> Self {
        Self {
            max: 3,
            within_ns: 5_000_000_000,
        }
    }
}

/// When one actor was restarted, as far back as its limit looks.
///
/// Allocates with the first restart, so that an actor that never fails pays nothing, and never holds
/// more than the limit's `max` times.
///
/// ```
/// use freeboard_flow::{RestartHistory, RestartLimit};
///
/// let mut history = RestartHistory::new(RestartLimit { max: 2, within_ns: 100 });
/// assert!(history.record(10));
/// assert!(history.record(20));
/// assert!(!history.record(30));
/// assert!(history.record(111));
/// ```
#[derive(Clone, Debug)]
pub struct RestartHistory {
    limit: RestartLimit,
    allowed_at_ns: VecDeque<u64>,
}

impl RestartHistory {
    /// A history without restarts.
    ///
    /// A limit above [`RESTARTS_MAX`] acts as that number.
    #[must_use]
    pub const fn new(limit: RestartLimit) -> Self {
        Self {
            limit,
            allowed_at_ns: VecDeque::new(),
        }
    }

    /// Asks for a restart at `now_ns`: true if it is still allowed, and then recorded.
    ///
    /// A restart counts while it is at most `within_ns` old. One that was not allowed is not
    /// recorded, so that a supervisor which goes on asking gets its answer by age alone.
    #[must_use]
    pub fn record(&mut self, now_ns: u64) -> bool {
        while let Some(&oldest_ns) = self.allowed_at_ns.front() {
            if now_ns.saturating_sub(oldest_ns) <= self.limit.within_ns {
                break;
            }
            self.allowed_at_ns.pop_front();
        }
        if self.allowed_at_ns.len() >= self.limit.max.min(RESTARTS_MAX) as usize {
            return false;
        }
        self.allowed_at_ns.push_back(now_ns);
        true
    }

    /// How many restarts are remembered: those that counted when the last one was asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.allowed_at_ns.len()
    }

    /// Whether no restart is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.allowed_at_ns.is_empty()
    }

    /// The limit that is kept.
    #[must_use]
    pub const fn limit(&self) -> RestartLimit {
        self.limit
    }
}
