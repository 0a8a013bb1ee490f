//! The processor time that this process has used, where the system tells it.

use std::time::Duration;

/// Of all its threads together, since it started.
pub(crate) fn used() -> Option<Duration> {
    clock::read(clock::Clock::Process)
}

/// Of the calling thread, since it started.
pub(crate) fn used_by_thread() -> Option<Duration> {
    clock::read(clock::Clock::Thread)
}

mod clock {
    use std::time::Duration;

    #[derive(Clone, Copy)]
    pub(super) enum Clock {
        Process,
        Thread,
    }

    #[cfg(unix)]
    pub(super) fn read(clock: Clock) -> Option<Duration> {
        use rustix::time::{ClockId, clock_gettime};

        let time = clock_gettime(match clock {
            Clock::Process => ClockId::ProcessCPUTime,
            Clock::Thread => ClockId::ThreadCPUTime,
        });
        let seconds = u64::try_from(time.tv_sec).ok()?;
        let nanoseconds = u32::try_from(time.tv_nsec).ok()?;
        Some(Duration::new(seconds, nanoseconds))
    }

    #[cfg(not(unix))]
    pub(super) fn read(_: Clock) -> Option<Duration> {
        None
    }
}

/// Clock ticks a second in `/proc`, on all processors that this program runs on.
#[cfg(target_os = "linux")]
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds that another process has used so far, where the system tells it.
#[cfg(target_os = "linux")]
pub(crate) fn seconds_of(process: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let fields = text.rsplit_once(')')?.1;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: Option<Vec<f64>> = ticks.map(|it| it.parse().ok()).collect();
    Some(ticks?.iter().sum::<f64>() / TICKS_PER_SECOND)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn seconds_of(_: u32) -> Option<f64> {
    None
}

/// Seconds used since `earlier`, if both readings could be made.
pub(crate) fn seconds_since(earlier: Option<Duration>) -> Option<f64> {
    Some(used()?.saturating_sub(earlier?).as_secs_f64())
}

/// Processors that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_used_grows_by_what_is_used() {
        let before = used();
        if before.is_none() {
            return;
        }
        while seconds_since(before).is_some_and(|seconds| seconds < 0.001) {
            std::hint::spin_loop();
        }
        assert!(used() > before);
        let own = seconds_of(std::process::id());
        assert!(own.is_none_or(|seconds| seconds < 1e6), "{own:?}");
        assert_eq!(seconds_since(None), None);
    }
}
