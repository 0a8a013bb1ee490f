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
    static RESOLUTION_NS: OnceLock<u64> = OnceLock::new();
    *RESOLUTION_NS.get_or_init(platform::coarse_resolution_ns)
}

/// The shortest delay that the coarse clock measures, in its ticks.
const TICKS_PER_COARSE_DELAY: u64 = 256;

/// The time on the clock when `delay` is over. A delay of 256 ticks of the coarse clock or more (on Linux 0.3 to 2.6 s)
/// may be two ticks longer, so at most 1 %: the precise clock costs several times as much.
#[inline]
#[must_use]
pub fn after(delay: Duration) -> u64 {
    let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
    #[cfg(feature = "simulated")]
    if let Some(now) = VIRTUAL.get() {
        return now.ns.saturating_add(delay_ns);
    }
    let tick_ns = coarse_resolution_ns();
    if delay_ns / TICKS_PER_COARSE_DELAY < tick_ns {
        return now_ns().saturating_add(delay_ns);
    }
    // The coarse clock lags by one tick, and under load by up to two. So the time is not early.
    coarse_ns()
        .saturating_add(2 * tick_ns)
        .saturating_add(delay_ns)
}

/// So long before a time, [`has_passed`] reads the precise clock. It is many times the lag of the coarse clock.
const PRECISE_BEFORE_NS: u64 = 100_000_000;

/// Whether the clock has reached `time_ns`. Until shortly before that, it reads the coarse clock only.
#[inline]
#[must_use]
pub fn has_passed(time_ns: u64) -> bool {
    coarse_ns().saturating_add(PRECISE_BEFORE_NS) >= time_ns && now_ns() >= time_ns
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
        let zero_ns = ZERO_NS.get_or_init(zero_ns);
        ns(clock_gettime(ClockId::MonotonicCoarse))
            .saturating_sub(*zero_ns)
            .max(1)
    }

    /// Of several readings, the one with the shortest pause between the two clocks: the pause stays in all later times.
    fn zero_ns() -> u64 {
        let reading = || {
            let before_ns = super::now_ns();
            let zero_ns = ns(clock_gettime(ClockId::Monotonic)).saturating_sub(before_ns);
            (super::now_ns() - before_ns, zero_ns)
        };
        let shortest = (0..16).map(|_| reading()).min();
        shortest.map_or(0, |(_, zero_ns)| zero_ns)
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
    fn a_delay_is_over_within_two_ticks_or_at_once() {
        let long_ns = TICKS_PER_COARSE_DELAY * coarse_resolution_ns();
        for (delay_ns, extra_ns) in [(long_ns - 1, 0), (long_ns, 2 * coarse_resolution_ns())] {
            let before_ns = now_ns();
            let due_ns = after(Duration::from_nanos(delay_ns));
            let after_ns = now_ns();
            assert!(due_ns <= after_ns + delay_ns + extra_ns);
            // The kernel's tick may be late on a busy machine.
            let lag_ns = if extra_ns > 0 { 1_000_000_000 } else { 0 };
            assert!(due_ns + lag_ns >= before_ns + delay_ns);
        }
        assert_eq!(after(Duration::MAX), u64::MAX);
    }

    #[test]
    fn a_time_has_passed_from_its_nanosecond_on() {
        assert!(has_passed(now_ns()));
        assert!(!has_passed(now_ns() + 10 * PRECISE_BEFORE_NS));
        assert!(!has_passed(u64::MAX));
        let soon_ns = now_ns() + PRECISE_BEFORE_NS / 100;
        while !has_passed(soon_ns) {
            std::hint::spin_loop();
        }
        assert!(now_ns() >= soon_ns);
    }

    #[test]
    #[cfg(feature = "simulated")]
    fn a_virtual_clock_moves_only_when_it_is_told() {
        assert!(install_virtual());
        assert!(!install_virtual());
        let (before, a_year_ns) = (now(), 365 * 86_400_000_000_000);
        assert_eq!(now_ns(), 1);
        assert_eq!(after(Duration::from_secs(3_600)), 3_600_000_000_001);
        assert!(!has_passed(2));
        set_virtual_ns(1 + a_year_ns);
        assert!(has_passed(1 + a_year_ns) && !has_passed(2 + a_year_ns));
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
