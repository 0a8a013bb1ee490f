//! What this thread has cost: processor time, where the system tells, and else time.

use std::time::Duration;

/// A mark to measure from, on the thread that made it.
pub(crate) struct ProcessorTime(Mark);

#[cfg(unix)]
type Mark = Duration;

#[cfg(not(unix))]
type Mark = std::time::Instant;

impl ProcessorTime {
    pub(crate) fn now() -> Self {
        Self(mark())
    }

    #[cfg(unix)]
    pub(crate) fn elapsed(&self) -> Duration {
        mark().saturating_sub(self.0)
    }

    #[cfg(not(unix))]
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(unix)]
fn mark() -> Mark {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(not(unix))]
fn mark() -> Mark {
    std::time::Instant::now()
}
