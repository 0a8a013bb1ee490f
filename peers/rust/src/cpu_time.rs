//! Processor time: of this process, of some of its threads, of another process or of its children.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};

/// In which Linux shows the times of processes.
const TICKS_PER_SECOND: f64 = 100.0;
/// Fields of `stat`, counted from the one behind the name.
const TIMES_OWN: usize = 11;
const TIMES_OF_CHILDREN: usize = 13;

/// Since this process began.
pub fn used() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // The kernel gives what is never negative.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Since the thread that calls this began.
pub fn used_by_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // The kernel gives what is never negative.
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Since they began, of all living threads of this process whose names begin so.
pub fn of_threads(name: &str) -> Result<Duration> {
    let mut sum_ns = 0;
    for thread in fs::read_dir("/proc/self/task")? {
        let thread = thread?.path();
        if fs::read_to_string(thread.join("comm"))?.starts_with(name) {
            let times = fs::read_to_string(thread.join("schedstat"))?;
            let running_ns = times.split_whitespace().next();
            sum_ns += running_ns.context("a thread has times")?.parse::<u64>()?;
        }
    }
    Ok(Duration::from_nanos(sum_ns))
}

/// Seconds since the process with this number began, in steps of 10 ms.
pub fn of(process: u32) -> Result<f64> {
    seconds_of_pair(&format!("/proc/{process}/stat"), TIMES_OWN)
}

/// Seconds of all children of this process that have ended, in steps of 10 ms.
pub fn of_ended_children() -> Result<f64> {
    seconds_of_pair("/proc/self/stat", TIMES_OF_CHILDREN)
}

/// Two times, of the user's code and of the kernel, that follow each other in a process' `stat`.
fn seconds_of_pair(path: &str, first: usize) -> Result<f64> {
    let stat = fs::read_to_string(path)?;
    // The name, in brackets, may hold anything.
    let fields = stat.rsplit(')').next().context("a process has a name")?;
    let mut times = fields.split_whitespace().skip(first);
    let mut ticks = 0.0;
    for _ in 0..2 {
        let time = times.next().context("a process has times")?;
        ticks += time.parse::<f64>()?;
    }
    Ok(ticks / TICKS_PER_SECOND)
}
