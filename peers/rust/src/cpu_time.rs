//! Processor time: of this process, or of another one, all its threads together.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

/// In which Linux shows the times of processes.
const TICKS_PER_SECOND: f64 = 100.0;

/// Since this process began.
pub fn used() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // The kernel gives what is never negative.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Seconds since the process with this number began, in steps of 10 ms.
pub fn of(process: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name, in brackets, may hold anything.
    let fields = stat.rsplit(')').next().context("a process has a name")?;
    let mut times = fields.split_whitespace().skip(11);
    let mut ticks = 0.0;
    for _ in 0..2 {
        let time = times.next().context("a process has times")?;
        ticks += time.parse::<f64>()?;
    }
    Ok(ticks / TICKS_PER_SECOND)
}
