//! What all connections share, under one lock.
//!
//! A connection takes it once for all requests that one read has brought, so a request costs no lock of its own,
//! and a transaction needs none. Shards would let connections go on side by side, but most of a request's time is
//! the kernel's, outside of the lock.

use std::sync::atomic::AtomicUsize;

use freeboard_cache::native::NativeScript;
use freeboard_meter::Counter;
use parking_lot::Mutex;

use crate::{keyspace::Keyspace, options::EmbeddedOptions, subscribers::Subscribers};

/// What connections and server have in common.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) options: EmbeddedOptions,
    /// What clients have to show.
    pub(crate) password: Option<String>,
    /// What the unfinished requests and transactions of all connections take, without what does not count.
    pub(crate) unfinished_bytes: AtomicUsize,
    pub(crate) store: Mutex<Store>,
    pub(crate) gauges: Gauges,
}

/// What is behind the lock.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) keyspace: Keyspace,
    pub(crate) subscribers: Subscribers,
    /// Scripts that a client has sent the source of.
    pub(crate) scripts: Vec<NativeScript>,
    /// Connections that are open.
    pub(crate) connections: usize,
    pub(crate) commands: u64,
}

/// What is counted outside of the lock.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
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
            gauges: Gauges::default(),
        }
    }
}
