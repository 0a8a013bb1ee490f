//! The clock. All code reads the time here (invariant 6 of ARCHITECTURE.md), so that a simulation can replace it.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds since the first call in this process, on a monotonic clock.
///
/// Starts at 1, so that 0 can mean "never".
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    // 2^64 ns are 584 years of uptime.
    start.elapsed().as_nanos() as u64 + 1
}
