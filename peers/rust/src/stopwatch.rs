//! The start of a work: the first of several senders starts the clock.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use anyhow::{Context, Result};

/// Shared by all senders.
#[derive(Clone, Debug, Default)]
pub struct Stopwatch(Arc<OnceLock<Instant>>);

impl Stopwatch {
    /// Called by each sender before its first message.
    pub fn start(&self) {
        self.0.get_or_init(Instant::now);
    }

    /// Seconds from the first call of [`Stopwatch::start`] to `ended`.
    pub fn seconds_until(&self, ended: Instant) -> Result<f64> {
        let started = self.0.get().context("nobody began to send")?;
        Ok(ended.duration_since(*started).as_secs_f64())
    }
}
