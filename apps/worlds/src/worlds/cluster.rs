//! Nodes with a directory over one NATS, while nodes are killed and paused, clocks are wrong, connections to NATS break, and
//! NATS restarts, also without its data.
//!
//! It holds: of each key, at most one activation has a valid lease; what an activation writes follows what the last one wrote; an
//! answered deposit is there once; a published actor's mailbox never overflows, because its senders have credit. When the
//! faults are over, every node reaches every key.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    time::Duration,
};

use freeboard::{
    prelude::*,
    remote::{
        Epoch, Fence, Node, NodeOptions, PublishOptions, RemoteAskError, RemoteDirectory,
        RemoteDirectoryOptions, RemoteMessage, RemoteStore, simulated::SimulatedNats,
    },
    sim::{FaultRates, Machine, World},
};
use serde::{Deserialize, Serialize};

use crate::record::{Mistakes, Record};

const SETTLE_TIME: Duration = Duration::from_secs(10);
const PARTITIONS: u32 = 8;
const KEYS: u64 = 12;
/// For each key, when the faults are over.
const ATTEMPTS: usize = 3;
const PARTITION_TIME_MAX: Duration = Duration::from_secs(4);
/// The bound of the published actor, which refuses above it.
const SINK_BOUND: usize = 4;

/// Adds one; the number is the client's, and comes once.
#[derive(Serialize, Deserialize, RemoteMessage)]
#[remote(name = "worlds.deposit", reply = bool)]
struct Deposit(u64);

#[derive(Serialize, Deserialize, RemoteMessage)]
#[remote(name = "worlds.sample")]
struct Sample(u64);

/// A database row: what was written last.
#[derive(Default)]
struct Row {
    epoch: Epoch,
    deposits: Vec<u64>,
}

#[derive(Default)]
struct Ledger {
    rows: BTreeMap<u64, Row>,
    /// Activations that live, by key: their node, its start, and their fences.
    living: BTreeMap<u64, Vec<(usize, u64, Fence)>>,
    /// The present start of each node.
    starts: BTreeMap<usize, u64>,
    sent: u64,
    answered: BTreeSet<u64>,
}

#[derive(Clone)]
struct Shared {
    ledger: Record<Ledger>,
    mistakes: Mistakes,
    nats: SimulatedNats,
    period: Duration,
    lease: Duration,
}

struct Account {
    key: u64,
    deposits: Vec<u64>,
    fence: Fence,
    shared: Shared,
    place: (usize, u64),
}

impl Account {
    /// Replaces the row, as a database that compares epochs.
    fn write(&mut self, number: u64) -> bool {
        let ledger = &mut *self.shared.ledger.lock();
        let row = ledger.rows.entry(self.key).or_default();
        if self.fence.epoch() < row.epoch {
            return false;
        }
        if row.deposits != self.deposits {
            let (key, node) = (self.key, self.place.0);
            let text = format!("key {key}: node {node} writes over what it has not read");
            self.shared.mistakes.note(text);
        }
        row.epoch = self.fence.epoch();
        row.deposits.push(number);
        self.deposits.push(number);
        true
    }
}

impl Actor for Account {}

impl Handler<Deposit> for Account {
    type Reply = bool;

    fn handle(&mut self, deposit: Deposit, cx: &mut Context<Self>) -> bool {
        let is_written = self.write(deposit.0);
        if !is_written {
            cx.stop();
        }
        is_written
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let ledger = &mut *self.shared.ledger.lock();
        if let Some(living) = ledger.living.get_mut(&self.key) {
            let own = (self.place.0, self.place.1, self.fence.epoch());
            living.retain(|it| (it.0, it.1, it.2.epoch()) != own);
        }
    }
}

struct Accounts {
    shared: Shared,
    place: (usize, u64),
}

impl RemoteStore<u64, Account> for Accounts {
    type Error = String;

    fn load(&self, key: &u64, fence: &Fence) -> Result<Account, String> {
        let ledger = &mut *self.shared.ledger.lock();
        let row = ledger.rows.entry(*key).or_default();
        if fence.epoch() < row.epoch {
            return Err("an older epoch".to_owned());
        }
        row.epoch = fence.epoch();
        let living = ledger.living.entry(*key).or_default();
        living.push((self.place.0, self.place.1, fence.clone()));
        Ok(Account {
            key: *key,
            deposits: row.deposits.clone(),
            fence: fence.clone(),
            shared: self.shared.clone(),
            place: self.place,
        })
    }

    fn save(&self, _: &u64, _: &Fence, _: &mut Account) -> Result<(), String> {
        // Each deposit was written at once.
        Ok(())
    }
}

/// Takes samples slowly.
struct Sink;

