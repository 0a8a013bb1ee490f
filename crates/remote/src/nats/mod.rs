//! The engine on async-nats.
//!
//! ```text
//!   publish ──▶ queue, bounded by bytes ──▶ sender ──▶ async-nats ──▶ socket
//!   callbacks ◀── reader of a subscription ◀────────── async-nats ◀── socket
//!                                 the thread freeboard-nats
//! ```
//!
//! All of it runs on one thread with a tokio runtime of its own, so a busy runtime of the user cannot delay heartbeats. The
//! sender hands over all that is queued, then flushes once. Bytes count as held until the socket has taken them.
//!
//! **Losses.** A connection that breaks is noticed by an error of the socket, or when two pings have no answer. What was
//! published just before may be lost. What is queued when the break is noticed is dropped, because old messages after a long
//! outage would do harm. Both are at most once.

mod buckets;
mod connection;
mod options;
mod watch;

use std::{
    collections::BTreeSet,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
        mpsc as std_mpsc,
    },
    time::Duration,
};

use bytes::Bytes;
use freeboard_platform::thread;
use parking_lot::Mutex;
use tokio::{
    runtime::{Builder, Handle},
    sync::{broadcast, mpsc, oneshot, watch as tokio_watch},
};

use crate::{
    engine::{
        BucketInfo, ConnectionEvent, Deliver, Done, Engine, EngineError, Entry, Expected,
        Subscription, Watch,
    },
    names,
};

pub use options::{NatsError, NatsOptions};

/// What the accounting adds to the bytes of each message: its command and its slot in the queues.
const OVERHEAD_BYTES: usize = 128;

type OnEvent = Arc<dyn Fn(ConnectionEvent) + Send + Sync>;

/// For the sender, in order.
enum Command {
    Publish(Outgoing),
    Subscribe {
        subject: String,
        deliver: Deliver,
        /// Closed when the subscription is dropped.
        ended: oneshot::Receiver<()>,
    },
    OnEvent(OnEvent),
    /// Send what was queued before, then end.
    Close {
        within: Duration,
        closed: std_mpsc::Sender<()>,
    },
}

struct Outgoing {
    subject: String,
    reply: Option<String>,
    payload: Bytes,
}

impl Outgoing {
    fn bytes(&self) -> usize {
        let reply = self.reply.as_ref().map_or(0, String::len);
        self.payload.len() + self.subject.len() + reply + OVERHEAD_BYTES
    }
}

/// What a waiting task must know about the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Link {
    is_up: bool,
    /// Counts the connections.
    number: u64,
    /// Counts the messages that were dropped because a subscription was full.
    slow_consumers: u64,
}

/// Counts of an engine since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NatsCounters {
    /// Messages that were accepted.
    pub published: u64,
    /// Their payloads' bytes.
    pub published_bytes: u64,
    /// Messages that were given to a callback.
    pub delivered: u64,
    /// Their payloads' bytes.
    pub delivered_bytes: u64,
    /// Accepted messages that were dropped because the connection broke.
    pub dropped: u64,
    /// Messages that were refused at the bound of held bytes.
    pub busy: u64,
    /// Messages that were refused without a connection.
    pub offline: u64,
    /// Connections after the first.
    pub reconnects: u64,
    /// Messages that async-nats dropped because a subscription was full.
    pub slow_consumers: u64,
    /// What the server has refused: no permission for a subject.
    pub denied: u64,
    /// Panics of callbacks.
    pub panics: u64,
}

#[derive(Default)]
struct Counters {
    published: AtomicU64,
    published_bytes: AtomicU64,
    delivered: AtomicU64,
    delivered_bytes: AtomicU64,
    dropped: AtomicU64,
    busy: AtomicU64,
    offline: AtomicU64,
    connects: AtomicU64,
    slow_consumers: AtomicU64,
    denied: AtomicU64,
    panics: AtomicU64,
}

fn add(counter: &AtomicU64, number: usize) {
    // Ordering: Relaxed, as it is for all counters: nothing else depends on them.
    counter.fetch_add(number as u64, Ordering::Relaxed);
}

