//! The state that all connections share, and the sweep of expired keys.
//!
//! A connection takes the lock once for all requests of one read, not once per request. Shards would
//! let connections run in parallel, but most of a request's time is spent in the kernel, outside the lock.

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use freeboard_actor::{Actor, Context};
use freeboard_cache::native::NativeScript;
use freeboard_meter::{Counter, clock};
use parking_lot::Mutex;

use crate::{keyspace::Keyspace, options::EmbeddedOptions, subscribers::Subscribers};

/// Time between two sweeps, and the time while there are no keys.
const PERIOD: Duration = Duration::from_millis(100);
const REST: Duration = Duration::from_secs(1);
/// Keys checked per lock: a few microseconds.
const KEYS_MAX: usize = 1_024;
/// Rounds per sweep. Like Redis, it continues while more than a quarter of the checked keys are expired.
const ROUNDS_MAX: usize = 32;

/// Shared by all connections and the server.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) options: EmbeddedOptions,
    /// The password, if any.
    pub(crate) password: Option<String>,
    /// Counted bytes of the unfinished requests of all connections.
    pub(crate) unfinished_bytes: AtomicUsize,
    pub(crate) store: Mutex<Store>,
    pub(crate) gauges: ServerGauges,
}

/// The state under the lock.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) keyspace: Keyspace,
    pub(crate) subscribers: Subscribers,
    /// Scripts whose source a client has sent.
    pub(crate) scripts: Vec<NativeScript>,
    /// Open connections.
    pub(crate) connections: usize,
    pub(crate) commands: u64,
}

/// Counters outside the lock.
#[derive(Debug, Default)]
pub(crate) struct ServerGauges {
    pub(crate) refused: Counter,
    pub(crate) malformed: Counter,
    pub(crate) unfinished: Counter,
    pub(crate) overflowed: Counter,
}

impl Common {
    pub(crate) fn new(options: EmbeddedOptions, password: Option<String>) -> Self {
        let store = Store {
            keyspace: Keyspace::new(options.bytes_max, options.seed),
            subscribers: Subscribers::default(),
            scripts: Vec::new(),
            connections: 0,
            commands: 0,
        };
        Self {
            options,
            password,
            unfinished_bytes: AtomicUsize::new(0),
            store: Mutex::new(store),
            gauges: ServerGauges::default(),
        }
    }
}

/// The actor that removes expired keys that nobody accesses.
#[derive(Debug)]
pub(crate) struct Sweeper {
    common: Arc<Common>,
}

impl Sweeper {
    pub(crate) const fn new(common: Arc<Common>) -> Self {
        Self { common }
    }

    fn sweep(&mut self, cx: &mut Context<Self>) {
        let mut period = PERIOD;
        for _ in 0..ROUNDS_MAX {
            let mut store = self.common.store.lock();
            let swept = store.keyspace.sweep(KEYS_MAX, now_ms());
            drop(store);
            if swept.seen == 0 {
                period = REST;
            }
            if swept.expired * 4 <= swept.seen {
                break;
            }
        }
        // Without a timer, expired keys are removed on access or evicted.
        let _ = cx.wake_after(period, Self::sweep);
    }
}

impl Actor for Sweeper {
    fn started(&mut self, cx: &mut Context<Self>) {
        self.sweep(cx);
    }
}

/// The time since 1970, in ms.
pub(crate) fn now_ms() -> u64 {
    u64::try_from(clock::since_1970().as_millis()).unwrap_or(u64::MAX)
}