impl Actor for Sink {}

impl Handler<Sample> for Sink {
    type Reply = ();

    fn handle(&mut self, _: Sample, cx: &mut Context<Self>) {
        cx.pause_handling(0);
        cx.wake_after(Duration::from_millis(20), |_, cx| cx.resume_lane(0))
            .expect("a timer");
    }
}

type Bank = RemoteDirectory<u64, Account>;

/// A node that is up. It may have failed to join, if it could not reach NATS.
#[derive(Clone)]
struct Member {
    node: Node,
    bank: Bank,
    sink: Option<ActorRef<Sink>>,
    client: ActorRef<Client>,
}

struct Client {
    shared: Shared,
    id: usize,
    bank: Bank,
    to_sink: freeboard::remote::RemoteRef<Sample>,
    turn: u64,
}

struct Replied(u64, bool);

impl Client {
    fn tick(&mut self, cx: &mut Context<Self>) {
        let number = {
            let mut ledger = self.shared.ledger.lock();
            ledger.sent += 1;
            ledger.sent
        };
        self.turn += 1;
        let key = (number * 7 + self.id as u64) % KEYS;
        let asked = self.bank.ask(&key, Deposit(number));
        let asked = asked.timeout(Duration::from_secs(3));
        // A piped future runs as steps of the simulation.
        let replied = cx.pipe(asked, move |outcome| Replied(number, outcome == Ok(true)));
        replied.expect("the simulation runs futures");
        // Without capacity it is refused.
        let _ = self.to_sink.try_tell(Sample(number));
        cx.wake_after(self.shared.period, Self::tick)
            .expect("a timer");
    }
}

impl Actor for Client {
    fn started(&mut self, cx: &mut Context<Self>) {
        cx.wake_after(self.shared.period, Self::tick)
            .expect("a timer");
    }
}

impl Handler<Replied> for Client {
    type Reply = ();

    fn handle(&mut self, Replied(number, is_written): Replied, _: &mut Context<Self>) {
        if is_written {
            self.shared.ledger.lock().answered.insert(number);
        }
    }
}

fn start(machine: &Machine, id: usize, shared: &Shared) -> Option<Member> {
    let place = (id, machine.starts);
    shared.ledger.lock().starts.insert(id, machine.starts);
    let engine = std::sync::Arc::new(shared.nats.engine(&format!("node-{id}")));
    let options = NodeOptions::new("")
        .name(format!("node-{id}"))
        .connect_time(Duration::from_secs(60))
        .seed(id as u64 * 1_000 + machine.starts);
    let node = Node::join_over(&machine.system, engine, options).ok()?;
    let sink = (id == 0).then(|| {
        let lane = LaneConfig::bounded(SINK_BOUND).overload(Overload::Reject);
        let options = SpawnOptions::new().lane(lane);
        let sink = machine.system.spawn_once(options, Sink).expect("valid");
        let window = PublishOptions::new().window(SINK_BOUND as u64, 10_000);
        node.publish_with::<Sample, _>("sink", &sink, window)
            .expect("published");
        sink
    });
    let options = RemoteDirectoryOptions::new("bank")
        .partitions(PARTITIONS)
        .lease(shared.lease)
        .idle_after(Duration::from_secs(5))
        .accept::<Deposit>();
    let store = Accounts {
        shared: shared.clone(),
        place,
    };
    let bank = node.directory(options, store).expect("valid options");
    let client = Client {
        shared: shared.clone(),
        id,
        bank: bank.clone(),
        to_sink: node.remote("sink").expect("a valid name"),
        turn: 0,
    };
    let client = machine.system.spawn_once(SpawnOptions::new(), client);
    Some(Member {
        node,
        bank,
        sink,
        client: client.expect("valid options"),
    })
}

/// Of each key, one activation at most has a valid lease.
fn check_activations(ledger: &Ledger) -> Result<(), String> {
    for (key, living) in &ledger.living {
        let present = living.iter().filter(|(node, start, fence)| {
            ledger.starts.get(node) == Some(start) && fence.is_valid()
        });
        let mut nodes: Vec<_> = present.map(|it| (it.0, it.2.epoch())).collect();
        nodes.dedup();
        if nodes.len() > 1 {
            return Err(format!("key {key} has valid activations on {nodes:?}"));
        }
    }
    Ok(())
}

/// How long a run has faults, and how many.
struct Weather {
    nodes: RangeInclusive<usize>,
    lease: Duration,
    time: Duration,
    rates: FaultRates,
    /// Faults of NATS: lost and cut connections, restarts.
    nats_faults: RangeInclusive<usize>,
}