struct Shared {
    client: async_nats::Client,
    runtime: Handle,
    commands: mpsc::UnboundedSender<Command>,
    link: tokio_watch::Sender<Link>,
    /// As in `link`, for the callers of `publish`.
    is_up: AtomicBool,
    is_closed: AtomicBool,
    held_bytes: AtomicUsize,
    held_bytes_max: usize,
    wants_capacity: AtomicBool,
    /// Subjects for which there is no permission.
    denials: broadcast::Sender<Arc<str>>,
    /// The first of them that is no inbox: nodes without buckets need none.
    denied: Mutex<Option<Arc<str>>>,
    /// No answer can arrive on this connection.
    is_inbox_denied: AtomicBool,
    /// Buckets whose failed watch was logged.
    warned: Mutex<BTreeSet<String>>,
    on_events: Mutex<Vec<OnEvent>>,
    counters: Counters,
    request_time: Duration,
    replicas: usize,
}

impl Shared {
    fn is_up(&self) -> bool {
        // Ordering: Acquire pairs with the Release of `set_link`: who sees it up finds the subscriptions in place.
        self.is_up.load(Ordering::Acquire)
    }

    /// Holds bytes for a message.
    fn hold(&self, bytes: usize) -> bool {
        let add = |held: usize| {
            let total = held.saturating_add(bytes);
            (held == 0 || total <= self.held_bytes_max).then_some(total)
        };
        // Ordering: SeqCst here, in `publish` and in `release`: either this caller sees the released bytes, or the
        // releasing thread sees `wants_capacity`.
        let held = &self.held_bytes;
        held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add)
            .is_ok()
    }

    fn release(&self, bytes: usize) {
        let held = self.held_bytes.fetch_sub(bytes, Ordering::SeqCst) - bytes;
        if held <= self.held_bytes_max / 2 && self.wants_capacity.swap(false, Ordering::SeqCst) {
            self.tell(ConnectionEvent::Writable);
        }
    }

    /// On the engine's thread.
    fn tell(&self, event: ConnectionEvent) {
        let on_events = self.on_events.lock().clone();
        for on_event in on_events {
            self.call(|| on_event(event));
        }
    }

    /// Calls a callback. A panic must not end the engine's tasks.
    fn call(&self, callback: impl FnOnce()) {
        if catch_unwind(AssertUnwindSafe(callback)).is_err() {
            add(&self.counters.panics, 1);
            tracing::error!("a callback of the NATS engine panicked");
        }
    }
}

/// NATS by async-nats. Drop it outside of its callbacks, or call [`Engine::close`] before.
pub struct NatsEngine {
    shared: Arc<Shared>,
    /// Of the engine's thread.
    thread: thread::ThreadId,
}

impl fmt::Debug for NatsEngine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NatsEngine")
            .field("is_up", &self.shared.is_up())
            .finish_non_exhaustive()
    }
}

impl NatsEngine {
    /// Connects. Blocks for at most [`NatsOptions::connect_time`].
    ///
    /// # Errors
    /// [`NatsError`], one line: a wrong URL, no connection, a wrong login, a certificate that is not valid, a file that
    /// cannot be read, or no thread.
    pub fn connect(options: NatsOptions) -> Result<Self, NatsError> {
        let addresses = options.addresses()?;
        let connect_options = options.connect_options()?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build();
        let runtime = runtime.map_err(|error| options.error(&error.to_string()))?;
        let failed = options.error("the engine's thread ended");
        let (started, has_started) = std_mpsc::channel();
        let thread = thread::Builder::new().name("freeboard-nats".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(connection::run(
                options,
                addresses,
                connect_options,
                started,
            ));
            // A look-up of a name may hang.
            runtime.shutdown_background();
        });
        let thread = thread.map_err(|error| NatsError(format!("no thread: {error}")))?;
        let shared = has_started.recv().map_err(|_| failed)??;
        let thread = thread.thread().id();
        Ok(Self { shared, thread })
    }

    /// Counts since the start.
    #[must_use]
    pub fn counters(&self) -> NatsCounters {
        let counters = &self.shared.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        NatsCounters {
            published: get(&counters.published),
            published_bytes: get(&counters.published_bytes),
            delivered: get(&counters.delivered),
            delivered_bytes: get(&counters.delivered_bytes),
            dropped: get(&counters.dropped),
            busy: get(&counters.busy),
            offline: get(&counters.offline),
            reconnects: get(&counters.connects).saturating_sub(1),
            slow_consumers: get(&counters.slow_consumers),
            denied: get(&counters.denied),
            panics: get(&counters.panics),
        }
    }

    fn send(&self, command: Command) {
        // Without the engine's thread there is nobody to tell.
        let _ = self.shared.commands.send(command);
    }
}

impl Drop for NatsEngine {
    fn drop(&mut self) {
        self.close(Duration::ZERO);
    }
}

