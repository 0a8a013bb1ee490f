//! Clients of one Redis send commands, while connections break and nodes crash.
//!
//! It holds: each command has one outcome, and a reply is that of its command; a command that is said to be unsent was not
//! executed, and no command was executed twice; one connection executes commands in order; a value that was set is found
//! until the server ends. Afterwards the clients and their subscriptions are back.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use freeboard::{
    ActorRef,
    flow::Backoff,
    net::{
        bytes::Bytes,
        proxy::{Proxy, ProxyOptions},
    },
    prelude::*,
    redis::{Command, PubSub, Redis, RedisError, RedisOptions, Subscription},
    redis_embedded::{EmbeddedOptions, Password, RedisEmbedded},
    sim::{FaultRates, Machine, World},
};

use crate::record::{Mistakes, Record};

pub(super) const PORT: u16 = 6_379;
const RUN_TIME: Duration = Duration::from_secs(8);
/// A half-open connection is replaced within it.
const SETTLE_TIME: Duration = Duration::from_secs(12);
const LAST_TIME: Duration = Duration::from_secs(3);
/// Commands in flight on a connection.
const CREDIT: usize = 24;
const CHANNEL: &str = "marks";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The reply is its number.
    Ping,
    /// Sets the client's own key to its number.
    Set,
    /// Gets the client's own key.
    Get,
    /// Publishes its number: each execution shows.
    Publish,
}

const KINDS: [Kind; 4] = [Kind::Ping, Kind::Set, Kind::Get, Kind::Publish];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Executed,
    Unsent,
    /// Lost, or timed out.
    Unknown,
}

/// A command that was submitted. Its number is its index.
#[derive(Clone, Copy, Debug)]
struct Submitted {
    client: usize,
    /// The start of the client's node.
    client_start: u64,
    /// How often the client had connected.
    connects: u64,
    /// The start of the server's node.
    server_start: u64,
    kind: Kind,
    outcome: Option<Known>,
    /// Whether it was seen to be executed.
    is_seen: bool,
    /// Whether it must succeed.
    is_last: bool,
    /// The last number that the client had set before, with this server.
    set_before: Option<usize>,
}

#[derive(Debug, Default)]
struct Account {
    commands: Vec<Submitted>,
    server_start: u64,
    /// Subscribers that have seen a mark: the client, its start, and the mark.
    seen: BTreeSet<(usize, u64, usize)>,
}

impl Account {
    /// The command with the number in a reply or a message.
    fn named(&mut self, text: &[u8]) -> Option<(usize, &mut Submitted)> {
        let number = std::str::from_utf8(text).ok()?.parse::<usize>().ok()?;
        Some((number, self.commands.get_mut(number)?))
    }
}

#[derive(Clone)]
struct Shared {
    account: Record<Account>,
    mistakes: Mistakes,
    connections: usize,
    bursts: usize,
    burst: usize,
    period: Duration,
}

struct Client {
    shared: Shared,
    id: usize,
    start: u64,
    redis: Redis,
    bursts: usize,
    /// The last number that was set, and the server's start at that time.
    set: Option<(usize, u64)>,
    /// The last mark of each connection: a client, its start, and its connects.
    marks: BTreeMap<(usize, u64, u64), usize>,
    subscription: Option<Subscription>,
}

struct Replied {
    number: usize,
    outcome: Result<Option<Bytes>, RedisError>,
}

/// Sends a command of each kind, which must succeed.
#[derive(Clone)]
struct Last;

impl Client {
    fn key(&self) -> String {
        format!("of-{}", self.id)
    }

    fn burst(&mut self, cx: &mut Context<Self>) {
        for _ in 0..self.shared.burst {
            let count = self.shared.account.lock().commands.len();
            self.send(KINDS[count % KINDS.len()], false, cx);
        }
        self.bursts += 1;
        if self.bursts < self.shared.bursts {
            let period = self.shared.period;
            cx.wake_after(period, Self::burst).expect("a timer");
        }
    }

    fn send(&mut self, kind: Kind, is_last: bool, cx: &Context<Self>) {
        let connects = self.redis.snapshot().connections;
        let number = {
            let mut account = self.shared.account.lock();
            let server_start = account.server_start;
            let set = self.set.filter(|(_, start)| *start == server_start);
            account.commands.push(Submitted {
                client: self.id,
                client_start: self.start,
                connects: connects.iter().map(|it| it.connects).sum(),
                server_start,
                kind,
                outcome: None,
                is_seen: false,
                is_last,
                set_before: set.map(|(number, _)| number),
            });
            account.commands.len() - 1
        };
        let text = number.to_string();
        let command = match kind {
            Kind::Ping => Command::new("PING").arg(text),
            Kind::Set => Command::new("SET").key(self.key()).arg(text),
            Kind::Get => Command::new("GET").key(self.key()),
            Kind::Publish => Command::new("PUBLISH").arg(CHANNEL).arg(text),
        };
        let me = cx.actor_ref().recipient();
        let told = move |outcome| Replied { number, outcome };
        match kind {
            Kind::Publish => {
                let counted = self.redis.cmd::<u64>(command);
                counted.tell(&me, move |outcome| told(outcome.map(|_| None)));
            }
            Kind::Ping | Kind::Set | Kind::Get => {
                self.redis.cmd::<Option<Bytes>>(command).tell(&me, told);
            }
        }
    }

