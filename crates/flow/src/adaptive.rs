//! How many messages may be in flight at once, from the latencies of those that were.
//!
//! ```text
//!   latencies ──▶ mean of a window ──▶ gradient = 1.5 x baseline / mean, within 0.5 and 1
//!                                       limit    = gradient x limit + 4, at most a fifth of the way down
//!   every 100 windows above the baseline: probe, with 4 in flight ──▶ baseline
//! ```
//!
//! Follows `Gradient2Limit` of Netflix's concurrency-limits (smoothing 0.2, queue of 4, no change while less than half of
//! the limit is used; commit 14ddfa2), with a tolerance of 1.5 as in ports of that library, and with the windows of
//! `WindowedLimit` (at least ten samples, their mean). The baseline is that of the same library's `GradientLimit` (commit
//! 075794f): a probe lowers the limit to the queue of 4 and measures anew. `Gradient2Limit` takes an average over 600 windows instead. In an overload that lasts,
//! this average becomes the latency of the overload, and the limit then grows to its maximum.

use std::time::Duration;

use crate::error::ConfigError;

/// The ratio of mean to baseline from which the limit shrinks.
const TOLERANCE: f64 = 1.5;
/// Messages that may queue: the growth of the limit in a window, and the limit of a probe.
const QUEUE: u64 = 4;
/// The part of the way that the limit goes down in a window.
const SMOOTHING: f64 = 0.2;
/// A window with fewer latencies goes on.
const SAMPLES_MIN: u32 = 10;
/// Windows with a mean above the tolerance until the baseline is measured anew. A slower service looks like an
/// overload until then.
const PROBE_EVERY: u32 = 100;

/// The largest limit, in messages.
pub const LIMIT_MAX: u64 = 1 << 32;

/// The range of an adaptive limit, and the length of its windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveLimit {
    /// The smallest limit, in messages; at least 1. A probe lets the larger of this and 4 through.
    pub min: u64,
    /// The limit before the first window has ended, in messages.
    pub initial: u64,
    /// The largest limit, in messages; at most [`LIMIT_MAX`].
    pub max: u64,
    /// The shortest time over which latencies are averaged. A longer one reacts later and is steadier; it should cover
    /// some tens of messages.
    pub window: Duration,
}

impl AdaptiveLimit {
    /// Checks the range and the window.
    ///
    /// # Errors
    ///
    /// [`ConfigError::LimitRange`] or [`ConfigError::LimitWindowZero`].
    pub const fn validate(&self) -> Result<(), ConfigError> {
        let Self {
            min, initial, max, ..
        } = *self;
        if min == 0 || initial < min || max < initial || max > LIMIT_MAX {
            return Err(ConfigError::LimitRange { min, initial, max });
        }
        if self.window.is_zero() {
            return Err(ConfigError::LimitWindowZero);
        }
        Ok(())
    }

    /// What a lane may use of a limit: lane 0 all of it, each lower lane half of what the lane above it may use, at
    /// least 1. So a flood of low priority leaves capacity for the urgent, as the halved batches of the lanes do.
    #[must_use]
    pub const fn share(limit: u64, lane: usize) -> u64 {
        let share = if lane < 64 { limit >> lane } else { 0 };
        if share == 0 { 1 } else { share }
    }
}

impl Default for AdaptiveLimit {
    /// 4 to 1,000 messages, 20 at first, windows of 50 ms.
    fn default() -> Self {
        Self {
            min: 4,
            initial: 20,
            max: 1_000,
            window: Duration::from_millis(50),
        }
    }
}

