//! Directories across nodes, on a simulated NATS: one activation of each key, epochs, moves, and leases that end.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    hash::{Hash, Hasher},
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use freeboard_actor::{Actor, Context, Handler};
use freeboard_remote::{
    Epoch, Fence, Node, RemoteAskError, RemoteDirectory, RemoteDirectoryOptions, RemoteMessage,
    RemoteStore, RemoteTellError,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::Error};

use crate::actors::Simulated;

const SEEDS: u64 = 10;
const HEARTBEAT: Duration = Duration::from_millis(500);
const LEASE: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize, Deserialize)]
struct Deposit(u64);

impl RemoteMessage for Deposit {
    const NAME: &'static str = "test.deposit";
    const VERSION: u32 = 1;
    /// The sum, and the node of the activation.
    type Reply = (u64, String);
}

thread_local! {
    /// Runs once, when a [`Hooked`] is hashed or decoded.
    static HOOK: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

fn set_hook(hook: impl FnOnce() + 'static) {
    HOOK.with_borrow_mut(|it| *it = Some(Box::new(hook)));
}

fn run_hook() {
    if let Some(hook) = HOOK.with_borrow_mut(Option::take) {
        hook();
    }
}

/// A key and a message that run the hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Hooked(u64);

impl Hash for Hooked {
    fn hash<H: Hasher>(&self, state: &mut H) {
        run_hook();
        self.0.hash(state);
    }
}

impl<'de> Deserialize<'de> for Hooked {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        run_hook();
        u64::deserialize(from).map(Self)
    }
}

impl RemoteMessage for Hooked {
    const NAME: &'static str = "test.hooked";
    const VERSION: u32 = 1;
    type Reply = (u64, String);
}

/// A database that refuses older epochs.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<Rows>>);

#[derive(Default)]
struct Rows {
    rows: BTreeMap<u64, (Epoch, u64)>,
    refused: u64,
    epochs: BTreeSet<(u64, Epoch)>,
}

impl Ledger {
    fn write(&self, key: u64, epoch: Epoch, sum: Option<u64>) -> Result<u64, String> {
        let mut rows = self.0.lock().expect("no panic");
        let row = rows.rows.entry(key).or_default();
        if epoch < row.0 {
            rows.refused += 1;
            return Err("an older epoch".to_owned());
        }
        *row = (epoch, sum.unwrap_or(row.1));
        let sum = row.1;
        rows.epochs.insert((key, epoch));
        Ok(sum)
    }

    fn sum(&self) -> u64 {
        let rows = self.0.lock().expect("no panic");
        rows.rows.values().map(|row| row.1).sum()
    }
}

struct Account {
    key: u64,
    sum: u64,
    node: String,
    fence: Fence,
    ledger: Ledger,
}

impl Actor for Account {}

impl Handler<Deposit> for Account {
    type Reply = (u64, String);

    fn handle(&mut self, deposit: Deposit, cx: &mut Context<Self>) -> Self::Reply {
        let sum = self.sum + deposit.0;
        match self.ledger.write(self.key, self.fence.epoch(), Some(sum)) {
            Ok(_) => self.sum = sum,
            Err(_) => cx.stop(),
        }
        (self.sum, self.node.clone())
    }
}

impl Handler<Hooked> for Account {
    type Reply = (u64, String);

    fn handle(&mut self, deposit: Hooked, cx: &mut Context<Self>) -> Self::Reply {
        Handler::handle(self, Deposit(deposit.0), cx)
    }
}

struct Accounts {
    node: String,
    ledger: Ledger,
}

impl RemoteStore<u64, Account> for Accounts {
    type Error = String;

    fn load(&self, key: &u64, fence: &Fence) -> Result<Account, String> {
        self.account(*key, fence)
    }

    fn save(&self, key: &u64, fence: &Fence, account: &mut Account) -> Result<(), String> {
        self.ledger
            .write(*key, fence.epoch(), Some(account.sum))
            .map(drop)
    }
}

impl Accounts {
    fn account(&self, key: u64, fence: &Fence) -> Result<Account, String> {
        // The read fences earlier epochs.
        let sum = self.ledger.write(key, fence.epoch(), None)?;
        Ok(Account {
            key,
            sum,
            node: self.node.clone(),
            fence: fence.clone(),
            ledger: self.ledger.clone(),
        })
    }
}

