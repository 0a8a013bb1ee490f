//! The server's time, as known in this process.
//!
//! A GET does not return the server's time, and the clock of this machine may be wrong by hours. So the server is
//! asked periodically, and in between its time advances by our monotonic clock. The error is half a round trip, plus
//! changes of the server's clock. Scripts read the server's clock themselves.

#[cfg(feature = "test-util")]
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

#[cfg(feature = "test-util")]
use crate::sync::{AtomicU64, Ordering};

/// An answer of the server is valid for this long.
const KNOWN_FOR_NS: u64 = 60_000_000_000;
const MILLI_NS: u64 = 1_000_000;

/// A time set by a test, instead of the server's. It applies to scripts, which get it as an argument, and to the
/// entries that a GET returns. Timeouts of callers use the real clock.
#[cfg(feature = "test-util")]
#[derive(Clone, Debug)]
pub struct SimulatedClock {
    now_ms: Arc<AtomicU64>,
}

#[cfg(feature = "test-util")]
impl SimulatedClock {
    /// A clock that shows `now_ms` since 1970 until it is advanced.
    #[must_use]
    pub fn new(now_ms: u64) -> Self {
        Self {
            now_ms: Arc::new(AtomicU64::new(now_ms)),
        }
    }

    /// Advances it.
    pub fn advance(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        // Ordering: Relaxed here and below, a test orders its own steps.
        self.now_ms.fetch_add(millis, Ordering::Relaxed);
    }

    /// Its time in ms since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }
}

/// The server's clock, or a test's.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    #[cfg(feature = "test-util")]
    simulated: Option<SimulatedClock>,
    known: Mutex<Option<Known>>,
}

/// An answer of the server.
#[derive(Clone, Copy, Debug)]
struct Known {
    server_ns: u64,
    /// The same moment by our monotonic clock.
    at_ns: u64,
}

impl Clock {
    #[cfg(feature = "test-util")]
    pub(crate) fn simulated(simulated: Option<SimulatedClock>) -> Self {
        let known = Mutex::default();
        Self { simulated, known }
    }

    /// A test's time, which is passed to scripts.
    pub(crate) fn simulated_ms(&self) -> Option<u64> {
        #[cfg(feature = "test-util")]
        return self.simulated.as_ref().map(SimulatedClock::now_ms);
        #[cfg(not(feature = "test-util"))]
        None
    }

    /// The server's time; `None` while it is unknown. `now_ns` is ours.
    pub(crate) fn now_ms(&self, now_ns: u64) -> Option<u64> {
        if let Some(simulated_ms) = self.simulated_ms() {
            return Some(simulated_ms);
        }
        let known = (*self.known.lock())?;
        let since_ns = now_ns.saturating_sub(known.at_ns);
        (since_ns < KNOWN_FOR_NS).then(|| (known.server_ns + since_ns) / MILLI_NS)
    }

    /// The server answered that its time is `server`, between two times of ours.
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
        let clock = Clock::default();
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
