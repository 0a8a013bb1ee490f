//! Clients on other nodes get, put and delete the keys of a store, while nodes crash, links break and its disk fails.
//!
//! ```text
//!   client ──"put apple 7"──▶ Front ──▶ Kvs ──▶ stream on the node's disk
//!          ◀──"ok"───────────   │ replies when it is durable
//! ```
//!
//! It holds: the operations on each key are linearizable, so that no acknowledged change is lost.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use freeboard::{
    ActorId,
    net::tcp::{
        Connection, ConnectionEvent, ConnectionOptions, Event, Listener, ListenerOptions,
        ReadCredit, Write,
    },
    platform::thread,
    prelude::*,
    sim::{FaultRates, Machine, Random, World},
    stream::{OpenError, ReadError, SnapshotError, storage::simulated::SimulatedSettings},
};
use freeboard_kvs::{Command, Condition, Kvs, KvsError, KvsOptions, Reply};

use crate::{
    client::{Client, PATIENCE, Requests},
    linearizability::{Action, Operation, is_linearizable},
    record::{Mistakes, Record},
};

const RUN_TIME: Duration = Duration::from_secs(4);

/// The store is looked at so often; it is started again if a write has failed.
const WATCH_PERIOD: Duration = Duration::from_millis(200);

/// The pause before an attempt to open that failed is repeated.
const PAUSE: Duration = Duration::from_millis(20);

/// In different ranges.
const KEYS: [&str; 2] = ["apple", "zebra"];

const PORT: u16 = 7;

/// What clients have done.
#[derive(Debug, Default)]
struct History {
    operations: [Vec<Operation>; KEYS.len()],
    /// Counts calls and returns.
    clock: u64,
    /// How many operations may still be called.
    left: usize,
    /// Values that were put.
    last_value: u32,
    /// A write of the store has failed: it must be started again.
    is_down: bool,
}

/// A place in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    key: usize,
    index: usize,
}

impl History {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn call(&mut self, key: usize, action: Action) -> Call {
        let called = self.tick();
        let operations = &mut self.operations[key];
        operations.push(Operation {
            action,
            called,
            returned: u64::MAX,
        });
        let index = operations.len() - 1;
        Call { key, index }
    }

    /// Notes a reply. `Err` if it is none of this operation's.
    fn replied(&mut self, call: Call, reply: &str) -> Result<(), String> {
        let now = self.tick();
        let operation = &mut self.operations[call.key][call.index];
        operation.action = match (&operation.action, reply) {
            (_, "error") => {
                // It may have been done or not.
                self.is_down = true;
                return Ok(());
            }
            (Action::Put(value), "ok") => Action::Put(*value),
            (Action::Get(_), "none") => Action::Get(None),
            (Action::Delete(_), "0" | "1") => Action::Delete(Some(reply == "1")),
            (Action::Get(_), value) => {
                let value = value.strip_prefix('=').and_then(|it| it.parse().ok());
                Action::Get(Some(value.ok_or_else(|| format!("`{reply}` is no value"))?))
            }
            (action, _) => return Err(format!("`{reply}` is no reply to {action:?}")),
        };
        operation.returned = now;
        Ok(())
    }
}

/// Does what a line says, and returns the reply's line.
async fn serve(store: Arc<Kvs>, line: String) -> String {
    let words = line.split_whitespace();
    let words: Vec<_> = words
        .map(|word| Bytes::copy_from_slice(word.as_bytes()))
        .collect();
    let (key, command) = match &words[..] {
        [what, key] if what == "get" => (key, Command::Get(key.clone())),
        [what, key, value] if what == "put" => {
            let put = Command::Put(key.clone(), value.clone(), Condition::Always);
            (key, put)
        }
        [what, key] if what == "delete" => (key, Command::Delete(key.clone())),
        _ => return "error\n".to_owned(),
    };
    match store.request(key, command).await.await {
        Ok(Reply::Ok) => "ok\n".to_owned(),
        Ok(Reply::Null) => "none\n".to_owned(),
        Ok(Reply::Integer(number)) => format!("{number}\n"),
        Ok(Reply::Value(value)) => format!("={}\n", String::from_utf8_lossy(&value)),
        _ => "error\n".to_owned(),
    }
}