type Bank = RemoteDirectory<u64, Account>;

fn options() -> RemoteDirectoryOptions<u64, Account> {
    options_of("bank")
}

fn options_of(directory: &str) -> RemoteDirectoryOptions<u64, Account> {
    RemoteDirectoryOptions::new(directory)
        .partitions(16)
        .lease(LEASE)
        .idle_after(Duration::from_secs(30))
        .accept::<Deposit>()
}

fn bank(node: &Node, ledger: &Ledger) -> Bank {
    bank_with(options(), node, ledger)
}

fn bank_with(options: RemoteDirectoryOptions<u64, Account>, node: &Node, ledger: &Ledger) -> Bank {
    let store = accounts(node, ledger);
    node.directory(options, store).expect("valid options")
}

fn accounts(node: &Node, ledger: &Ledger) -> Accounts {
    Accounts {
        node: node.id().name.clone(),
        ledger: ledger.clone(),
    }
}

struct Cluster {
    world: Simulated,
    ledger: Ledger,
    nodes: Vec<(Node, Bank)>,
    /// Deposits by key: sent, and answered. A lost one may have been made.
    sent: RefCell<BTreeMap<u64, (u64, u64)>>,
}

impl Cluster {
    fn new(seed: u64, nodes: u64) -> Self {
        let mut cluster = Self {
            world: Simulated::new(seed),
            ledger: Ledger::default(),
            nodes: Vec::new(),
            sent: RefCell::default(),
        };
        for _ in 0..nodes {
            cluster.add(seed);
        }
        cluster
    }

    fn add(&mut self, seed: u64) {
        let number = self.nodes.len() as u64;
        let name = format!("node-{number}");
        let node = self.world.node(&name, seed * 100 + number);
        let bank = bank(&node, &self.ledger);
        self.nodes.push((node, bank));
        let (_, bank) = self.nodes.last().expect("just added");
        self.world.system.run_until(|| bank.trouble().is_none());
        // Until the others hear of its lease.
        self.world.system.advance(HEARTBEAT);
    }

    fn deposit(&self, at: usize, key: u64) -> Result<(u64, String), RemoteAskError> {
        self.deposit_within(Duration::from_secs(20), at, key)
    }

    fn deposit_within(
        &self,
        timeout: Duration,
        at: usize,
        key: u64,
    ) -> Result<(u64, String), RemoteAskError> {
        let ask = self.nodes[at].1.ask(&key, Deposit(1));
        let reply = ask.timeout(timeout).wait();
        let mut sent = self.sent.borrow_mut();
        let (sent, answered) = sent.entry(key).or_default();
        *sent += 1;
        *answered += u64::from(reply.is_ok());
        if let Ok((sum, _)) = &reply {
            assert!((*answered..=*sent).contains(sum), "{answered} {sum} {sent}");
        }
        reply
    }

