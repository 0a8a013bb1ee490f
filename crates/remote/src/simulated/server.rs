//! The simulated server: connections, subjects, and what happens to them at faults. It holds only plain data: the callbacks
//! of a node stay in the node's engine, so the destructors of a killed node never run.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Weak,
    time::Duration,
};

use bytes::Bytes;
use freeboard_meter::clock;
use freeboard_sched::manual::{Executor, Node};

use super::{
    Shared, SimulatedNats,
    buckets::{Answer, Buckets, Operation},
    engine::Client,
    link::{Link, Random},
};
use crate::{
    engine::{EngineError, Entry, Incoming},
    names,
};

/// What waits for one client, after which the server ends the connection; as `max_pending` of a NATS server.
pub(super) const PENDING_BYTES_MAX: usize = 64 << 20;
/// The server, and a client, notice after at least this time that the other side does not answer, and after at most twice
/// this time.
const PING_NS: u64 = 2_000_000_000;
/// The longest time that a restart takes.
const RESTART_NS_MAX: u64 = 500_000_000;
/// Of a frame, besides its payload and subjects.
pub(super) const OVERHEAD_BYTES: usize = 32;

/// From a client.
#[derive(Debug)]
pub(super) enum ToServer {
    Publish {
        subject: String,
        reply: Option<String>,
        payload: Bytes,
    },
    Subscribe(u64, String),
    Unsubscribe(u64),
    Watch(u64, String),
    Unwatch(u64),
    Request(u64, String, Operation),
    /// Everything before it is in place.
    Hello,
    /// The client has closed the connection.
    End,
}

/// To a client.
#[derive(Debug)]
pub(super) enum ToClient {
    Message(u64, Incoming),
    Answer(u64, Result<Answer, EngineError>),
    /// A change of a watched key.
    Changed(u64, String, Option<Entry>),
    /// The keys that were present are told.
    Told(u64),
    Hello,
    /// The server has closed the connection.
    End,
}

/// A connection, until both sides have closed it.
pub(super) struct Connection {
    /// Its node's name.
    name: String,
    /// Adds steps to its node.
    executor: Executor,
    client: Weak<Client>,
    to_server: Link<ToServer>,
    to_client: Link<ToClient>,
    is_server_open: bool,
    is_client_open: bool,
    /// The client waits for capacity.
    wants_capacity: bool,
    subscriptions: BTreeMap<u64, String>,
    watches: BTreeMap<u64, Watching>,
    /// When its node was last seen alive; `None` after its end was noticed.
    alive_ns: Option<u64>,
}

struct Watching {
    bucket: String,
    /// Whether the present keys were sent.
    has_begun: bool,
}

type Hook = Box<dyn FnMut(&str) + Send>;

pub(super) struct State {
    /// To call it later.
    nats: Weak<Shared>,
    /// Of the world.
    pub(super) executor: Executor,
    pub(super) random: Random,
    pub(super) delay_min_ns: u64,
    pub(super) delay_max_ns: u64,
    pub(super) payload_max: usize,
    is_up: bool,
    /// Counts the stops.
    stops: u64,
    /// The names of the nodes that do not reach the server, with the numbers of the partitions.
    cut: BTreeMap<String, u64>,
    connections: BTreeMap<u64, Connection>,
    pub(super) buckets: Buckets,
    last_id: u64,
    pub(super) hook: Option<Hook>,
}

impl State {
    pub(super) fn new(nats: Weak<Shared>, executor: Executor, seed: u64) -> Self {
        Self {
            nats,
            executor: executor.on(Node::WORLD),
            random: Random::new(seed),
            delay_min_ns: 100_000,
            delay_max_ns: 2_000_000,
            payload_max: 1 << 20,
            is_up: true,
            stops: 0,
            cut: BTreeMap::new(),
            connections: BTreeMap::new(),
            buckets: Buckets::default(),
            last_id: 0,
            hook: None,
        }
    }

    pub(super) fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(hook) = &mut self.hook {
            hook(&text());
        }
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Calls the server in a step of its own.
    fn call_at(
        &self,
        due_ns: u64,
        name: &'static str,
        call: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        let nats = self.nats.clone();
        self.executor.call_at(due_ns, name, move || {
            if let Some(nats) = nats.upgrade() {
                call(&mut SimulatedNats(nats).lock());
            }
        });
    }

