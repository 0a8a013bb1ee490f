//! The engine of a simulated node.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use freeboard_meter::clock;
use freeboard_sched::manual::Executor;
use parking_lot::Mutex;

use super::{
    SimulatedNats,
    buckets::{Answer, Operation},
    server::{OVERHEAD_BYTES, ToClient, ToServer},
};
use crate::{
    engine::{
        BucketInfo, ConnectionEvent, Deliver, Done, Engine, EngineError, Entry, Expected,
        Subscription, Watch,
    },
    names,
};

/// Bytes that a connection holds.
pub(super) const HELD_MAX: usize = 8 << 20;
/// A request without an answer fails after this time.
const REQUEST_NS: u64 = 2_000_000_000;
/// The first and the longest delay before the next attempt to connect.
const RETRY_NS_MIN: u64 = 10_000_000;
const RETRY_NS_MAX: u64 = 1_000_000_000;

type OnEvent = Arc<dyn Fn(ConnectionEvent) + Send + Sync>;

/// Receives the answer of a request.
enum Waiting {
    Open(Done<BucketInfo>),
    Get(Done<Option<Entry>>),
    Put(Done<u64>),
    Delete(Done<()>),
}

impl Waiting {
    fn finish(self, answer: Result<Answer, EngineError>) {
        match (self, answer) {
            (Self::Open(done), Ok(Answer::Opened(info))) => done(Ok(info)),
            (Self::Get(done), Ok(Answer::Got(entry))) => done(Ok(entry)),
            (Self::Put(done), Ok(Answer::Changed(revision))) => done(Ok(revision)),
            (Self::Delete(done), Ok(Answer::Changed(_))) => done(Ok(())),
            (Self::Open(done), Err(error)) => done(Err(error)),
            (Self::Get(done), Err(error)) => done(Err(error)),
            (Self::Put(done), Err(error)) => done(Err(error)),
            (Self::Delete(done), Err(error)) => done(Err(error)),
            (_, Ok(answer)) => unreachable!("{answer:?} is no answer of the request"),
        }
    }
}

struct Pending {
    number: u64,
    deadline_ns: u64,
    waiting: Waiting,
}

struct Watching {
    bucket: String,
    watch: Watch,
    /// The keys that were told as present.
    known: BTreeSet<String>,
    /// Those of them that the server has not told again since the last connect.
    stale: BTreeSet<String>,
}

#[derive(Default)]
struct ClientState {
    connection: Option<u64>,
    /// Subscriptions are in place.
    is_up: bool,
    is_closed: bool,
    /// Attempts to connect since the last connection.
    attempts: u32,
    subscriptions: BTreeMap<u64, (String, Deliver)>,
    watches: BTreeMap<u64, Watching>,
    /// By deadline, because all requests have the same time.
    pending: VecDeque<Pending>,
    /// A step that ends the requests without an answer is set.
    has_timeout: bool,
    on_events: Vec<OnEvent>,
    last_number: u64,
}

impl ClientState {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

/// What an engine, its guards and the steps share. User code never runs under its lock.
pub(super) struct Client {
    this: Weak<Self>,
    nats: SimulatedNats,
    name: String,
    executor: Executor,
    state: Mutex<ClientState>,
}

impl Client {
    /// Runs a step of this node.
    fn call_at(&self, due_ns: u64, name: &'static str, call: impl FnOnce(&Self) + Send + 'static) {
        let this = self.this.clone();
        self.executor.call_at(due_ns, name, move || {
            if let Some(this) = this.upgrade() {
                call(&this);
            }
        });
    }

    fn connect(&self) {
        let mut state = self.state.lock();
        if state.is_closed || state.connection.is_some() {
            return;
        }
        let mut nats = self.nats.lock();
        let Some(id) = nats.connect(&self.name, &self.executor, self.this.clone()) else {
            state.attempts += 1;
            let longest_ns = (RETRY_NS_MIN << state.attempts.min(20)).min(RETRY_NS_MAX);
            let due_ns = clock::now_ns() + longest_ns / 2 + nats.random.below(longest_ns / 2);
            drop(nats);
            drop(state);
            return self.call_at(due_ns, "nats connect", Self::connect);
        };
        let state = &mut *state;
        state.connection = Some(id);
        state.attempts = 0;
        for (number, (subject, _)) in &state.subscriptions {
            let frame = ToServer::Subscribe(*number, subject.clone());
            nats.send_to_server(id, subject.len(), frame);
        }
        for (number, watching) in &mut state.watches {
            watching.stale = watching.known.clone();
            let frame = ToServer::Watch(*number, watching.bucket.clone());
            nats.send_to_server(id, watching.bucket.len(), frame);
        }
        nats.send_to_server(id, 0, ToServer::Hello);
    }