    /// Checks a value of the client's own key.
    fn check_value(&self, number: usize, value: Option<&Bytes>) -> Result<(), String> {
        let account = &mut *self.shared.account.lock();
        let get = account.commands[number];
        let is_same_server = get.server_start == account.server_start;
        let Some(value) = value else {
            return match get.set_before.filter(|_| is_same_server) {
                Some(set) => Err(format!("nothing, but {set} was set")),
                None => Ok(()),
            };
        };
        let Some((found, set)) = account.named(value) else {
            return Err(format!("{value:?} was not set"));
        };
        if set.client != self.id || set.kind != Kind::Set {
            return Err(format!("{found} is another command: {set:?}"));
        }
        if set.outcome == Some(Known::Unsent) {
            return Err(format!("{found}, which was not sent"));
        }
        set.is_seen = true;
        let is_old = get.set_before.is_some_and(|before| found < before);
        // One without a reply may be executed late, from an earlier connection.
        if is_old && is_same_server && set.outcome == Some(Known::Executed) {
            return Err(format!("{found}, but {:?} was set later", get.set_before));
        }
        Ok(())
    }

    fn check_reply(&mut self, number: usize, reply: Option<&Bytes>) -> Result<(), String> {
        let command = self.shared.account.lock().commands[number];
        match command.kind {
            Kind::Ping if reply.is_some_and(|it| *it == number.to_string()) => Ok(()),
            Kind::Ping => Err(format!("{reply:?}")),
            Kind::Set if reply.is_some_and(|it| *it == "OK") => {
                let server_start = self.shared.account.lock().server_start;
                if command.server_start == server_start {
                    self.set = Some((number, server_start));
                }
                Ok(())
            }
            Kind::Set => Err(format!("{reply:?}")),
            Kind::Get => self.check_value(number, reply),
            Kind::Publish => Ok(()),
        }
    }

    fn check(
        &mut self,
        number: usize,
        outcome: Result<Option<Bytes>, RedisError>,
    ) -> Result<(), String> {
        let known = match &outcome {
            Ok(_) => Known::Executed,
            Err(error) if error.is_unsent() => Known::Unsent,
            Err(RedisError::Lost(_) | RedisError::TimedOut) => Known::Unknown,
            Err(error) => return Err(error.to_string()),
        };
        let before = {
            let command = &mut self.shared.account.lock().commands[number];
            command.outcome.replace(known)
        };
        if before.is_some() {
            return Err(format!("a second outcome: {outcome:?}"));
        }
        let command = self.shared.account.lock().commands[number];
        match outcome {
            Ok(reply) => self.check_reply(number, reply.as_ref()),
            Err(error) if command.is_last => Err(format!("after the faults: {error}")),
            Err(error) if command.is_seen && known == Known::Unsent => {
                Err(format!("executed, but {error}"))
            }
            Err(_) => Ok(()),
        }
    }

    /// A mark was published.
    fn check_mark(&mut self, payload: &Bytes) -> Result<(), String> {
        let account = &mut *self.shared.account.lock();
        let Some((number, published)) = account.named(payload) else {
            return Err(format!("{payload:?} was not published"));
        };
        let Submitted {
            client,
            client_start,
            connects,
            outcome,
            ..
        } = *published;
        published.is_seen = true;
        if published.kind != Kind::Publish || outcome == Some(Known::Unsent) {
            return Err(format!("{number} was not published: {published:?}"));
        }
        if !account.seen.insert((self.id, self.start, number)) {
            return Err(format!("{number} was published twice"));
        }
        if self.shared.connections > 1 {
            return Ok(());
        }
        let connection = (client, client_start, connects);
        match self.marks.insert(connection, number) {
            Some(last) if last > number => Err(format!("{number} after {last} on one connection")),
            _ => Ok(()),
        }
    }

    fn noted(&self, what: &str, checked: Result<(), String>) {
        if let Err(text) = checked {
            self.shared
                .mistakes
                .note(format!("client {}, {what}: {text}", self.id));
        }
    }
}

impl Actor for Client {
    fn started(&mut self, cx: &mut Context<Self>) {
        let me = cx.actor_ref().recipient();
        let subscription = self.redis.subscribe(CHANNEL, me);
        self.subscription = Some(subscription.expect("a subscription"));
        cx.wake_after(self.shared.period, Self::burst)
            .expect("a timer");
    }
}