/// Collects lines out of what arrives.
#[derive(Debug, Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, bytes: &[u8]) -> Vec<String> {
        self.0.push_str(&String::from_utf8_lossy(bytes));
        let Some(end) = self.0.rfind('\n') else {
            return Vec::new();
        };
        let rest = self.0.split_off(end + 1);
        let lines = std::mem::replace(&mut self.0, rest);
        lines.lines().map(str::to_owned).collect()
    }
}

/// Serves all connections.
struct Front {
    store: Arc<Kvs>,
    lines: BTreeMap<ActorId, Lines>,
}

struct Served(ActorRef<Connection>, String);

impl Actor for Front {}

impl Handler<ConnectionEvent> for Front {
    type Reply = ();

    fn handle(&mut self, event: ConnectionEvent, cx: &mut Context<Self>) {
        let ConnectionEvent { connection, event } = event;
        match event {
            Event::Received(bytes) => {
                let lines = self.lines.entry(connection.id()).or_default();
                for line in lines.add(&bytes) {
                    let to = connection.clone();
                    let served = serve(self.store.clone(), line);
                    let piped = cx.pipe(served, move |reply| Served(to, reply));
                    piped.expect("the simulation polls it");
                }
                _ = connection.try_tell_lane(Connection::CONTROL_LANE, ReadCredit(1));
            }
            Event::Closed(_) => _ = self.lines.remove(&connection.id()),
            _ => {}
        }
    }
}

impl Handler<Served> for Front {
    type Reply = ();

    fn handle(&mut self, Served(connection, reply): Served, _: &mut Context<Self>) {
        // The client may have gone.
        _ = connection.try_tell(Write(reply.into()));
    }
}

/// The operations of a client.
struct Operations {
    history: Record<History>,
    mistakes: Mistakes,
    lines: Lines,
    /// What waits for its reply.
    call: Option<Call>,
}

impl Requests for Operations {
    fn has_more(&self) -> bool {
        self.history.lock().left > 0
    }

    fn begin(&mut self) {
        self.lines = Lines::default();
        self.call = None;
    }

    fn next(&mut self, random: &mut Random) -> Option<(String, bool)> {
        let mut history = self.history.lock();
        history.left = history.left.checked_sub(1)?;
        let key = random.below(KEYS.len());
        let name = KEYS[key];
        let (action, line) = match random.below(5) {
            0 | 1 => (Action::Get(None), format!("get {name}\n")),
            2 => (Action::Delete(None), format!("delete {name}\n")),
            _ => {
                history.last_value += 1;
                let value = history.last_value;
                (Action::Put(value), format!("put {name} {value}\n"))
            }
        };
        self.call = Some(history.call(key, action));
        Some((line, true))
    }

    fn received(&mut self, bytes: &[u8]) -> bool {
        let replies = self.lines.add(bytes);
        for reply in &replies {
            let replied = match self.call.take() {
                Some(call) => self.history.lock().replied(call, reply),
                None => Err(format!("`{reply}` came, and nothing was asked")),
            };
            if let Err(text) = replied {
                self.mistakes.note(text);
            }
        }
        !replies.is_empty()
    }
}

/// Whether a later attempt to open may succeed.
fn may_pass(error: &KvsError) -> bool {
    matches!(
        error,
        KvsError::Open(OpenError::Io { .. })
            | KvsError::Read(ReadError::Io { .. })
            | KvsError::Snapshot(SnapshotError::Io { .. } | SnapshotError::Stream(_))
            | KvsError::Entries(_)
    )
}

