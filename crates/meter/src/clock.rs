//! The one place through which the time comes.
//!
//! Invariant 6 of the house: whoever needs the time asks here, so that a simulated run can put its
//! own clock in this place.

use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds since the process first asked, on a monotonic clock.
///
/// Starts at 1, so that 0 can stand for "never" in a field that holds a time.
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    // 2^64 ns are 584 years of uptime.
    start.elapsed().as_nanos() as u64 + 1
}