    /// A message to a node that was just cut off is lost: it is sent again.
    fn deposit_again(&self, at: usize, key: u64) -> (u64, String) {
        for _ in 0..20 {
            match self.deposit(at, key) {
                Ok(reply) => return reply,
                Err(
                    RemoteAskError::Lost(_) | RemoteAskError::Down(_) | RemoteAskError::Stale(_),
                ) => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no reply of key {key}");
    }

    /// Partitions by how many nodes keep them.
    fn keepers(&self) -> BTreeMap<u32, usize> {
        let mut keepers = BTreeMap::new();
        for (_, bank) in &self.nodes {
            for (partition, _) in bank.partitions() {
                *keepers.entry(partition).or_default() += 1;
            }
        }
        keepers
    }
}

#[test]
fn a_key_has_one_activation_on_all_nodes() {
    for seed in 0..SEEDS {
        let cluster = Cluster::new(seed, 3);
        let mut places: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        for turn in 0..120_u64 {
            let key = turn % 40;
            let (sum, node) = cluster.deposit(turn as usize % 3, key).expect("a reply");
            assert_eq!(sum, turn / 40 + 1, "seed {seed}, key {key}");
            places.entry(key).or_default().insert(node);
        }
        assert!(
            places.values().all(|it| it.len() == 1),
            "seed {seed}: {places:?}"
        );
        let used: BTreeSet<_> = places.values().flatten().collect();
        assert_eq!(used.len(), 3, "seed {seed}: all nodes keep some");
        assert_eq!(cluster.ledger.sum(), 120);
        assert!(cluster.keepers().values().all(|it| *it == 1));
        let activations: usize = cluster.nodes.iter().map(|it| it.1.activations()).sum();
        assert_eq!(activations, 40);
    }
}

#[test]
fn partitions_move_when_nodes_come_and_leave_and_nothing_is_lost() {
    for seed in 0..SEEDS {
        let mut cluster = Cluster::new(seed, 1);
        for key in 0..40 {
            cluster.deposit(0, key).expect("a reply");
        }
        cluster.add(seed);
        let second = cluster.nodes[1].1.clone();
        for key in 0..40 {
            cluster.deposit(1, key).expect("a reply");
        }
        cluster.world.system.advance(Duration::from_secs(5));
        for key in 0..40 {
            let (sum, _) = cluster.deposit(0, key).expect("a reply");
            assert_eq!(sum, 3, "seed {seed}");
        }
        let moved = second.partitions().len();
        assert!((2..=14).contains(&moved), "seed {seed}: {moved} of 16");
        let (first, _) = cluster.nodes.remove(0);
        assert!(first.leave(Duration::from_secs(20)), "seed {seed}");
        for key in 0..40 {
            let (sum, node) = cluster.deposit(0, key).expect("a reply");
            assert_eq!((sum, node.as_str()), (4, "node-1"), "seed {seed}");
        }
    }
}

#[test]
fn a_node_that_only_sends_keeps_nothing_and_its_messages_wait_for_one_that_keeps() {
    for seed in 0..SEEDS {
        let mut cluster = Cluster::new(seed, 0);
        let node = cluster.world.node("front", seed);
        let front = bank_with(options().sends_only(), &node, &cluster.ledger);
        front.tell(&7, Deposit(1)).expect("it waits");
        cluster.sent.borrow_mut().insert(7, (1, 0));
        cluster.world.system.advance(Duration::from_secs(1));
        cluster.nodes.push((node, front));
        cluster.add(seed);
        let sum = || cluster.ledger.sum();
        cluster.world.system.run_until(|| sum() == 1);
        for key in 0..40 {
            let (_, keeper) = cluster.deposit_again(0, key);
            assert_eq!(keeper, "node-1", "seed {seed}");
        }
        cluster.add(seed);
        cluster.world.system.advance(Duration::from_secs(5));
        let keepers: BTreeSet<_> = (0..40).map(|key| cluster.deposit_again(0, key).1).collect();
        assert_eq!(keepers.len(), 2, "seed {seed}: {keepers:?}");
        assert!(cluster.nodes[0].1.partitions().is_empty(), "seed {seed}");
        assert!(cluster.keepers().values().all(|it| *it == 1));
    }
}

/// The keys of a directory and its nodes are not those of a directory whose name begins with its own.
#[test]
fn directories_whose_names_begin_alike_leave_each_other_alone() {
    let seeds = (0..SEEDS).flat_map(|seed| [(seed, "host/x"), (seed, "y")]);
    for (seed, name) in seeds {
        let mut cluster = Cluster::new(seed, 0);
        let node = cluster.world.node("x", seed * 100 + 1);
        let other = bank_with(options_of("bank/host"), &node, &Ledger::default());
        let node = cluster.world.node(name, seed * 100 + 2);
        let first = bank(&node, &cluster.ledger);
        cluster.nodes.push((node, first.clone()));
        let node = cluster.world.node("front", seed * 100 + 3);
        let front = bank_with(options().sends_only(), &node, &cluster.ledger);
        cluster.nodes.push((node, front));
        cluster.world.system.advance(Duration::from_secs(5));
        for key in 0..40 {
            let (_, keeper) = cluster.deposit(1, key).expect("a reply");
            assert_eq!(keeper, name, "seed {seed}");
            let (_, keeper) = other.ask(&key, Deposit(1)).wait().expect("a reply");
            assert_eq!(keeper, "x", "seed {seed}, {name}");
        }
        cluster.world.system.advance(Duration::from_secs(5));
        let releases = [&first, &other].map(|it| it.counters().releases);
        assert_eq!(releases, [0, 0], "seed {seed}, {name}");
    }
}

#[test]
fn the_entries_of_hosts_that_nobody_saw_go_down_are_deleted() {
    for seed in 0..SEEDS {
        let mut cluster = Cluster::new(seed, 2);
        for key in 0..40 {
            cluster.deposit(0, key).expect("a reply");
        }
        cluster.world.nats.partition("node-0");
        cluster.world.nats.partition("node-1");
        cluster.add(seed);
        let hosts = || {
            let entries = cluster.world.nats.entries("freeboard-names");
            let keys = entries.expect("a bucket").into_iter().map(|it| it.0);
            let hosts = keys.filter(|it| it.contains(".host."));
            hosts.collect::<BTreeSet<_>>()
        };
        let host = |number| format!("bank.host.node-{number}");
        assert!(hosts().contains(&host(0)), "seed {seed}: {:?}", hosts());
        cluster.world.until(|| hosts() == BTreeSet::from([host(2)]));
        // Those that come back announce themselves again.
        cluster.world.nats.heal("node-0");
        cluster
            .world
            .until(|| hosts() == BTreeSet::from([host(0), host(2)]));
        assert!(cluster.deposit(0, 7).is_ok(), "seed {seed}");
    }
}

#[test]
fn hosts_are_announced_again_when_the_server_has_lost_its_data() {
    for seed in 0..SEEDS {
        let mut cluster = Cluster::new(seed, 2);
        for key in 0..40 {
            cluster.deposit(0, key).expect("a reply");
        }
        cluster.world.nats.restart(false);
        cluster.world.system.advance(Duration::from_secs(10));
        for key in 0..40 {
            cluster.deposit_again(1, key);
        }
        let node = cluster.world.node("front", seed + 700);
        let front = bank_with(options().sends_only(), &node, &cluster.ledger);
        cluster.nodes.push((node, front));
        cluster.world.system.advance(Duration::from_secs(3));
        // Also those of partitions that nobody has claimed.
        for key in 100..200 {
            let reply = cluster.deposit(2, key);
            assert!(reply.is_ok(), "seed {seed}: {reply:?}");
        }
    }
}

#[test]
fn a_node_that_is_cut_off_stops_before_another_takes_over() {
    for seed in 0..SEEDS {
        let cluster = Cluster::new(seed, 3);
        for key in 0..40 {
            cluster.deposit(0, key).expect("a reply");
        }
        let bank = cluster.nodes[1].1.clone();
        let kept = bank.partitions();
        assert!(!kept.is_empty());
        cluster.world.nats.partition("node-1");
        let began = cluster.world.system.now();
        cluster
            .world
            .system
            .run_until(|| bank.partitions().is_empty());
        let stopped = cluster.world.system.now() - began;
        assert!(stopped <= LEASE, "seed {seed}: {stopped:?}");
        cluster.world.system.run_until(|| bank.activations() == 0);
        // All keys answer again, with higher epochs, within the lease and a second.
        for key in 0..40 {
            let (_, node) = cluster.deposit_again(0, key);
            assert_ne!(node, "node-1", "seed {seed}");
        }
        let taken = cluster.world.system.now() - began;
        assert!(
            taken <= LEASE + Duration::from_secs(2),
            "seed {seed}: {taken:?}"
        );
        cluster.world.nats.heal("node-1");
        cluster.world.system.run_until(|| bank.trouble().is_none());
        for key in 0..40 {
            cluster.deposit(1, key).expect("a reply");
        }
        assert!(cluster.keepers().values().all(|it| *it == 1));
        assert!(cluster.ledger.sum() >= 120, "seed {seed}");
    }
}

/// The connection breaks while entries are replaced, so some are replaced in a second attempt.
#[test]
fn a_takeover_counts_once_it_has_succeeded() {
    for seed in 0..SEEDS {
        let mut cluster = Cluster::new(seed, 1);
        for key in 0..40 {
            cluster.deposit(0, key).expect("a reply");
        }
        cluster.world.nats.partition("node-0");
        cluster.add(seed);
        cluster.world.nats.set_delay(Duration::from_millis(50));
        let has_put = Arc::new(AtomicBool::new(false));
        let seen = has_put.clone();
        cluster.world.nats.on_event(move |text| {
            if text.contains("Put(\"bank.p.") {
                seen.store(true, Ordering::Relaxed);
            }
        });
        let bank = cluster.nodes[1].1.clone();
        for key in 0..40 {
            bank.tell(&key, Deposit(1)).expect("accepted");
        }
        let has_put = || has_put.load(Ordering::Relaxed);
        cluster.world.system.run_until(has_put);
        cluster.world.nats.lose_connection("node-1");
        cluster
            .world
            .system
            .run_until(|| bank.counters().delivered == 40);
        let counters = bank.counters();
        assert_eq!(counters.takeovers, counters.claims, "seed {seed}");
    }
}

/// Its name and version are those of [`Deposit`], its fields are not.
#[derive(Debug, Serialize, Deserialize)]
struct Malformed;

impl RemoteMessage for Malformed {
    const NAME: &'static str = Deposit::NAME;
    const VERSION: u32 = Deposit::VERSION;
    type Reply = ();
}

struct Nobody;

impl Actor for Nobody {}

impl Handler<Malformed> for Nobody {
    type Reply = ();

    fn handle(&mut self, _: Malformed, _: &mut Context<Self>) {}
}

#[test]
fn a_message_that_cannot_be_decoded_is_refused_and_not_delivered() {
    let cluster = Cluster::new(0, 1);
    let node = cluster.world.node("front", 1);
    let options = RemoteDirectoryOptions::new("bank")
        .partitions(16)
        .lease(LEASE)
        .sends_only();
    let front = node.directory(options, |_: &u64, _: &Fence| Nobody);
    let front: RemoteDirectory<u64, Nobody> = front.expect("valid options");
    let reply = front.ask(&7, Malformed).wait();
    assert!(
        matches!(reply, Err(RemoteAskError::Encoding(_))),
        "{reply:?}"
    );
    front.tell(&7, Malformed).expect("accepted");
    let counters = || cluster.nodes[0].1.counters();
    cluster.world.until(|| counters().refused == 2);
    assert_eq!(counters().delivered, 0);
}

/// A node gives a partition up, and its connection breaks before it hears that its entry is deleted. It leaves the entry of
/// the next keeper alone.
#[test]
fn the_next_keepers_entry_stays_when_the_answer_of_a_deletion_is_lost() {
    for seed in 0..SEEDS {
        let mut cluster = Cluster::new(seed, 1);
        for key in 0..40 {
            cluster.deposit(0, key).expect("a reply");
        }
        let is_deleted = Arc::new(AtomicBool::new(false));
        let seen = is_deleted.clone();
        cluster.world.nats.on_event(move |text| {
            if text.contains("Delete(\"bank.p.") {
                seen.store(true, Ordering::Relaxed);
            }
        });
        let node = cluster.world.node("node-1", seed * 100 + 1);
        let bank = bank(&node, &cluster.ledger);
        cluster.nodes.push((node, bank.clone()));
        let is_deleted = || is_deleted.load(Ordering::Relaxed);
        cluster.world.system.run_until(is_deleted);
        cluster.world.nats.lose_connection("node-0");
        cluster.world.nats.partition("node-0");
        for key in 0..40 {
            // Those that node-0 still keeps get no reply.
            let _ = cluster.deposit_within(Duration::from_millis(5), 1, key);
        }
        let kept = bank.partitions();
        assert!(!kept.is_empty(), "seed {seed}");
        cluster.world.nats.heal("node-0");
        cluster.world.system.advance(Duration::from_secs(1));
        let entries = cluster.world.nats.entries("freeboard-names");
        let entries: BTreeMap<_, _> = entries.expect("a bucket").into_iter().collect();
        for (partition, epoch) in kept {
            let entry = entries.get(&format!("bank.p.{partition}"));
            let revision = entry.map(|it| it.revision);
            assert_eq!(revision, Some(epoch.revision), "seed {seed}, {partition}");
        }
        for key in 0..40 {
            cluster.deposit_again(0, key);
        }
        assert!(cluster.keepers().values().all(|it| *it == 1));
    }
}

#[test]
fn without_its_data_the_server_grants_nothing_for_a_lease() {
    for seed in 0..SEEDS {
        let cluster = Cluster::new(seed, 2);
        for key in 0..20 {
            cluster.deposit(0, key).expect("a reply");
        }
        let before: Epoch = {
            let rows = cluster.ledger.0.lock().expect("no panic");
            rows.epochs.iter().map(|it| it.1).max().expect("some")
        };
        cluster.world.nats.restart(false);
        cluster.world.system.run_until(|| {
            cluster
                .nodes
                .iter()
                .all(|(_, bank)| bank.partitions().is_empty())
        });
        for key in 0..20 {
            cluster.deposit_again(1, key);
        }
        let rows = cluster.ledger.0.lock().expect("no panic");
        let newest = rows.rows.values().map(|it| it.0).min().expect("some");
        assert!(newest > before, "seed {seed}: epochs go on rising");
        assert_eq!(rows.refused, 0, "seed {seed}");
    }
}

/// The node that is cut off has opened the first buckets, and had waited for that.
#[test]
fn a_node_that_was_cut_off_while_the_server_lost_its_data_begins_with_the_new_buckets() {
    for seed in 0..SEEDS {
        let cluster = Cluster::new(seed, 2);
        for key in 0..40 {
            cluster.deposit(0, key).expect("a reply");
        }
        let [cut, other] = [0, 1].map(|it: usize| cluster.nodes[it].1.clone());
        let entry = |key: &str| {
            let entries = cluster.world.nats.entries("freeboard-names")?;
            let found = entries.into_iter().find(|it| it.0 == key);
            found.map(|(_, entry)| entry.value)
        };
        let open_before = entry("open").expect("claims were allowed");
        cluster.world.nats.partition("node-0");
        cluster.world.nats.restart(false);
        let is_new = || entry("open").is_some_and(|it| it != open_before);
        cluster.world.system.run_until(is_new);
        cluster.world.system.run_until(|| other.trouble().is_none());
        for key in 0..40 {
            cluster.deposit_again(1, key);
        }
        let open = entry("open");
        cluster.world.nats.heal("node-0");
        let has_lease = || cut.trouble().is_none();
        cluster.world.system.run_until(has_lease);
        assert_eq!(entry("open"), open, "seed {seed}: it was right");
        cluster.world.system.advance(Duration::from_secs(5));
        for key in 0..40 {
            cluster.deposit_again(0, key);
        }
        let generations = [&cut, &other].map(|bank| {
            let epochs = bank.partitions().into_iter().map(|it| it.1.generation);
            epochs.collect::<BTreeSet<_>>()
        });
        assert_eq!(generations[0], generations[1], "seed {seed}");
        assert_eq!(generations[0].len(), 1, "seed {seed}");
        let rows = cluster.ledger.0.lock().expect("no panic");
        assert_eq!(rows.refused, 0, "seed {seed}");
    }
}

/// The bucket of leases is lost while two nodes are cut off. One of them comes back when it is new, and the other one's lease
/// still holds.
#[test]
fn in_a_new_bucket_of_leases_those_of_the_lost_one_are_waited_for() {
    for seed in 0..SEEDS {
        let mut cluster = Cluster::new(seed, 0);
        for number in 0..3 {
            let node = cluster
                .world
                .node(&format!("node-{number}"), seed * 100 + number);
            // Longer than the time after which a node counts as down.
            let options = options().lease(Duration::from_secs(10));
            let bank = bank_with(options, &node, &cluster.ledger);
            cluster.nodes.push((node, bank.clone()));
            cluster.world.system.run_until(|| bank.trouble().is_none());
            cluster.world.system.advance(HEARTBEAT);
        }
        for key in 0..40 {
            cluster.deposit(0, key).expect("a reply");
        }
        let [back, cut] = [1, 2].map(|it: usize| cluster.nodes[it].1.clone());
        assert!(!cut.partitions().is_empty(), "seed {seed}");
        cluster.world.nats.partition("node-1");
        cluster.world.nats.partition("node-2");
        cluster.world.nats.lose_bucket("freeboard-leases");
        let is_new = || cluster.world.nats.entries("freeboard-leases").is_some();
        cluster.world.system.run_until(is_new);
        cluster.world.nats.heal("node-1");
        let (down, node) = (cluster.nodes[1].0.clone(), cluster.nodes[2].0.id().clone());
        cluster
            .world
            .system
            .run_until(|| down.nodes().iter().all(|it| it.id != node));
        for key in 0..40 {
            // It claims what has no keeper, if it may.
            let _ = cluster.deposit_within(Duration::from_millis(20), 1, key);
        }
        while !cut.partitions().is_empty() {
            let twice = cluster.keepers().into_iter().find(|it| it.1 > 1);
            assert_eq!(twice, None, "seed {seed}");
            cluster.world.system.advance(Duration::from_millis(50));
        }
        for key in 0..40 {
            let (_, node) = cluster.deposit_again(1, key);
            assert_ne!(node, "node-2", "seed {seed}");
        }
        assert!(!back.partitions().is_empty(), "seed {seed}");
    }
}

/// All data is lost while a keeper is cut off. A new node has opened the new buckets when one whose lease is of the old ones
/// wants what the keeper keeps.
#[test]
fn a_lease_of_lost_buckets_claims_nothing_in_new_ones() {
    let mut tries = 0;
    for seed in 0..SEEDS {
        let mut cluster = Cluster::new(seed, 0);
        // Longer than the time after which a node counts as down.
        let options = || options().lease(Duration::from_secs(10));
        let node = |cluster: &Cluster, number: u64| {
            let name = format!("node-{number}");
            cluster.world.node(&name, seed * 100 + number)
        };
        let late = node(&cluster, 2);
        for number in 0..2 {
            let node = node(&cluster, number);
            let bank = bank_with(options(), &node, &cluster.ledger);
            cluster.nodes.push((node, bank.clone()));
            cluster.world.system.run_until(|| bank.trouble().is_none());
            cluster.world.system.advance(HEARTBEAT);
        }
        for key in 0..40 {
            cluster.deposit(0, key).expect("a reply");
        }
        let [(down, bank), (cut, keeper)] = [0, 1].map(|it: usize| cluster.nodes[it].clone());
        assert!(!keeper.partitions().is_empty(), "seed {seed}");
        cluster.world.nats.partition("node-1");
        let is_gone = || down.nodes().iter().all(|it| it.id != *cut.id());
        cluster.world.system.run_until(is_gone);
        // A restart would let node-0 renew at once, and find its lease lost an instant later.
        cluster.world.nats.lose_bucket("freeboard-leases");
        cluster.world.nats.lose_bucket("freeboard-names");
        let late = (late.clone(), bank_with(options(), &late, &cluster.ledger));
        cluster.nodes.push(late);
        let is_new = || cluster.world.nats.entries("freeboard-names").is_some();
        cluster.world.system.run_until(is_new);
        assert!(bank.trouble().is_none(), "seed {seed}: its lease holds");
        for key in (0..40).cycle() {
            let _ = cluster.deposit_within(Duration::from_millis(20), 0, key);
            let twice = cluster.keepers().into_iter().find(|it| it.1 > 1);
            assert_eq!(twice, None, "seed {seed}");
            let entries = cluster.world.nats.entries("freeboard-names");
            let mut entries = entries.into_iter().flatten();
            tries += u64::from(bank.trouble().is_none() && entries.any(|it| it.0.contains(".p.")));
            if keeper.partitions().is_empty() {
                break;
            }
        }
        for key in 0..40 {
            let (_, node) = cluster.deposit_again(0, key);
            assert_ne!(node, "node-1", "seed {seed}");
        }
    }
    assert!(tries > 0, "no claim was tried while the old lease was held");
}

/// An activation is passivated after the host has found it, and before it gets the message.
#[test]
fn the_next_activation_gets_what_comes_over_the_network_for_one_that_is_passivated() {
    for seed in 0..SEEDS {
        let world = Simulated::new(seed);
        let ledger = Ledger::default();
        let options = || options().accept::<Hooked>();
        let node = world.node("node-0", seed * 100);
        let bank = bank_with(options(), &node, &ledger);
        let other = world.node("front", seed * 100 + 1);
        let front = bank_with(options().sends_only(), &other, &ledger);
        let passivates = || {
            let bank = bank.clone();
            set_hook(move || bank.find(&7).expect("it is active").stop_gracefully());
        };
        let ask = || front.ask(&7, Hooked(1)).wait();
        assert_eq!(ask(), Ok((1, "node-0".to_owned())), "seed {seed}");
        passivates();
        assert_eq!(ask(), Ok((2, "node-0".to_owned())), "seed {seed}");
        passivates();
        front.tell(&7, Hooked(1)).expect("accepted");
        world.until(|| ledger.sum() == 3);
        let counters = bank.counters();
        assert_eq!(
            (counters.delivered, counters.refused),
            (3, 0),
            "seed {seed}"
        );
    }
}

/// A sender has found the partition on its node, which gives it up before the sender finds the key.
#[test]
fn a_message_follows_a_partition_that_moves_while_it_is_sent() {
    type Sent = fn(&RemoteDirectory<Hooked, Account>);
    let tell: Sent = |bank| bank.tell(&Hooked(7), Deposit(1)).expect("accepted");
    let ask: Sent = |bank| {
        let reply = bank.ask(&Hooked(7), Deposit(1)).wait();
        assert_eq!(reply.expect("a reply").0, 2);
    };
    for (seed, send) in (0..SEEDS).flat_map(|seed| [(seed, tell), (seed, ask)]) {
        let world = Rc::new(Simulated::new(seed));
        let ledger = Ledger::default();
        let (at, rows) = (world.clone(), ledger.clone());
        let add = move |number: u64| {
            let node = at.node(&format!("node-{number}"), seed * 100 + number);
            let store = accounts(&node, &rows);
            let load = move |key: &Hooked, fence: &Fence| store.account(key.0, fence).expect("new");
            let options = RemoteDirectoryOptions::new("bank").partitions(1);
            let options = options.lease(LEASE).accept::<Deposit>();
            let bank = node.directory(options, load).expect("valid options");
            at.until(|| bank.trouble().is_none());
            (node, bank)
        };
        let (_node, first) = add(0);
        let reply = first.ask(&Hooked(7), Deposit(1)).wait();
        assert_eq!(reply, Ok((1, "node-0".to_owned())), "seed {seed}");
        let others = Rc::new(RefCell::new(Vec::new()));
        let (at, bank, added) = (world.clone(), first.clone(), others.clone());
        set_hook(move || {
            // Until one comes that should keep the partition.
            for number in 1.. {
                added.borrow_mut().push(add(number));
                at.system.advance(Duration::from_secs(2));
                if bank.partitions().is_empty() {
                    break;
                }
            }
        });
        send(&first);
        world.until(|| ledger.sum() == 2);
        assert_eq!(first.counters().releases, 1, "seed {seed}");
    }
}

/// Some activations are loaded after their partition is given up.
#[test]
fn what_is_told_while_partitions_move_is_handled() {
    for seed in 0..SEEDS {
        let mut cluster = Cluster::new(seed, 1);
        for key in 0..40 {
            cluster.deposit(0, key).expect("a reply");
        }
        let first = cluster.nodes[0].1.clone();
        let node = cluster.world.node("node-1", seed * 100 + 1);
        let second = bank(&node, &cluster.ledger);
        cluster.nodes.push((node, second.clone()));
        // Between two steps. Not between all: then the clock would stand still.
        let (mut checks, mut told) = (0, 0);
        cluster.world.until(|| {
            checks += 1;
            if checks % 8 == 0 {
                // A new key: its activation is not loaded yet.
                first.tell(&(100 + told), Deposit(1)).expect("accepted");
                told += 1;
            }
            first.counters().releases > 1 && second.partitions().len() > 1
        });
        cluster.world.until(|| cluster.ledger.sum() == 40 + told);
    }
}

/// Can be encoded if it is `true`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
struct Picky(bool);

impl Serialize for Picky {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            true => true.serialize(to),
            false => Err(S::Error::custom("on purpose")),
        }
    }
}

impl RemoteMessage for Picky {
    const NAME: &'static str = "test.picky";
    const VERSION: u32 = 1;
    type Reply = ();
}

impl Handler<Picky> for Nobody {
    type Reply = ();

    fn handle(&mut self, _: Picky, _: &mut Context<Self>) {}
}

#[test]
fn a_key_or_a_message_that_cannot_be_encoded_is_an_error() {
    let world = Simulated::new(0);
    let node = world.node("front", 0);
    let options = RemoteDirectoryOptions::new("bank").sends_only();
    let front = node.directory(options, |_: &Picky, _: &Fence| Nobody);
    let front: RemoteDirectory<Picky, Nobody> = front.expect("valid options");
    for (key, message) in [(true, false), (false, true), (false, false)] {
        let (key, message) = (Picky(key), Picky(message));
        let told = front.tell(&key, message.clone());
        let is_message = |it: &Picky| *it == message;
        assert!(
            matches!(&told, Err(RemoteTellError::Encoding(it, _)) if is_message(it)),
            "{told:?}"
        );
        let asked = front.ask(&key, message).wait();
        assert!(
            matches!(asked, Err(RemoteAskError::Encoding(_))),
            "{asked:?}"
        );
        assert!(front.find(&key).is_none());
    }
}