pub(crate) fn run(world: &mut World) {
    let weather = Weather {
        nodes: 2..=3,
        lease: Duration::from_secs(2),
        time: Duration::from_secs(12),
        rates: FaultRates {
            kills: 6.0,
            pauses: 6.0,
            skews: 3.0,
            slow_actors: 1.0,
            late_wakeups: 3.0,
            ..FaultRates::default()
        },
        nats_faults: 0..=6,
    };
    run_in(world, weather);
}

/// A fault each half second, and a short lease.
pub(crate) fn storm(world: &mut World) {
    let weather = Weather {
        nodes: 4..=6,
        lease: Duration::from_millis(500),
        time: Duration::from_secs(60),
        rates: FaultRates {
            kills: 40.0,
            pauses: 40.0,
            ..FaultRates::default()
        },
        nats_faults: 30..=50,
    };
    run_in(world, weather);
}

fn run_in(world: &mut World, weather: Weather) {
    let shared = Shared {
        ledger: Record::default(),
        mistakes: Mistakes::watched(world),
        nats: SimulatedNats::new(world.executor(), world.random("nats").number()),
        period: Duration::from_millis(world.size("period_ms", 100..=800) as u64),
        lease: weather.lease,
    };
    let ledger = shared.ledger.clone();
    world.invariant("a key has one activation with a valid lease", move || {
        check_activations(&ledger.lock())
    });
    let count = world.size("nodes", weather.nodes);
    let nodes: Vec<_> = (0..count)
        .map(|id| {
            let shared = shared.clone();
            world.node(&format!("node-{id}"), move |machine| {
                start(machine, id, &shared)
            })
        })
        .collect();
    world.inject(weather.rates, weather.time);
    let mut random = world.random("faults of nats");
    for _ in 0..world.size("nats_faults", weather.nats_faults) {
        let (node, nats) = (random.within(0..=count - 1), shared.nats.clone());
        let (name, after) = (format!("node-{node}"), random.time(weather.time));
        match random.within(0..=6) {
            0 => {
                let keeps_data = random.within(0..=1) == 1;
                let text = format!("NATS restarts with its data: {keeps_data}");
                world.fault(&text, after, move || nats.restart(keeps_data));
            }
            1 | 2 => {
                let text = format!("{name} loses its connection to NATS");
                world.fault(&text, after, move || nats.lose_connection(&name));
            }
            _ => {
                let time = random.time(PARTITION_TIME_MAX);
                let text = format!("{name} is cut off from NATS for {time:?}");
                world.fault(&text, after, move || nats.partition_for(&name, time));
            }
        }
    }
    world.advance(weather.time);
    for id in 0..count {
        shared.nats.heal(&format!("node-{id}"));
    }
    world.end_faults();
    // A node that lost its name or could not join starts again.
    for node in &nodes {
        let is_in = |member: Option<Member>| member.is_some_and(|it| !it.node.has_left());
        if !is_in(node.state().flatten()) {
            node.kill();
            node.start();
        }
    }
    world.advance(SETTLE_TIME);
    for (id, node) in nodes.iter().enumerate() {
        let member = node.state().flatten().expect("it has joined");
        for key in 0..KEYS {
            // The first message of a session whose other side has ended unheard is lost.
            let mut attempts = (0..ATTEMPTS).map(|_| {
                let number = {
                    let mut ledger = shared.ledger.lock();
                    ledger.sent += 1;
                    ledger.sent
                };
                let ask = member.bank.ask(&key, Deposit(number));
                let outcome = ask.timeout(Duration::from_secs(10)).wait();
                if outcome == Ok(true) {
                    shared.ledger.lock().answered.insert(number);
                }
                outcome
            });
            let may_repeat = |it: &Result<bool, RemoteAskError>| {
                matches!(it, Err(RemoteAskError::Lost(_) | RemoteAskError::Stale(_)))
            };
            let outcome = attempts.find(|it| !may_repeat(it));
            assert_eq!(
                outcome,
                Some(Ok(true)),
                "node {id}, key {key}, after the faults"
            );
        }
        assert!(member.client.is_alive());
        if let Some(sink) = &member.sink {
            let lane = &sink.snapshot().lanes[0];
            let full = lane.shed.iter().find(|it| it.reason == "full");
            assert!(
                full.is_none_or(|it| it.count == 0),
                "messages with credit found no capacity: {lane:?}"
            );
        }
    }
    let ledger = shared.ledger.lock();
    let all: Vec<_> = ledger.rows.values().flat_map(|row| &row.deposits).collect();
    let unique: BTreeSet<_> = all.iter().copied().copied().collect();
    assert_eq!(all.len(), unique.len(), "a deposit is there twice");
    let missing = ledger.answered.difference(&unique).next();
    assert_eq!(missing, None, "an answered deposit is missing");
}