    /// The connection is broken.
    pub(super) fn disconnect(&self, id: u64) {
        let (pending, was_up) = {
            let mut state = self.state.lock();
            if state.connection != Some(id) {
                return;
            }
            state.connection = None;
            let was_up = std::mem::take(&mut state.is_up);
            (std::mem::take(&mut state.pending), was_up)
        };
        let due_ns = {
            let mut nats = self.nats.lock();
            nats.close_by_client(id, true);
            clock::now_ns() + RETRY_NS_MIN + nats.random.below(RETRY_NS_MAX / 4)
        };
        self.call_at(due_ns, "nats connect", Self::connect);
        if was_up {
            self.tell(ConnectionEvent::Down);
        }
        for request in pending {
            let error = EngineError::Unknown("the connection broke".to_owned());
            request.waiting.finish(Err(error));
        }
    }

    fn tell(&self, event: ConnectionEvent) {
        let on_events = self.state.lock().on_events.clone();
        for on_event in on_events {
            on_event(event);
        }
    }

    pub(super) fn tell_writable(&self, id: u64) {
        if self.state.lock().connection == Some(id) {
            self.tell(ConnectionEvent::Writable);
        }
    }

    /// A frame has arrived.
    pub(super) fn handle(&self, id: u64, frame: ToClient) {
        let mut state = self.state.lock();
        if state.connection != Some(id) {
            return;
        }
        match frame {
            ToClient::Message(number, incoming) => {
                let found = state.subscriptions.get(&number);
                let deliver = found.map(|(_, deliver)| deliver.clone());
                drop(state);
                if let Some(deliver) = deliver {
                    deliver(incoming);
                }
            }
            ToClient::Answer(number, answer) => {
                let mut pending = state.pending.iter();
                let Some(index) = pending.position(|it| it.number == number) else {
                    return;
                };
                let request = state.pending.remove(index);
                drop(state);
                if let Some(request) = request {
                    request.waiting.finish(answer);
                }
            }
            ToClient::Changed(number, key, entry) => {
                let Some(watching) = state.watches.get_mut(&number) else {
                    return;
                };
                watching.stale.remove(&key);
                match &entry {
                    Some(_) => _ = watching.known.insert(key.clone()),
                    None => _ = watching.known.remove(&key),
                }
                let watch = watching.watch.clone();
                drop(state);
                watch(&key, entry);
            }
            ToClient::Told(number) => {
                let Some(watching) = state.watches.get_mut(&number) else {
                    return;
                };
                let gone = std::mem::take(&mut watching.stale);
                for key in &gone {
                    watching.known.remove(key);
                }
                let watch = watching.watch.clone();
                drop(state);
                for key in gone {
                    watch(&key, None);
                }
            }
            ToClient::Hello => {
                state.is_up = true;
                drop(state);
                self.tell(ConnectionEvent::Up);
            }
            ToClient::End => {
                drop(state);
                self.disconnect(id);
            }
        }
    }

    /// Sends a frame that belongs to a subscription or a watch, if there is a connection. The next one restores them.
    fn send(&self, bytes: usize, frame: ToServer) {
        let connection = self.state.lock().connection;
        if let Some(id) = connection {
            self.nats.lock().send_to_server(id, bytes, frame);
        }
    }

