//! The delay before the next attempt: before a restart of a supervisor, or a reconnect.
//!
//! Exponential with a ceiling. The jitter is the "equal jitter" of Brooker, *Exponential Backoff And Jitter* (AWS, 2015):
//! it shortens the delay by at most half, so that the ceiling holds and retries still spread.

use crate::error::ConfigError;

const PPM: u64 = 1_000_000;

/// Delays that grow by a factor from a minimum to a maximum.
///
/// ```
/// use freeboard_flow::Backoff;
///
/// let backoff = Backoff { min_ns: 100, max_ns: 1_000, factor: 3 };
/// let delays: Vec<_> = (0..4).map(|attempt| backoff.delay_ns(attempt)).collect();
/// assert_eq!(delays, [100, 300, 900, 1_000]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The delay before the first attempt (attempt 0), in nanoseconds.
    pub min_ns: u64,
    /// The longest delay, in nanoseconds.
    pub max_ns: u64,
    /// The ratio of each delay to the one before; 1 keeps it constant.
    pub factor: u32,
}

impl Backoff {
    /// The delay before this attempt, in nanoseconds: `min_ns * factor ^ attempt`, at most `max_ns`.
    #[must_use]
    pub const fn delay_ns(&self, attempt: u32) -> u64 {
        let growth = (self.factor as u64).saturating_pow(attempt);
        let delay_ns = self.min_ns.saturating_mul(growth);
        if delay_ns < self.max_ns {
            delay_ns
        } else {
            self.max_ns
        }
    }

    /// The delay before this attempt, in nanoseconds, shortened by up to half.
    ///
    /// `jitter_ppm` is the caller's random number in 0..=1,000,000: 0 keeps the delay, 1,000,000 halves it.
    ///
    /// # Panics
    ///
    /// If `jitter_ppm` is above 1,000,000.
    #[must_use]
    pub const fn delay_jittered_ns(&self, attempt: u32, jitter_ppm: u32) -> u64 {
        assert!(jitter_ppm as u64 <= PPM, "jitter is above 1,000,000 ppm");
        let delay_ns = self.delay_ns(attempt);
        let cut_ns = (delay_ns / 2) as u128 * jitter_ppm as u128 / PPM as u128;
        delay_ns - cut_ns as u64
    }

    /// Checks the minimum, the maximum and the factor.
    ///
    /// # Errors
    ///
    /// [`ConfigError::BackoffMinAboveMax`] or [`ConfigError::BackoffFactorZero`].
    pub const fn validate(&self) -> Result<(), ConfigError> {
        if self.min_ns > self.max_ns {
            return Err(ConfigError::BackoffMinAboveMax {
                min_ns: self.min_ns,
                max_ns: self.max_ns,
            });
        }
        if self.factor == 0 {
            return Err(ConfigError::BackoffFactorZero);
        }
        Ok(())
    }
}

impl Default for Backoff {
    /// From 10 ms, doubling, to 10 s.
    fn default() -> Self {
        Self {
            min_ns: 10_000_000,
            max_ns: 10_000_000_000,
            factor: 2,
        }
    }
}
