//! The processor time that this process has used, where the system tells it.

use std::time::Duration;

/// Of all its threads together, since it started.
#[cfg(unix)]
pub(crate) fn used() -> Option<Duration> {
    use rustix::time::{ClockId, clock_gettime};

    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanoseconds = u32::try_from(time.tv_nsec).ok()?;
    Some(Duration::new(seconds, nanoseconds))
}

/// Of all its threads together, since it started.
#[cfg(not(unix))]
pub(crate) fn used() -> Option<Duration> {
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
        assert_eq!(seconds_since(None), None);
    }
}