impl Engine for NatsEngine {
    fn publish(
        &self,
        subject: &str,
        reply: Option<&str>,
        payload: Bytes,
    ) -> Result<(), EngineError> {
        names::check_subject(subject)?;
        reply.map_or(Ok(()), names::check_subject)?;
        let shared = &*self.shared;
        let (bytes, bytes_max) = (payload.len(), shared.client.max_payload());
        if bytes > bytes_max {
            return Err(EngineError::TooLarge { bytes, bytes_max });
        }
        if !shared.is_up() {
            add(&shared.counters.offline, 1);
            return Err(EngineError::Offline);
        }
        let outgoing = Outgoing {
            subject: subject.to_owned(),
            reply: reply.map(str::to_owned),
            payload,
        };
        let held = outgoing.bytes();
        if !shared.hold(held) {
            shared.wants_capacity.store(true, Ordering::SeqCst);
            if !shared.hold(held) {
                add(&shared.counters.busy, 1);
                return Err(EngineError::Busy);
            }
        }
        if shared.commands.send(Command::Publish(outgoing)).is_err() {
            shared.held_bytes.fetch_sub(held, Ordering::SeqCst);
            add(&shared.counters.offline, 1);
            return Err(EngineError::Offline);
        }
        add(&shared.counters.published, 1);
        add(&shared.counters.published_bytes, bytes);
        Ok(())
    }

    fn payload_max(&self) -> usize {
        self.shared.client.max_payload()
    }

    fn subscribe(&self, subject: &str, deliver: Deliver) -> Result<Subscription, EngineError> {
        names::check_pattern(subject)?;
        let (guard, ended) = oneshot::channel();
        let subject = subject.to_owned();
        self.send(Command::Subscribe {
            subject,
            deliver,
            ended,
        });
        Ok(Subscription::new(guard))
    }

    fn on_event(&self, on_event: OnEvent) {
        self.send(Command::OnEvent(on_event));
    }

    fn open_bucket(&self, bucket: &str, ttl: Option<Duration>, done: Done<BucketInfo>) {
        let (shared, bucket) = (self.shared.clone(), bucket.to_owned());
        let open = async move { shared.open_bucket(&bucket, ttl).await };
        buckets::spawn(&self.shared, open, done);
    }

    fn get(&self, bucket: &str, key: &str, done: Done<Option<Entry>>) {
        let (shared, bucket, key) = (self.shared.clone(), bucket.to_owned(), key.to_owned());
        let get = async move { shared.get(&bucket, &key).await };
        buckets::spawn(&self.shared, get, done);
    }

    fn put(&self, bucket: &str, key: &str, value: Bytes, expected: Expected, done: Done<u64>) {
        let (shared, bucket, key) = (self.shared.clone(), bucket.to_owned(), key.to_owned());
        let put = async move { shared.put(&bucket, &key, value, expected).await };
        buckets::spawn(&self.shared, put, done);
    }

    fn delete(&self, bucket: &str, key: &str, revision: u64, done: Done<()>) {
        let (shared, bucket, key) = (self.shared.clone(), bucket.to_owned(), key.to_owned());
        let delete = async move { shared.delete(&bucket, &key, revision).await };
        buckets::spawn(&self.shared, delete, done);
    }

    fn watch(&self, bucket: &str, watch: Watch) -> Result<Subscription, EngineError> {
        names::check_bucket(bucket)?;
        let (guard, ended) = oneshot::channel();
        let (shared, bucket) = (self.shared.clone(), bucket.to_owned());
        self.shared
            .runtime
            .spawn(watch::run(shared, bucket, watch, ended));
        Ok(Subscription::new(guard))
    }

    fn counters(&self) -> Option<NatsCounters> {
        Some(Self::counters(self))
    }

    fn denied(&self) -> Option<String> {
        self.shared.denied.lock().as_deref().map(str::to_owned)
    }

    /// On the engine's own thread, in a callback, it does not wait.
    fn close(&self, within: Duration) {
        let shared = &*self.shared;
        // Ordering: SeqCst, rare.
        if shared.is_closed.swap(true, Ordering::SeqCst) {
            return;
        }
        shared.is_up.store(false, Ordering::Release);
        let (closed, is_closed) = std_mpsc::channel();
        self.send(Command::Close { within, closed });
        if !within.is_zero() && thread::current().id() != self.thread {
            // Either way it is closed.
            let _ = is_closed.recv_timeout(within);
        }
    }
}
