//! The processor time of this process, all its threads together.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Since the process began.
pub fn used() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // The kernel gives what is never negative.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