/// The current value of an [`AdaptiveLimit`].
///
/// ```
/// use std::time::Duration;
/// use freeboard_flow::{AdaptiveLimit, GradientLimit};
///
/// let window = Duration::from_nanos(10);
/// let mut limit = GradientLimit::new(AdaptiveLimit { window, ..AdaptiveLimit::default() });
/// // The first window measures the baseline, with few messages in flight.
/// assert_eq!(limit.get(), 4);
/// (1..=11).for_each(|now| limit.sample(now, 100, true));
/// assert_eq!(limit.get(), 20);
/// // The latency stays the same, and the limit is used: it grows.
/// (12..=21).for_each(|now| limit.sample(now, 100, true));
/// assert_eq!(limit.get(), 24);
/// ```
#[derive(Clone, Debug)]
pub struct GradientLimit {
    config: AdaptiveLimit,
    limit: f64,
    baseline_ns: f64,
    /// When the probe began, if one is under way.
    probing_since_ns: Option<u64>,
    windows_until_probe: u32,
    /// 0 before the first sample.
    window_end_ns: u64,
    sum_ns: f64,
    samples: u32,
    is_used: bool,
}

impl GradientLimit {
    /// A limit that begins with a probe. The configuration is valid.
    #[must_use]
    pub fn new(config: AdaptiveLimit) -> Self {
        Self {
            config,
            limit: config.initial as f64,
            baseline_ns: f64::INFINITY,
            probing_since_ns: Some(0),
            windows_until_probe: PROBE_EVERY,
            window_end_ns: 0,
            sum_ns: 0.0,
            samples: 0,
            is_used: false,
        }
    }

    /// The most messages in flight now.
    #[must_use]
    pub fn get(&self) -> u64 {
        let AdaptiveLimit { min, max, .. } = self.config;
        let limit = self.limit as u64;
        let limit = match self.probing_since_ns {
            Some(_) => limit.min(QUEUE),
            None => limit,
        };
        limit.clamp(min, max)
    }

    /// A message was handled at `now_ns`, `latency_ns` after it was let through. `is_used`: half of the limit was in
    /// flight, or a message was refused since the last sample.
    pub fn sample(&mut self, now_ns: u64, latency_ns: u64, is_used: bool) {
        // It was let through before the probe, under the larger limit.
        if self
            .probing_since_ns
            .is_some_and(|since_ns| now_ns.saturating_sub(latency_ns) < since_ns)
        {
            return;
        }
        if self.window_end_ns == 0 {
            self.begin_window(now_ns);
        }
        self.sum_ns += latency_ns as f64;
        self.samples += 1;
        self.is_used |= is_used;
        if now_ns >= self.window_end_ns && self.samples >= SAMPLES_MIN {
            self.end_window(now_ns);
            self.begin_window(now_ns);
        }
    }

    fn begin_window(&mut self, now_ns: u64) {
        let window_ns = u64::try_from(self.config.window.as_nanos()).unwrap_or(u64::MAX);
        self.window_end_ns = now_ns.saturating_add(window_ns);
        (self.sum_ns, self.samples, self.is_used) = (0.0, 0, false);
    }

    fn end_window(&mut self, now_ns: u64) {
        // A latency of 0 would be a gradient of 0 / 0.
        let mean_ns = (self.sum_ns / f64::from(self.samples)).max(1.0);
        if self.probing_since_ns.take().is_some() {
            self.baseline_ns = mean_ns;
            self.windows_until_probe = PROBE_EVERY;
            return;
        }
        self.baseline_ns = self.baseline_ns.min(mean_ns);
        if !self.is_used {
            return;
        }
        let gradient = (TOLERANCE * self.baseline_ns / mean_ns).clamp(0.5, 1.0);
        let next = self.limit * gradient + QUEUE as f64;
        let step = if next < self.limit { SMOOTHING } else { 1.0 };
        let (min, max) = (self.config.min as f64, self.config.max as f64);
        self.limit = (self.limit + step * (next - self.limit)).clamp(min, max);
        if gradient < 1.0 {
            self.windows_until_probe -= 1;
            if self.windows_until_probe == 0 {
                self.probing_since_ns = Some(now_ns);
            }
        }
    }
}