fn open(machine: &Machine, mistakes: &Mistakes) -> Arc<Kvs> {
    let options = KvsOptions {
        splits: vec![Bytes::from("m")],
        snapshot_after: 4,
        segment_bytes: 64 << 10,
    };
    loop {
        let storage = Arc::new(machine.disk.clone());
        match Kvs::open_on(&machine.system, storage, &options) {
            Ok(store) => return Arc::new(store),
            Err(error) if may_pass(&error) => {}
            Err(error) => mistakes.note(format!("the store does not open: {error}")),
        }
        thread::sleep(PAUSE);
    }
}

pub(crate) fn run(world: &mut World) {
    let mistakes = Mistakes::watched(world);
    let history = Record::<History>::default();
    history.lock().left = world.size("operations", 1..=40);
    let clients = world.size("clients", 1..=4);
    let mut random = world.random("kvs");
    let disk = SimulatedSettings {
        seed: random.number(),
        latency_max: random.time(Duration::from_millis(5)),
        ..SimulatedSettings::default()
    };
    let noted = mistakes.clone();
    let store = world.node_with_disk("store", disk, move |machine| {
        let store = open(machine, &noted);
        let front = machine.system.spawn(Front {
            store: store.clone(),
            lines: BTreeMap::new(),
        });
        let (poller, options) = (machine.poller.clone(), ConnectionOptions::default());
        let serve = move |accepted, cx: &mut Context<_>| {
            let owner = front.recipient();
            Connection::spawn(accepted, &poller, options, owner, cx).map(drop)
        };
        let options = ListenerOptions::default();
        let address = machine.host.at(PORT);
        let bound = Listener::bind(&machine.system, &machine.poller, address, options, serve);
        bound.expect("the port is free");
        store
    });
    for number in 0..clients.min(2) {
        let (address, seed) = (store.at(PORT), random.number());
        let (history, mistakes) = (history.clone(), mistakes.clone());
        world.node(&format!("clients {number}"), move |machine| {
            for client in (number..clients).step_by(2) {
                let operations = Operations {
                    history: history.clone(),
                    mistakes: mistakes.clone(),
                    lines: Lines::default(),
                    call: None,
                };
                let random = Random::new(seed.wrapping_add(machine.starts), &client.to_string());
                let client = Client::new(&machine.poller, address, random, operations);
                machine.system.spawn(client);
            }
        });
    }
    let rates = FaultRates {
        kills: 20.0,
        power_losses: 20.0,
        pauses: 4.0,
        partitions: 6.0,
        resets: 20.0,
        silences: 6.0,
        slow_links: 6.0,
        disk_errors: 20.0,
        full_disks: 4.0,
        late_wakeups: 4.0,
        ..FaultRates::default()
    };
    world.inject(rates, RUN_TIME);
    let start_again = || {
        if std::mem::take(&mut history.lock().is_down) {
            store.kill();
            store.start();
        }
    };
    for _ in 0..RUN_TIME.as_millis() / WATCH_PERIOD.as_millis() {
        world.advance(WATCH_PERIOD);
        start_again();
    }
    world.end_faults();
    history.lock().left = 0;
    world.advance(PATIENCE + WATCH_PERIOD);
    // A write may have failed, and nobody was told.
    history.lock().is_down = true;
    start_again();
    world.run_until(|| store.state().is_some());

    let kvs = store.state().expect("it is up");
    for (key, name) in KEYS.iter().enumerate() {
        let call = history.lock().call(key, Action::Get(None));
        let reply = thread::block_on(serve(kvs.clone(), format!("get {name}")));
        let replied = history.lock().replied(call, reply.trim());
        replied.unwrap_or_else(|text| panic!("at the end: {text}"));
    }
    let history = history.lock();
    for (operations, name) in history.operations.iter().zip(KEYS) {
        assert!(
            is_linearizable(operations),
            "{name} is not linearizable: {operations:#?}"
        );
    }
    assert!(!history.is_down, "the store does not answer");
}
