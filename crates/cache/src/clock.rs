//! The server's time, as it is known here.
//!
//! A GET does not say what time it is, and the clock of this machine may be wrong by hours. So the server is
//! asked now and then, and between two answers its time goes on by our monotonic clock. Off by half a round
//! trip, and by as much as the server's clock is set meanwhile. Scripts read the server's clock themselves.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use crate::sync::{AtomicU64, Ordering};

/// After so long without an answer the server's time is not known any more.
const KNOWN_FOR_NS: u64 = 60_000_000_000;
const MILLI_NS: u64 = 1_000_000;

/// A time that a test sets, in place of the server's: for the scripts, which get it as an argument, and for
/// what a GET brings. The times that callers wait go by the real clock.
#[derive(Clone, Debug)]
pub struct SimulatedClock {
    now_ms: Arc<AtomicU64>,
}

impl SimulatedClock {
    /// One that stands at `now_ms` since 1970.
    #[must_use]
    pub fn new(now_ms: u64) -> Self {
        Self {
            now_ms: Arc::new(AtomicU64::new(now_ms)),
        }
    }

    /// Moves it on.
    pub fn advance(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        // Ordering: Relaxed here and below, a test orders its own steps.
        self.now_ms.fetch_add(millis, Ordering::Relaxed);
    }

    /// Where it stands.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }
}

/// The server's clock, or a test's.
#[derive(Debug)]
pub(crate) struct Clock {
    simulated: Option<SimulatedClock>,
    known: Mutex<Option<Known>>,
}

/// What the server answered.
#[derive(Clone, Copy, Debug)]
struct Known {
    server_ns: u64,
    /// By our monotonic clock, at the same moment.
    at_ns: u64,
}

impl Clock {
    pub(crate) fn new(simulated: Option<SimulatedClock>) -> Self {
        Self {
            simulated,
            known: Mutex::new(None),
        }
    }

    /// What the scripts get.
    pub(crate) fn simulated_ms(&self) -> Option<u64> {
        self.simulated.as_ref().map(SimulatedClock::now_ms)
    }

    /// Whether the server must be asked.
    pub(crate) const fn is_real(&self) -> bool {
        self.simulated.is_none()
    }

    /// The server's time; `None` while it is not known. `now_ns` is ours.
    pub(crate) fn now_ms(&self, now_ns: u64) -> Option<u64> {
        if let Some(simulated) = &self.simulated {
            return Some(simulated.now_ms());
        }
        let known = (*self.known.lock())?;
        let since_ns = now_ns.saturating_sub(known.at_ns);
        (since_ns < KNOWN_FOR_NS).then(|| (known.server_ns + since_ns) / MILLI_NS)
    }

    /// The server said that it is `server` since 1970, some time between two times of ours.
    pub(crate) fn learn(&self, sent_ns: u64, received_ns: u64, server: Duration) {
        let Ok(server_ns) = u64::try_from(server.as_nanos()) else {
            return;
        };
        let at_ns = sent_ns + received_ns.saturating_sub(sent_ns) / 2;
        *self.known.lock() = Some(Known { server_ns, at_ns });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_by_our_clock_until_it_is_too_old() {
        let clock = Clock::new(None);
        assert_eq!(clock.now_ms(5), None);
        let milli = MILLI_NS;
        clock.learn(100 * milli, 300 * milli, Duration::from_millis(1_000_000));
        assert_eq!(clock.now_ms(200 * milli), Some(1_000_000));
        assert_eq!(clock.now_ms(1_200 * milli), Some(1_001_000));
        assert_eq!(clock.now_ms(200 * milli + KNOWN_FOR_NS), None);
        clock.learn(1_200 * milli, 1_200 * milli, Duration::from_millis(7));
        assert_eq!(clock.now_ms(1_200 * milli), Some(7), "it may be set back");
    }
}