    fn arrival_ns(&mut self) -> u64 {
        let spread_ns = self.delay_max_ns.saturating_sub(self.delay_min_ns);
        clock::now_ns() + self.delay_min_ns + self.random.below(spread_ns.saturating_add(1))
    }

    fn is_cut(&self, id: u64) -> bool {
        let connection = self.connections.get(&id);
        connection.is_some_and(|it| self.cut.contains_key(&it.name))
    }

    // Clients.

    /// A new connection; `None` if the server cannot be reached.
    pub(super) fn connect(
        &mut self,
        name: &str,
        executor: &Executor,
        client: Weak<Client>,
    ) -> Option<u64> {
        if !self.is_up || self.cut.contains_key(name) {
            return None;
        }
        let id = self.next_id();
        let connection = Connection {
            name: name.to_owned(),
            executor: executor.clone(),
            client,
            to_server: Link::default(),
            to_client: Link::default(),
            is_server_open: true,
            is_client_open: true,
            wants_capacity: false,
            subscriptions: BTreeMap::new(),
            watches: BTreeMap::new(),
            alive_ns: Some(clock::now_ns()),
        };
        self.connections.insert(id, connection);
        self.note(|| format!("{name} connects as {id}"));
        Some(id)
    }

    /// Whether a client may send so many bytes. If not, it is told when it can.
    pub(super) fn has_capacity(&mut self, id: u64, bytes: usize, bytes_max: usize) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else {
            return true;
        };
        let held = connection.to_server.bytes();
        let has_capacity = held == 0 || held + bytes <= bytes_max;
        connection.wants_capacity |= !has_capacity;
        has_capacity
    }

    /// Bytes of a connection that have not arrived.
    pub(super) fn held_bytes(&self, id: u64) -> usize {
        let connection = self.connections.get(&id);
        connection.map_or(0, |it| it.to_server.bytes())
    }

    pub(super) fn send_to_server(&mut self, id: u64, bytes: usize, frame: ToServer) {
        let due_ns = self.arrival_ns();
        if let Some(connection) = self.connections.get_mut(&id) {
            let bytes = bytes + OVERHEAD_BYTES;
            connection.to_server.push(due_ns, bytes, frame);
            self.schedule_to_server(id);
        }
    }

    /// The client closes a connection that is broken, or that it does not need.
    pub(super) fn close_by_client(&mut self, id: u64, is_broken: bool) {
        let (is_cut, is_sent) = (self.is_cut(id), self.random.is_heads());
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.is_client_open = false;
        connection.to_client.clear();
        if !connection.is_server_open {
            self.connections.remove(&id);
            return;
        }
        if is_broken && !is_cut {
            connection.to_server.lose(&mut self.random);
        } else if is_broken && !is_sent {
            // The server learns by a ping that the client is gone.
            connection.to_server.clear();
            return;
        }
        // Behind a partition the operating system sends what was written, as soon as it can: long after the client has
        // given the connection up.
        self.send_to_server(id, 0, ToServer::End);
    }

    // Links.

    fn schedule_to_server(&mut self, id: u64) {
        if self.is_cut(id) {
            return;
        }
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let link = &mut connection.to_server;
        let Some(due_ns) = link.next_ns().filter(|_| !link.is_scheduled) else {
            return;
        };
        link.is_scheduled = true;
        let due_ns = due_ns.max(clock::now_ns());
        self.call_at(due_ns, "nats server", move |state| {
            state.receive(id);
            state.schedule_to_server(id);
        });
    }

    /// The next frame of a client arrives.
    fn receive(&mut self, id: u64) {
        self.notice_dead();
        let is_cut = self.is_cut(id);
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.to_server.is_scheduled = false;
        if is_cut {
            return;
        }
        let frame = connection.to_server.pop();
        if connection.wants_capacity && connection.to_server.bytes() <= super::engine::HELD_MAX / 2
        {
            connection.wants_capacity = false;
            let client = connection.client.clone();
            let executor = connection.executor.clone();
            executor.call_at(clock::now_ns(), "nats writable", move || {
                if let Some(client) = client.upgrade() {
                    client.tell_writable(id);
                }
            });
        }
        if let Some(frame) = frame.filter(|_| connection.is_server_open) {
            self.handle(id, frame);
        }
    }

    fn send_to_client(&mut self, id: u64, bytes: usize, frame: ToClient) {
        let due_ns = self.arrival_ns();
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if !connection.is_client_open {
            return;
        }
        connection
            .to_client
            .push(due_ns, bytes + OVERHEAD_BYTES, frame);
        if connection.to_client.bytes() > PENDING_BYTES_MAX && connection.is_server_open {
            self.note(|| format!("{id} is a slow consumer"));
            self.close_by_server(id);
        }
        self.schedule_to_client(id);
    }

    fn schedule_to_client(&mut self, id: u64) {
        if self.is_cut(id) {
            return;
        }
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let link = &mut connection.to_client;
        let Some(due_ns) = link.next_ns().filter(|_| !link.is_scheduled) else {
            return;
        };
        link.is_scheduled = true;
        let due_ns = due_ns.max(clock::now_ns());
        let (nats, client) = (self.nats.clone(), connection.client.clone());
        connection
            .executor
            .call_at(due_ns, "nats message", move || {
                let (Some(nats), Some(client)) = (nats.upgrade(), client.upgrade()) else {
                    return;
                };
                let nats = SimulatedNats(nats);
                let frame = nats.lock().take_for_client(id);
                if let Some(frame) = frame {
                    // It may wait. Then the frames behind it wait too.
                    client.handle(id, frame);
                }
                let mut state = nats.lock();
                if let Some(connection) = state.connections.get_mut(&id) {
                    connection.to_client.is_scheduled = false;
                    state.schedule_to_client(id);
                }
            });
    }

    fn take_for_client(&mut self, id: u64) -> Option<ToClient> {
        match self.is_cut(id) {
            true => None,
            false => self.connections.get_mut(&id)?.to_client.pop(),
        }
    }

    // The server.

    fn handle(&mut self, id: u64, frame: ToServer) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        match frame {
            ToServer::Publish {
                subject,
                reply,
                payload,
            } => self.publish(id, subject, reply, payload),
            ToServer::Subscribe(number, subject) => {
                connection.subscriptions.insert(number, subject);
            }
            ToServer::Unsubscribe(number) => _ = connection.subscriptions.remove(&number),
            ToServer::Watch(number, bucket) => {
                let watching = Watching {
                    bucket: bucket.clone(),
                    has_begun: false,
                };
                connection.watches.insert(number, watching);
                self.begin_watches(&bucket);
            }
            ToServer::Unwatch(number) => _ = connection.watches.remove(&number),
            ToServer::Request(number, bucket, operation) => {
                self.call_bucket(id, number, &bucket, operation);
            }
            ToServer::Hello => self.send_to_client(id, 0, ToClient::Hello),
            ToServer::End => self.close_by_server(id),
        }
    }

    fn publish(&mut self, from: u64, subject: String, reply: Option<String>, payload: Bytes) {
        let mut to = Vec::new();
        for (id, connection) in &self.connections {
            let subscriptions = connection.subscriptions.iter();
            let matching = subscriptions.filter(|(_, it)| names::matches(it, &subject));
            to.extend(matching.map(|(number, _)| (*id, *number)));
        }
        self.note(|| {
            let (bytes, to) = (payload.len(), to.len());
            format!("{from} publishes {bytes} bytes to {subject}: {to} subscriptions")
        });
        let bytes = payload.len() + subject.len();
        if let (true, Some(reply)) = (to.is_empty(), &reply) {
            // As in NATS, only the sender itself is told, at its subscription of the answer.
            let of_sender = self.connections.get(&from).and_then(|sender| {
                let mut own = sender.subscriptions.iter();
                own.find(|(_, it)| names::matches(it, reply))
            });
            if let Some(number) = of_sender.map(|(number, _)| *number) {
                let incoming = Incoming {
                    subject: reply.clone(),
                    reply: None,
                    payload: Bytes::new(),
                    is_no_responders: true,
                };
                self.send_to_client(from, reply.len(), ToClient::Message(number, incoming));
            }
        }
        for (id, number) in to {
            let incoming = Incoming {
                subject: subject.clone(),
                reply: reply.clone(),
                payload: payload.clone(),
                is_no_responders: false,
            };
            self.send_to_client(id, bytes, ToClient::Message(number, incoming));
        }
    }

    fn call_bucket(&mut self, id: u64, number: u64, bucket: &str, operation: Operation) {
        let text = self.hook.is_some().then(|| format!("{operation:?}"));
        let changed = match &operation {
            Operation::Put(key, value, _) => Some((key.clone(), Some(value.clone()))),
            Operation::Delete(key, _) => Some((key.clone(), None)),
            Operation::Open(_) | Operation::Get(_) => None,
        };
        let answer = self.buckets.call(bucket, operation);
        self.note(|| {
            format!(
                "{id} in {bucket}: {} -> {answer:?}",
                text.unwrap_or_default()
            )
        });
        if let (Ok(Answer::Changed(revision)), Some((key, value))) = (&answer, changed) {
            let revision = *revision;
            let entry = value.map(|value| Entry { value, revision });
            self.tell_watches(bucket, &key, entry.as_ref());
        }
        let is_opened = matches!(answer, Ok(Answer::Opened(_)));
        let bytes = match &answer {
            Ok(Answer::Got(Some(entry))) => entry.value.len(),
            _ => 0,
        };
        self.send_to_client(id, bytes, ToClient::Answer(number, answer));
        if is_opened {
            self.begin_watches(bucket);
        }
    }

    fn tell_watches(&mut self, bucket: &str, key: &str, entry: Option<&Entry>) {
        let bytes = key.len() + entry.map_or(0, |entry| entry.value.len());
        for (id, number) in self.watches_of(bucket, true) {
            let changed = ToClient::Changed(number, key.to_owned(), entry.cloned());
            self.send_to_client(id, bytes, changed);
        }
    }

    /// Sends the present keys to the watches that wait for them, if there is such a bucket.
    fn begin_watches(&mut self, bucket: &str) {
        let Some(entries) = self.buckets.entries(bucket) else {
            return;
        };
        for (id, number) in self.watches_of(bucket, false) {
            for (key, entry) in &entries {
                let bytes = key.len() + entry.value.len();
                let changed = ToClient::Changed(number, key.clone(), Some(entry.clone()));
                self.send_to_client(id, bytes, changed);
            }
            self.send_to_client(id, 0, ToClient::Told(number));
            let connection = self.connections.get_mut(&id);
            if let Some(watching) = connection.and_then(|it| it.watches.get_mut(&number)) {
                watching.has_begun = true;
            }
        }
    }

    fn watches_of(&self, bucket: &str, has_begun: bool) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        for (id, connection) in &self.connections {
            let watches = connection.watches.iter();
            let own = watches.filter(|(_, it)| it.bucket == bucket && it.has_begun == has_begun);
            found.extend(own.map(|(number, _)| (*id, *number)));
        }
        found
    }

    /// The server ends a connection. What it has sent may be lost.
    fn close_by_server(&mut self, id: u64) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if !connection.is_server_open {
            return;
        }
        connection.is_server_open = false;
        connection.subscriptions.clear();
        connection.watches.clear();
        connection.to_server.clear();
        if !connection.is_client_open || connection.alive_ns.is_none() {
            self.connections.remove(&id);
        } else {
            connection.to_client.lose(&mut self.random);
            self.send_to_client(id, 0, ToClient::End);
        }
        self.note(|| format!("{id} is closed"));
    }

    /// Finds out which nodes were killed. The server sees the end of their connections at once, or by a ping.
    fn notice_dead(&mut self) {
        let now_ns = clock::now_ns();
        let ids: Vec<_> = self.connections.keys().copied().collect();
        for id in ids {
            let Some(connection) = self.connections.get_mut(&id) else {
                continue;
            };
            let Some(alive_ns) = connection.alive_ns else {
                continue;
            };
            if !connection.executor.is_dead() {
                connection.alive_ns = Some(now_ns);
                continue;
            }
            connection.alive_ns = None;
            connection.to_client.clear();
            connection.to_server.lose(&mut self.random);
            if self.random.is_heads() {
                self.send_to_server(id, 0, ToServer::End);
            } else {
                let due_ns = alive_ns.saturating_add(PING_NS).max(now_ns);
                self.call_at(due_ns, "nats ping", move |state| state.close_by_server(id));
            }
        }
    }

    // Faults.

    /// Returns the number of the partition.
    pub(super) fn partition(&mut self, name: &str) -> u64 {
        let number = self.next_id();
        self.cut.insert(name.to_owned(), number);
        self.note(|| format!("{name} is cut off"));
        for id in self.connections_of(name) {
            self.ping(id, number);
        }
        number
    }

    pub(super) fn partition_for(&mut self, name: &str, time: Duration) {
        let number = self.partition(name);
        let due_ns = clock::now_ns().saturating_add(time.as_nanos() as u64);
        let name = name.to_owned();
        self.call_at(due_ns, "nats heal", move |state| {
            if state.cut.get(&name) == Some(&number) {
                state.heal(&name);
            }
        });
    }

    /// Both sides give a connection up if it is cut for long.
    fn ping(&mut self, id: u64, partition: u64) {
        let now_ns = clock::now_ns();
        let (server_ns, client_ns) = (self.ping_ns(), self.ping_ns());
        self.call_at(now_ns + server_ns, "nats ping", move |state| {
            let connection = state.connections.get(&id);
            let is_abandoned = connection.is_some_and(|it| !it.is_client_open);
            if is_abandoned || state.is_cut_since(id, partition) {
                state.close_by_server(id);
            }
        });
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let (nats, client) = (self.nats.clone(), connection.client.clone());
        let executor = &connection.executor;
        executor.call_at(now_ns + client_ns, "nats ping", move || {
            let (Some(nats), Some(client)) = (nats.upgrade(), client.upgrade()) else {
                return;
            };
            let is_cut = SimulatedNats(nats).lock().is_cut_since(id, partition);
            if is_cut {
                client.disconnect(id);
            }
        });
    }

    fn ping_ns(&mut self) -> u64 {
        PING_NS + self.random.below(PING_NS)
    }

    fn is_cut_since(&self, id: u64, partition: u64) -> bool {
        let connection = self.connections.get(&id);
        connection.is_some_and(|it| self.cut.get(&it.name) == Some(&partition))
    }

    pub(super) fn heal(&mut self, name: &str) {
        if self.cut.remove(name).is_none() {
            return;
        }
        self.note(|| format!("{name} is no longer cut off"));
        for id in self.connections_of(name) {
            self.schedule_to_server(id);
            self.schedule_to_client(id);
        }
    }

    pub(super) fn lose_connection(&mut self, name: &str) {
        for id in self.connections_of(name) {
            self.close_by_server(id);
        }
    }

    fn connections_of(&self, name: &str) -> Vec<u64> {
        let connections = self.connections.iter();
        let own = connections.filter(|(_, it)| it.name == name);
        own.map(|(id, _)| *id).collect()
    }

    pub(super) fn stop(&mut self) {
        if !self.is_up {
            return;
        }
        self.is_up = false;
        self.stops += 1;
        self.note(|| "the server stops".to_owned());
        let ids: Vec<_> = self.connections.keys().copied().collect();
        for id in ids {
            self.close_by_server(id);
        }
    }

    pub(super) fn start(&mut self, keeps_data: bool) {
        self.stop();
        if !keeps_data {
            self.buckets.clear();
        }
        self.is_up = true;
        self.note(|| format!("the server starts with its data: {keeps_data}"));
    }

    pub(super) fn restart(&mut self, keeps_data: bool) {
        self.stop();
        let stops = self.stops;
        let due_ns = clock::now_ns() + self.random.below(RESTART_NS_MAX);
        self.call_at(due_ns, "nats start", move |state| {
            if !state.is_up && state.stops == stops {
                state.start(keeps_data);
            }
        });
    }

    /// The names of the nodes that are connected.
    pub(super) fn connected(&self) -> BTreeSet<String> {
        let connections = self.connections.values();
        let open = connections.filter(|it| it.is_server_open && it.is_client_open);
        open.map(|it| it.name.clone()).collect()
    }

    pub(super) fn set_delay_max(&mut self, delay: Duration) {
        self.delay_max_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX / 2);
        self.delay_min_ns = self.delay_min_ns.min(self.delay_max_ns);
    }
}
