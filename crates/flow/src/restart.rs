//! Whether a failed actor may be restarted: the restart intensity of OTP's supervisors. More than `max` restarts within
//! `within_ns` mean that restarting does not help, and the failure escalates.

use std::collections::VecDeque;

use crate::error::{ConfigError, RESTARTS_MAX};

/// The number of restarts that are allowed within a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartLimit {
    /// The most restarts within the time; 0 allows none.
    pub max: u32,
    /// The length of the time, in nanoseconds; at least 1.
    pub within_ns: u64,
}

impl RestartLimit {
    /// Checks the number of restarts and the time.
    ///
    /// # Errors
    ///
    /// [`ConfigError::RestartsTooMany`] above [`RESTARTS_MAX`], [`ConfigError::RestartTimeZero`].
    pub const fn validate(&self) -> Result<(), ConfigError> {
        if self.max > RESTARTS_MAX {
            return Err(ConfigError::RestartsTooMany { max: self.max });
        }
        if self.within_ns == 0 {
            return Err(ConfigError::RestartTimeZero);
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

/// The restart times of one actor, as far as its limit needs them.
///
/// Allocates at the first restart, so that an actor that never fails needs no memory. Holds at most `max` times.
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
    /// A history without restarts. A limit above [`RESTARTS_MAX`] acts as [`RESTARTS_MAX`].
    #[must_use]
    pub const fn new(limit: RestartLimit) -> Self {
        Self {
            limit,
            allowed_at_ns: VecDeque::new(),
        }
    }

    /// Requests a restart at `now_ns`: if allowed, records it and returns `true`.
    ///
    /// A restart counts while it is at most `within_ns` old. A denied restart is not recorded, so that repeated requests
    /// do not extend the denial.
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

    /// The number of recorded restarts that counted at the last request.
    #[must_use]
    pub fn len(&self) -> usize {
        self.allowed_at_ns.len()
    }

    /// Whether no restart is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.allowed_at_ns.is_empty()
    }
}