impl Handler<Replied> for Client {
    type Reply = ();

    fn handle(&mut self, Replied { number, outcome }: Replied, _: &mut Context<Self>) {
        let checked = self.check(number, outcome);
        self.noted(&format!("command {number}"), checked);
    }
}

impl Handler<PubSub> for Client {
    type Reply = ();

    fn handle(&mut self, message: PubSub, _: &mut Context<Self>) {
        if let PubSub::Message { payload, .. } = message {
            let checked = self.check_mark(&payload);
            self.noted("subscription", checked);
        }
    }
}

impl Handler<Last> for Client {
    type Reply = ();

    fn handle(&mut self, _: Last, cx: &mut Context<Self>) {
        for kind in KINDS {
            self.send(kind, true, cx);
        }
    }
}

/// A server, and the proxy by which other nodes reach it.
pub(super) type Server = Arc<(RedisEmbedded, Proxy)>;

pub(super) fn start_server(machine: &Machine) -> Server {
    let Machine {
        system,
        poller,
        host,
        ..
    } = machine;
    let options = EmbeddedOptions {
        password: Password::None,
        seed: Some(machine.starts),
        ..EmbeddedOptions::default()
    };
    let server = RedisEmbedded::start(system, poller, options).expect("a free port");
    let (at, proxy) = (host.at(PORT), ProxyOptions::default());
    let proxy = Proxy::bind(system, poller, at, server.address(), proxy).expect("a free port");
    Arc::new((server, proxy))
}

pub(super) fn connect(machine: &Machine, server: SocketAddr, options: RedisOptions) -> Redis {
    let options = RedisOptions {
        host: server.ip().to_string(),
        port: server.port(),
        idle: Duration::from_secs(4),
        backoff: Backoff {
            min_ns: 10_000_000,
            max_ns: 1_000_000_000,
            factor: 2,
        },
        seed: Some(machine.starts),
        ..options
    };
    Redis::connect(&machine.system, &machine.poller, options).expect("valid options")
}

pub(super) fn rates() -> FaultRates {
    FaultRates {
        kills: 6.0,
        pauses: 6.0,
        partitions: 6.0,
        resets: 12.0,
        silences: 6.0,
        slow_links: 12.0,
        slow_actors: 3.0,
        late_wakeups: 6.0,
        ..FaultRates::default()
    }
}

pub(crate) fn run(world: &mut World) {
    let shared = Shared {
        account: Record::default(),
        mistakes: Mistakes::watched(world),
        connections: world.size("connections", 1..=2),
        bursts: world.size("bursts", 1..=12),
        burst: world.size("burst", 1..=8),
        period: Duration::from_millis(world.size("period_ms", 1..=800) as u64),
    };
    let account = shared.account.clone();
    let server = world.node("server", move |machine| {
        account.lock().server_start = machine.starts;
        start_server(machine)
    });
    let clients = world.size("clients", 1..=2);
    let clients: Vec<_> = (0..clients)
        .map(|id| {
            let (shared, at) = (shared.clone(), server.at(PORT));
            world.node(&format!("client-{id}"), move |machine| {
                let options = RedisOptions {
                    connections: shared.connections,
                    credit_commands: CREDIT,
                    ..RedisOptions::default()
                };
                let client = Client {
                    shared: shared.clone(),
                    id,
                    start: machine.starts,
                    redis: connect(machine, at, options),
                    bursts: 0,
                    set: None,
                    marks: BTreeMap::new(),
                    subscription: None,
                };
                let options = SpawnOptions::new().lane(LaneConfig::bounded(1_024));
                let client = machine.system.spawn_once(options, client);
                let client: ActorRef<Client> = client.expect("valid options");
                (client, machine.starts)
            })
        })
        .collect();
    world.inject(rates(), RUN_TIME);
    world.advance(RUN_TIME);
    world.end_faults();
    world.advance(SETTLE_TIME);
    for client in &clients {
        let (client, _) = client.state().expect("it is up");
        client.tell(Last).expect("it is alive");
    }
    world.advance(LAST_TIME);

    let account = shared.account.lock();
    let starts: Vec<_> = clients
        .iter()
        .map(|it| it.state().expect("it is up").1)
        .collect();
    for (number, command) in account.commands.iter().enumerate() {
        let is_here = starts[command.client] == command.client_start;
        assert!(
            command.outcome.is_some() || !is_here,
            "command {number} has no outcome: {command:?}"
        );
        if command.is_last && command.kind == Kind::Publish {
            for (client, start) in starts.iter().enumerate() {
                let is_seen = account.seen.contains(&(client, *start, number));
                assert!(is_seen, "client {client} did not get message {number}");
            }
        }
    }
    drop(account);
}