    fn request(&self, bucket: &str, key: Option<&str>, operation: Operation, waiting: Waiting) {
        let checked =
            names::check_bucket(bucket).and_then(|()| key.map_or(Ok(()), names::check_key));
        let bytes = match &operation {
            Operation::Put(_, value, _) => value.len(),
            _ => 0,
        };
        let checked = checked.and_then(|()| self.check_size(bytes));
        let sent = checked.and_then(|()| {
            let state = self.state.lock();
            let id = state.connection.filter(|_| state.is_up);
            id.ok_or(EngineError::Offline)
        });
        let now_ns = clock::now_ns();
        let id = match sent {
            Ok(id) => id,
            Err(error) => {
                let finish = || waiting.finish(Err(error));
                return self.executor.call_at(now_ns, "nats error", finish);
            }
        };
        let number = {
            let mut state = self.state.lock();
            let number = state.next_number();
            state.pending.push_back(Pending {
                number,
                deadline_ns: now_ns + REQUEST_NS,
                waiting,
            });
            number
        };
        let frame = ToServer::Request(number, bucket.to_owned(), operation);
        let mut nats = self.nats.lock();
        nats.send_to_server(id, bytes + bucket.len() + key.map_or(0, str::len), frame);
        drop(nats);
        self.schedule_timeout();
    }

    fn schedule_timeout(&self) {
        let due_ns = {
            let mut state = self.state.lock();
            let first = state.pending.front().filter(|_| !state.has_timeout);
            let Some(due_ns) = first.map(|it| it.deadline_ns) else {
                return;
            };
            state.has_timeout = true;
            due_ns
        };
        self.call_at(due_ns, "nats timeout", Self::end_late_requests);
    }

    fn end_late_requests(&self) {
        let mut late = Vec::new();
        {
            let mut state = self.state.lock();
            state.has_timeout = false;
            let now_ns = clock::now_ns();
            while let Some(first) = state.pending.pop_front() {
                if first.deadline_ns > now_ns {
                    state.pending.push_front(first);
                    break;
                }
                late.push(first);
            }
        }
        self.schedule_timeout();
        for request in late {
            let error = EngineError::Unknown("no answer in time".to_owned());
            request.waiting.finish(Err(error));
        }
    }

    fn check_size(&self, bytes: usize) -> Result<(), EngineError> {
        let bytes_max = self.nats.lock().payload_max;
        match bytes <= bytes_max {
            true => Ok(()),
            false => Err(EngineError::TooLarge { bytes, bytes_max }),
        }
    }

    fn shut(&self) {
        let (connection, pending, dropped) = {
            let mut state = self.state.lock();
            state.is_closed = true;
            state.is_up = false;
            let subscriptions = std::mem::take(&mut state.subscriptions);
            let watches = std::mem::take(&mut state.watches);
            let on_events = std::mem::take(&mut state.on_events);
            let dropped = (subscriptions, watches, on_events);
            (
                state.connection.take(),
                std::mem::take(&mut state.pending),
                dropped,
            )
        };
        if let Some(id) = connection {
            self.nats.lock().close_by_client(id, false);
        }
        for request in pending {
            let error = EngineError::Unknown("the connection was closed".to_owned());
            request.waiting.finish(Err(error));
        }
        drop(dropped);
    }
}

/// The engine of one start of a node; see [`SimulatedNats::engine`].
pub struct SimulatedEngine(Arc<Client>);

impl fmt::Debug for SimulatedEngine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SimulatedEngine({})", self.0.name)
    }
}

impl SimulatedEngine {
    pub(super) fn new(nats: &SimulatedNats, name: &str) -> Self {
        let executor = nats.lock().executor.here();
        let client = Arc::new_cyclic(|this| Client {
            this: this.clone(),
            nats: nats.clone(),
            name: name.to_owned(),
            executor,
            state: Mutex::default(),
        });
        client.call_at(clock::now_ns(), "nats connect", Client::connect);
        Self(client)
    }
}

impl Drop for SimulatedEngine {
    fn drop(&mut self) {
        self.0.shut();
    }
}

/// Ends a subscription or a watch.
struct Guard {
    client: Weak<Client>,
    number: u64,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(client) = self.client.upgrade() else {
            return;
        };
        let (subscription, watch) = {
            let mut state = client.state.lock();
            let subscription = state.subscriptions.remove(&self.number);
            (subscription, state.watches.remove(&self.number))
        };
        if subscription.is_some() {
            client.send(0, ToServer::Unsubscribe(self.number));
        }
        if watch.is_some() {
            client.send(0, ToServer::Unwatch(self.number));
        }
    }
}

