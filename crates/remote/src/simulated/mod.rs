//! A NATS server in virtual time, for simulations.
//!
//! ```text
//!   node a                          SimulatedNats                        node b
//!   SimulatedEngine ── frames ──▶ subjects, buckets ── frames ──▶ SimulatedEngine ──▶ callbacks
//!                      delay           (world)         delay
//! ```
//!
//! Each frame that arrives is a step of the manual executor: at the server a step of the world, at an engine one of its node.
//! Frames of a connection stay in order. Delays and the choices below come from one seed.
//!
//! **As NATS does it.** Subjects with wildcards; a message with an answer's subject that nobody listens to comes back to its
//! sender as [`Incoming::is_no_responders`](crate::engine::Incoming); buckets whose keys have revisions and expire by the
//! server's clock. A message is lost only with a connection.
//!
//! **When a connection breaks**, what is under way is lost, or only the last part of it. The engine tells
//! [`Down`](crate::engine::ConnectionEvent::Down), connects again and restores its subscriptions and watches. A request
//! without an answer becomes [`EngineError::Unknown`](crate::engine::EngineError::Unknown), also if the server did what it
//! asked, or will do it later.
//!
//! **Faults by call:**
//! - [`SimulatedNats::partition`]: frames wait. Both sides give the connection up 2 to 4 s later, each at its own time. What
//!   the node had sent may still arrive when the partition ends, after the node has given up.
//! - [`SimulatedNats::lose_connection`], [`SimulatedNats::restart`], [`SimulatedNats::stop`], [`SimulatedNats::start`],
//!   [`SimulatedNats::lose_bucket`].
//! - A paused node: the server keeps what it sends to it, up to 64 MiB, and then ends the connection. What the node has
//!   published arrives.
//! - A killed node: its subscriptions end at once, or up to 2 s later.

mod buckets;
mod engine;
mod link;
mod server;

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use freeboard_sched::manual::Executor;
use parking_lot::{Mutex, MutexGuard};

use crate::engine::Entry;
pub use engine::SimulatedEngine;
use server::State;

struct Shared {
    state: Mutex<State>,
}

/// A simulated NATS server; see the [module](self). Cheap to clone.
#[derive(Clone)]
pub struct SimulatedNats(Arc<Shared>);

impl fmt::Debug for SimulatedNats {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SimulatedNats({:?})", self.connected())
    }
}

impl SimulatedNats {
    /// A server without data. Its events are steps of `executor`.
    #[must_use]
    pub fn new(executor: &Executor, seed: u64) -> Self {
        let state = |nats: &Weak<Shared>| State::new(nats.clone(), executor.clone(), seed);
        Self(Arc::new_cyclic(|nats| Shared {
            state: Mutex::new(state(nats)),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    /// The engine of the node whose code calls this, from this start of the node to its end. It connects in a later step.
    /// Faults name the node by `name`.
    #[must_use]
    pub fn engine(&self, name: &str) -> SimulatedEngine {
        SimulatedEngine::new(self, name)
    }

    /// The largest delay of a frame in one direction from here on; at first 2 ms. The least is 0.1 ms.
    pub fn set_delay(&self, delay_max: Duration) {
        self.lock().set_delay_max(delay_max);
    }

    /// The most bytes of a message from here on; at first 1 MiB.
    pub fn set_payload_max(&self, bytes: usize) {
        self.lock().payload_max = bytes;
    }

    /// A node and the server do not reach each other, until [`SimulatedNats::heal`].
    pub fn partition(&self, name: &str) {
        self.lock().partition(name);
    }

    /// A node and the server do not reach each other for this time.
    pub fn partition_for(&self, name: &str, time: Duration) {
        self.lock().partition_for(name, time);
    }

    /// Ends a partition.
    pub fn heal(&self, name: &str) {
        self.lock().heal(name);
    }

    /// Breaks the connection of a node, which then connects again.
    pub fn lose_connection(&self, name: &str) {
        self.lock().lose_connection(name);
    }

    /// The server ends, and starts again up to 500 ms later.
    pub fn restart(&self, keeps_data: bool) {
        self.lock().restart(keeps_data);
    }

    /// The server ends, until [`SimulatedNats::start`].
    pub fn stop(&self) {
        self.lock().stop();
    }

    /// The server starts, after it has ended if it runs.
    pub fn start(&self, keeps_data: bool) {
        self.lock().start(keeps_data);
    }

    /// The server loses a bucket, as if somebody had deleted its stream.
    pub fn lose_bucket(&self, bucket: &str) {
        self.lock().buckets.lose(bucket);
    }

    /// The names of the nodes that are connected.
    #[must_use]
    pub fn connected(&self) -> BTreeSet<String> {
        self.lock().connected()
    }

    /// The present keys of a bucket at the server, in the order of their last changes; `None` if there is no such bucket.
    #[must_use]
    pub fn entries(&self, bucket: &str) -> Option<Vec<(String, Entry)>> {
        self.lock().buckets.entries(bucket)
    }

    /// Passes a short text of each event to `hook`: two runs of one seed have the same texts. It must not call the server.
    pub fn on_event(&self, hook: impl FnMut(&str) + Send + 'static) {
        self.lock().hook = Some(Box::new(hook));
    }
}
