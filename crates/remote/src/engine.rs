//! The engine that carries messages and keeps keys: NATS, or a simulated one.
//!
//! ```text
//!   proxy, port, directory ──▶ Engine ──▶ nats: a thread with async-nats
//!                                    └──▶ simulated: steps of the manual executor
//! ```
//!
//! No call waits. Results and messages come to callbacks, on the engine's thread (or in a step of the simulation, on the
//! node of the caller). A callback may block for a short time: it tells an actor whose lane is bounded.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use crate::nats::NatsCounters;

/// A message that has arrived.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// Where it was sent to.
    pub subject: String,
    /// Where the sender wants the answer.
    pub reply: Option<String>,
    /// The message; empty if it says that nobody listens.
    pub payload: Bytes,
    /// The engine's answer to a message with `reply` whose subject has no subscriber.
    pub is_no_responders: bool,
}

/// Receives the messages of a subscription, in order.
pub type Deliver = Arc<dyn Fn(Incoming) + Send + Sync>;

/// Receives a result, once.
pub type Done<T> = Box<dyn FnOnce(Result<T, EngineError>) + Send>;

/// Why the engine did not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// There is no connection to the server. Nothing was sent.
    #[error("no connection to the NATS server")]
    Offline,
    /// The connection takes no more now. Nothing was sent.
    #[error("the connection to the NATS server is full")]
    Busy,
    /// The message exceeds the server's limit.
    #[error("the message has {bytes} bytes, the server takes {bytes_max}")]
    TooLarge {
        /// Of the message.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The key has another revision than expected, or exists already.
    #[error("the key was changed by another node")]
    Conflict,
    /// The server did not answer in time, or the connection broke. The change was made, was not made, or is made later: what
    /// was sent on a broken connection may still arrive.
    #[error("no answer of the NATS server: {0}")]
    Unknown(String),
    /// The server refuses: JetStream is off, no permission, a foreign bucket.
    #[error("{0}")]
    Refused(String),
}

/// What the engine says about its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEvent {
    /// Connected, or connected again. Subscriptions are in place.
    Up,
    /// The connection broke. Messages that were published just before may be lost.
    Down,
    /// The connection has capacity again, after [`EngineError::Busy`].
    Writable,
}

/// A bucket of keys, opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketInfo {
    /// When the server created it: milliseconds since 1970, by the server's clock.
    pub created_ms: u64,
}

/// A key's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The bytes.
    pub value: Bytes,
    /// Larger than that of each earlier change in the bucket.
    pub revision: u64,
}

/// What a change of a key expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// There is no such key: it never was, was deleted, or has expired.
    Absent,
    /// The key's last change has this revision.
    Revision(u64),
}

/// Receives the changes of a bucket's keys: the present keys first, then each change. `None` for a deleted key. A key that
/// expires is not told.
pub type Watch = Arc<dyn Fn(&str, Option<Entry>) + Send + Sync>;

/// Ends a subscription or a watch when it is dropped.
pub struct Subscription(#[expect(dead_code, reason = "held for its drop")] Box<dyn Send + Sync>);

impl Subscription {
    /// What ends the subscription when it is dropped.
    pub fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Subscription")
    }
}

/// NATS, as this crate uses it.
pub trait Engine: Send + Sync + 'static {
    /// Sends a message, at most once. Never waits. Messages of one node to one subject stay in order. The engine holds a
    /// bounded number of bytes that the connection has not taken yet.
    ///
    /// # Errors
    /// [`EngineError::Offline`], [`EngineError::Busy`] or [`EngineError::TooLarge`]: nothing was sent.
    fn publish(
        &self,
        subject: &str,
        reply: Option<&str>,
        payload: Bytes,
    ) -> Result<(), EngineError>;

    /// The most bytes of a message.
    fn payload_max(&self) -> usize;

    /// Delivers the messages to a subject (`*` and `>` as in NATS), until the subscription is dropped. Kept over
    /// reconnects.
    ///
    /// # Errors
    /// [`EngineError::Refused`].
    fn subscribe(&self, subject: &str, deliver: Deliver) -> Result<Subscription, EngineError>;

    /// Calls `on_event` for each change of the connection, from now on. The first call says the present state.
    fn on_event(&self, on_event: Arc<dyn Fn(ConnectionEvent) + Send + Sync>);

    /// Opens a bucket; creates it if there is none. The values of a bucket with `ttl` expire that long after their last
    /// change.
    fn open_bucket(&self, bucket: &str, ttl: Option<Duration>, done: Done<BucketInfo>);

    /// Reads a key.
    fn get(&self, bucket: &str, key: &str, done: Done<Option<Entry>>);

    /// Changes a key if it is as expected. The result is the new revision.
    fn put(&self, bucket: &str, key: &str, value: Bytes, expected: Expected, done: Done<u64>);

    /// Deletes a key if its revision is as expected.
    fn delete(&self, bucket: &str, key: &str, revision: u64, done: Done<()>);

    /// Watches all keys of a bucket, until the subscription is dropped. Kept over reconnects: then the present keys are
    /// told again.
    ///
    /// # Errors
    /// [`EngineError::Refused`].
    fn watch(&self, bucket: &str, watch: Watch) -> Result<Subscription, EngineError>;

    /// Counts of the connection; `None` for an engine without any.
    fn counters(&self) -> Option<NatsCounters> {
        None
    }

    /// The subject that the server has denied first, besides inboxes of answers; `None` for an engine without permissions.
    fn denied(&self) -> Option<String> {
        None
    }

    /// Sends what is held, for at most `within`, then closes the connection. Blocks.
    fn close(&self, within: Duration);
}