impl Engine for SimulatedEngine {
    fn publish(
        &self,
        subject: &str,
        reply: Option<&str>,
        payload: Bytes,
    ) -> Result<(), EngineError> {
        names::check_subject(subject)?;
        reply.map_or(Ok(()), names::check_subject)?;
        self.0.check_size(payload.len())?;
        let id = {
            let state = self.0.state.lock();
            let id = state.connection.filter(|_| state.is_up);
            id.ok_or(EngineError::Offline)?
        };
        let bytes = payload.len() + subject.len() + reply.map_or(0, str::len);
        let mut nats = self.0.nats.lock();
        if !nats.has_capacity(id, bytes + OVERHEAD_BYTES, HELD_MAX) {
            return Err(EngineError::Busy);
        }
        let frame = ToServer::Publish {
            subject: subject.to_owned(),
            reply: reply.map(str::to_owned),
            payload,
        };
        nats.send_to_server(id, bytes, frame);
        Ok(())
    }

    fn payload_max(&self) -> usize {
        self.0.nats.lock().payload_max
    }

    fn subscribe(&self, subject: &str, deliver: Deliver) -> Result<Subscription, EngineError> {
        names::check_pattern(subject)?;
        let number = {
            let mut state = self.0.state.lock();
            let number = state.next_number();
            let subscription = (subject.to_owned(), deliver);
            state.subscriptions.insert(number, subscription);
            number
        };
        let frame = ToServer::Subscribe(number, subject.to_owned());
        self.0.send(subject.len(), frame);
        let client = Arc::downgrade(&self.0);
        Ok(Subscription::new(Guard { client, number }))
    }

    fn on_event(&self, on_event: OnEvent) {
        self.0
            .call_at(clock::now_ns(), "nats event", move |client| {
                let is_up = {
                    let mut state = client.state.lock();
                    if state.is_closed {
                        return;
                    }
                    state.on_events.push(on_event.clone());
                    state.is_up
                };
                on_event(match is_up {
                    true => ConnectionEvent::Up,
                    false => ConnectionEvent::Down,
                });
            });
    }

    fn open_bucket(&self, bucket: &str, ttl: Option<Duration>, done: Done<BucketInfo>) {
        let operation = Operation::Open(ttl);
        self.0.request(bucket, None, operation, Waiting::Open(done));
    }

    fn get(&self, bucket: &str, key: &str, done: Done<Option<Entry>>) {
        let operation = Operation::Get(key.to_owned());
        self.0
            .request(bucket, Some(key), operation, Waiting::Get(done));
    }

    fn put(&self, bucket: &str, key: &str, value: Bytes, expected: Expected, done: Done<u64>) {
        let operation = Operation::Put(key.to_owned(), value, expected);
        self.0
            .request(bucket, Some(key), operation, Waiting::Put(done));
    }

    fn delete(&self, bucket: &str, key: &str, revision: u64, done: Done<()>) {
        let operation = Operation::Delete(key.to_owned(), revision);
        self.0
            .request(bucket, Some(key), operation, Waiting::Delete(done));
    }

    fn watch(&self, bucket: &str, watch: Watch) -> Result<Subscription, EngineError> {
        names::check_bucket(bucket)?;
        let number = {
            let mut state = self.0.state.lock();
            let number = state.next_number();
            let watching = Watching {
                bucket: bucket.to_owned(),
                watch,
                known: BTreeSet::new(),
                stale: BTreeSet::new(),
            };
            state.watches.insert(number, watching);
            number
        };
        let frame = ToServer::Watch(number, bucket.to_owned());
        self.0.send(bucket.len(), frame);
        let client = Arc::downgrade(&self.0);
        Ok(Subscription::new(Guard { client, number }))
    }

    fn close(&self, within: Duration) {
        let connection = {
            let mut state = self.0.state.lock();
            state.is_closed = true;
            state.is_up = false;
            state.connection
        };
        if let Some(id) = connection {
            let within_ns = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
            let deadline_ns = clock::now_ns().saturating_add(within_ns);
            let nats = self.0.nats.clone();
            let is_sent = move || nats.lock().held_bytes(id) == 0;
            // Whether all is sent or not: then it is closed.
            let _ = self.0.executor.block(deadline_ns, is_sent);
        }
        self.0.shut();
    }
}
