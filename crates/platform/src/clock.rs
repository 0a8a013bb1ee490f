//! The clock: monotonic time, and the time of day.
//!
//! With the feature `simulated`, a thread may replace its clock by one that moves only by `set_virtual_ns`. Tests and
//! the simulator do so. Without the feature, nothing is checked.

use std::{
    sync::OnceLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Nanoseconds since the first call in this process, on a monotonic clock.
///
/// Starts at 1, so that 0 can mean "never".
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    #[cfg(feature = "simulated")]
    if let Some(now) = VIRTUAL.get() {
        return now.ns;
    }
    // 2^64 ns are 584 years of uptime.
    start().elapsed().as_nanos() as u64 + 1
}

#[inline]
fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

/// As [`now_ns`], but it moves once per tick of the kernel ([`coarse_resolution_ns`]), so it lags by up to one. It costs a
/// quarter.
#[inline]
#[must_use]
pub fn coarse_ns() -> u64 {
    #[cfg(feature = "simulated")]
    if let Some(now) = VIRTUAL.get() {
        return now.ns;
    }
    platform::coarse_ns()
}

/// The time between two steps of [`coarse_ns`], in nanoseconds.
#[must_use]
pub fn coarse_resolution_ns() -> u64 {
    platform::coarse_resolution_ns()
}

#[cfg(target_os = "linux")]
mod platform {
    use std::sync::OnceLock;

    use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

    fn ns(time: Timespec) -> u64 {
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    pub(super) fn coarse_ns() -> u64 {
        // The kernel's time at the zero of `now_ns`, which reads the same clock.
        static ZERO_NS: OnceLock<u64> = OnceLock::new();
        let zero_ns = ZERO_NS.get_or_init(|| {
            let now_ns = super::now_ns();
            ns(clock_gettime(ClockId::Monotonic)).saturating_sub(now_ns)
        });
        ns(clock_gettime(ClockId::MonotonicCoarse))
            .saturating_sub(*zero_ns)
            .max(1)
    }

    pub(super) fn coarse_resolution_ns() -> u64 {
        ns(clock_getres(ClockId::MonotonicCoarse))
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    pub(super) use super::now_ns as coarse_ns;

    pub(super) fn coarse_resolution_ns() -> u64 {
        1
    }
}

/// The clock's zero as an [`Instant`].
fn zero() -> Instant {
    #[cfg(feature = "simulated")]
    if let Some(now) = VIRTUAL.get() {
        return now.zero;
    }
    start()
}

/// The present time as an [`Instant`]. Use it for an `Instant` of a public interface: on a virtual clock
/// `Instant::now()` is another time.
#[must_use]
pub fn now() -> Instant {
    to_instant(now_ns())
}

/// The time since 1970, by the clock of the time of day, which may be set and may go back; 0 before 1970. A virtual clock
/// begins on 1 January 2025, and its skew can be set.
#[must_use]
pub fn since_1970() -> Duration {
    #[cfg(feature = "simulated")]
    if let Some(now) = VIRTUAL.get() {
        let time_ns = VIRTUAL_BEGIN_NS.saturating_add(now.ns - 1);
        return Duration::from_nanos(time_ns.saturating_add_signed(now.skew_ns));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

/// The [`Instant`] of a time of [`now_ns`]. The inverse of [`from_instant`].
#[must_use]
pub fn to_instant(time_ns: u64) -> Instant {
    zero() + Duration::from_nanos(time_ns.saturating_sub(1))
}

/// The time of an [`Instant`], as [`now_ns`] counts it; 1 for an instant before the clock's zero.
///
/// On a virtual clock, `Instant::now()` is the time at which the clock was installed plus the real time since then.
#[must_use]
pub fn from_instant(instant: Instant) -> u64 {
    let elapsed_ns = instant.saturating_duration_since(zero()).as_nanos();
    u64::try_from(elapsed_ns).unwrap_or(u64::MAX - 1) + 1
}

#[cfg(feature = "simulated")]
#[derive(Clone, Copy)]
struct VirtualTime {
    ns: u64,
    /// When the clock was installed.
    zero: Instant,
    skew_ns: i64,
}

/// The time of day at which a virtual clock begins: 2025-01-01.
#[cfg(feature = "simulated")]
const VIRTUAL_BEGIN_NS: u64 = 1_735_689_600_000_000_000;

#[cfg(feature = "simulated")]
thread_local! {
    static VIRTUAL: std::cell::Cell<Option<VirtualTime>> = const { std::cell::Cell::new(None) };
}

/// Replaces the calling thread's clock by a virtual one, which starts at 1. `false` if it has one already.
#[cfg(feature = "simulated")]
#[must_use]
pub fn install_virtual() -> bool {
    if VIRTUAL.get().is_some() {
        return false;
    }
    VIRTUAL.set(Some(VirtualTime {
        ns: 1,
        zero: Instant::now(),
        skew_ns: 0,
    }));
    true
}

/// Sets how far the time of day is wrong from here on; nothing without a virtual clock.
#[cfg(feature = "simulated")]
pub fn set_skew_ns(skew_ns: i64) {
    VIRTUAL.set(VIRTUAL.get().map(|now| VirtualTime { skew_ns, ..now }));
}

/// Moves the calling thread's virtual clock.
///
/// # Panics
/// If the thread has none, or if the time is in its past.
#[cfg(feature = "simulated")]
pub fn set_virtual_ns(time_ns: u64) {
    let mut now = VIRTUAL.get().expect("the thread has a virtual clock");
    assert!(time_ns >= now.ns, "time does not go back");
    now.ns = time_ns;
    VIRTUAL.set(Some(now));
}

/// Gives the calling thread the real clock again.
#[cfg(feature = "simulated")]
pub fn remove_virtual() {
    VIRTUAL.set(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_and_times_are_converted_both_ways() {
        let now_ns = now_ns();
        assert_eq!(from_instant(to_instant(now_ns)), now_ns);
        let later = now() + Duration::from_secs(5);
        assert_eq!(to_instant(from_instant(later)), later);
    }

    #[test]
    fn the_coarse_clock_lags_by_a_tick_at_most() {
        let before_ns = now_ns();
        let coarse_ns = coarse_ns();
        let after_ns = now_ns();
        // Both zeros are read one after the other: a pause between them is part of the difference.
        let slack_ns = coarse_resolution_ns() + 1_000_000_000;
        assert!(coarse_ns + slack_ns >= before_ns && coarse_ns <= after_ns + slack_ns);
    }

    #[test]
    #[cfg(feature = "simulated")]
    fn a_virtual_clock_moves_only_when_it_is_told() {
        assert!(install_virtual());
        assert!(!install_virtual());
        let (before, a_year_ns) = (now(), 365 * 86_400_000_000_000);
        assert_eq!(now_ns(), 1);
        set_virtual_ns(1 + a_year_ns);
        assert_eq!(now() - before, Duration::from_nanos(a_year_ns));
        let begin = Duration::from_nanos(VIRTUAL_BEGIN_NS);
        assert_eq!(since_1970(), begin + (now() - before));
        assert_eq!(from_instant(now()), now_ns());
        let elsewhere_ns = std::thread::spawn(now_ns).join().expect("no panic");
        assert!(elsewhere_ns < a_year_ns);
        remove_virtual();
        assert!(now_ns() < a_year_ns);
    }
}
