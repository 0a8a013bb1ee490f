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
        assert_eq!(seconds_since(None), None);
    }
}
