//! Redirections, loops and dead nodes, with a cluster of two scripted servers.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use freeboard_actor::System;
use freeboard_redis::{Cluster, ClusterOptions, Command, RedisError, hash_slot};

use crate::common::{
    LONG, Outcomes, eventually,
    fake::{Fake, bulk},
    options, system,
};

/// Longer than any deadline here.
const HOUR_NS: u64 = 3_600_000_000_000;

/// Slot 12,182, and 5,061.
const KEY: &str = "foo";
const OTHER: &str = "bar";

/// A command as a node gets it.
struct Asked<'a> {
    ports: [u16; 2],
    node: usize,
    command: &'a [Bytes],
    /// Whether the one before it was `ASKING`.
    is_asking: bool,
}

impl Asked<'_> {
    fn redirect(&self, how: &str, to: usize) -> Vec<u8> {
        let slot = hash_slot(&self.command[1]);
        format!("-{how} {slot} 127.0.0.1:{}\r\n", self.ports[to]).into_bytes()
    }

    /// The key and the node, so that each reply says where it is from.
    fn done(&self) -> Vec<u8> {
        bulk(&done(&self.command[1], self.node))
    }
}

fn done(key: impl AsRef<[u8]>, node: usize) -> Bytes {
    [key.as_ref(), format!(" {node}").as_bytes()]
        .concat()
        .into()
}

struct Nodes {
    fakes: Vec<Fake>,
    /// The node of the slots below 8,192, and that of the others.
    owners: Arc<Mutex<[usize; 2]>>,
    /// How often the slots were asked for.
    refreshes: Arc<AtomicUsize>,
}

impl Nodes {
    /// All slots are the first node's, as both say.
    fn start(answer: impl Fn(&Asked<'_>) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let ports = Arc::new(OnceLock::<[u16; 2]>::new());
        let owners = Arc::new(Mutex::new([0, 0]));
        let refreshes = Arc::new(AtomicUsize::new(0));
        let answer = Arc::new(answer);
        let start = |node: usize| {
            let (ports, owners) = (ports.clone(), owners.clone());
            let (refreshes, answer) = (refreshes.clone(), answer.clone());
            Fake::start(move |_, peer| {
                peer.hello();
                let ports = *ports.wait();
                let mut is_asking = false;
                while let Some(command) = peer.command() {
                    let reply = match &command[0][..] {
                        b"CLUSTER" => {
                            refreshes.fetch_add(1, Ordering::SeqCst);
                            let [low, high] = owners.lock().unwrap().map(|node| ports[node]);
                            slots(low, high)
                        }
                        b"ASKING" => {
                            is_asking = true;
                            peer.write(b"+OK\r\n");
                            continue;
                        }
                        _ => {
                            let command = &command[..];
                            let asked = Asked {
                                ports,
                                node,
                                command,
                                is_asking,
                            };
                            answer(&asked)
                        }
                    };
                    is_asking = false;
                    peer.write(&reply);
                }
            })
        };
        let fakes = vec![start(0), start(1)];
        ports.set([fakes[0].port, fakes[1].port]).unwrap();
        Self {
            fakes,
            owners,
            refreshes,
        }
    }

    fn options(&self) -> ClusterOptions {
        let seeds = self.fakes.iter().map(|fake| ("127.0.0.1", fake.port));
        ClusterOptions {
            node: options(0),
            ..ClusterOptions::new(seeds)
        }
    }

    /// How many commands with this last argument a node has seen.
    fn seen(&self, node: usize, last: &str) -> usize {
        let seen = self.fakes[node].seen();
        seen.iter().filter(|it| **it == last).count()
    }
}

fn slots(low: u16, high: u16) -> Vec<u8> {
    let range = |from: u16, to: u16, port: u16| {
        format!("*3\r\n:{from}\r\n:{to}\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n")
    };
    format!(
        "*2\r\n{}{}",
        range(0, 8_191, low),
        range(8_192, 16_383, high)
    )
    .into_bytes()
}

fn connect(options: ClusterOptions) -> (System, Cluster) {
    let (system, poller) = system();
    let cluster = Cluster::connect(&system, &poller, options).unwrap();
    cluster.wait_up(LONG).unwrap();
    (system, cluster)
}

/// The map is learned once only, at the beginning.
fn connect_once(nodes: &Nodes) -> (System, Cluster) {
    connect(ClusterOptions {
        refresh_interval: LONG,
        ..nodes.options()
    })
}

#[test]
fn a_slot_that_has_moved_is_followed_and_remembered() {
    let nodes = Nodes::start(|asked| match asked.node {
        0 => asked.redirect("MOVED", 1),
        _ => asked.done(),
    });
    let (_system, cluster) = connect_once(&nodes);
    for _ in 0..10 {
        assert_eq!(cluster.get(KEY).wait().unwrap(), Some(done(KEY, 1)));
    }
    assert_eq!(nodes.seen(0, KEY), 1, "the first only");
    assert_eq!(cluster.snapshot().moved, 1);
    assert_eq!(
        cluster
            .snapshot()
            .nodes
            .iter()
            .map(|it| it.slots)
            .sum::<u64>(),
        16_384
    );
}

#[test]
fn a_node_that_no_map_names_yet_is_kept_while_commands_go_there() {
    let nodes = Nodes::start(|asked| match asked.node {
        0 => asked.redirect("MOVED", 1),
        _ => asked.done(),
    });
    let (_system, cluster) = connect(ClusterOptions {
        refresh_interval: Duration::from_millis(1),
        ..nodes.options()
    });
    assert_eq!(cluster.get(KEY).wait().unwrap(), Some(done(KEY, 1)));
    let accepted = nodes.fakes[1].accepted();
    let before = cluster.snapshot().refreshed;
    eventually("the slots are asked for again and again", || {
        assert_eq!(cluster.get(KEY).wait().unwrap(), Some(done(KEY, 1)));
        cluster.snapshot().refreshed > before + 8
    });
    assert_eq!(nodes.fakes[1].accepted(), accepted);
}

#[test]
fn a_slot_that_is_moving_is_asked_for_and_not_remembered() {
    let nodes = Nodes::start(|asked| match (asked.node, asked.is_asking) {
        (0, _) => asked.redirect("ASK", 1),
        (_, true) => asked.done(),
        (_, false) => asked.redirect("MOVED", 0),
    });
    *nodes.owners.lock().unwrap() = [1, 0];
    let (_system, cluster) = connect_once(&nodes);
    let outcomes = Outcomes::new();
    // Concurrent commands: each ASKING must directly precede its command.
    (0..100).for_each(|number| {
        cluster
            .get(format!("{KEY}{number}"))
            .then(outcomes.of(number))
    });
    for (number, outcome) in outcomes.take(100) {
        assert_eq!(outcome.unwrap(), Some(done(format!("{KEY}{number}"), 1)));
    }
    assert_eq!(cluster.snapshot().asked, 100);
    assert_eq!(cluster.get(KEY).wait().unwrap(), Some(done(KEY, 1)));
    assert_eq!((nodes.seen(0, KEY), nodes.seen(1, KEY)), (1, 1));
}

#[test]
fn a_loop_ends() {
    let nodes = Nodes::start(|asked| asked.redirect("MOVED", 1 - asked.node));
    let (_system, cluster) = connect_once(&nodes);
    let outcome = cluster.get(KEY).wait();
    assert!(
        matches!(outcome, Err(RedisError::TooManyRedirections(_))),
        "{outcome:?}"
    );
    assert_eq!(
        nodes.seen(0, KEY) + nodes.seen(1, KEY),
        6,
        "five beyond the first"
    );
}

#[test]
fn temporary_refusals_are_retried_until_the_deadline() {
    let left = Arc::new(AtomicUsize::new(3));
    let at_server = left.clone();
    let nodes = Nodes::start(move |asked| {
        let is_left = at_server.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        });
        match is_left {
            Ok(left) if left % 2 == 0 => b"-TRYAGAIN some keys have gone\r\n".to_vec(),
            Ok(_) => b"-CLUSTERDOWN the cluster is down\r\n".to_vec(),
            Err(_) => asked.done(),
        }
    });
    let (_system, cluster) = connect_once(&nodes);
    assert_eq!(cluster.get(KEY).wait().unwrap(), Some(done(KEY, 0)));
    assert_eq!(nodes.seen(0, KEY), 4);
    assert_eq!(cluster.snapshot().retried, 3);

    // Where the next attempt would come after the deadline, the server's word is the outcome.
    left.store(usize::MAX, Ordering::SeqCst);
    let mut options = nodes.options();
    (options.backoff.min_ns, options.backoff.max_ns) = (HOUR_NS, HOUR_NS);
    let (_system, cluster) = connect(options);
    let outcome = cluster.get(KEY).timeout(LONG).wait();
    let code = outcome
        .unwrap_err()
        .server()
        .map(|error| error.code().to_owned());
    assert!(code == Some("TRYAGAIN".to_owned()) || code == Some("CLUSTERDOWN".to_owned()));
    assert_eq!(cluster.snapshot().waiting, 0);
}

#[test]
fn waiting_commands_are_bounded_and_have_an_outcome_at_shutdown() {
    const FIT: usize = 10;
    let value = vec![b'v'; 100 << 10];
    // By their number, and by their bytes.
    for (waiting, waiting_bytes) in [(FIT, 64 << 20), (1_000, 1 << 20)] {
        let nodes = Nodes::start(|_| b"-TRYAGAIN not yet\r\n".to_vec());
        let mut options = ClusterOptions {
            waiting,
            waiting_bytes,
            refresh_interval: Duration::from_millis(20),
            ..nodes.options()
        };
        // Longer than the test may take, and within the deadline.
        (options.backoff.min_ns, options.backoff.max_ns) = (HOUR_NS, HOUR_NS);
        options.node.timeout = 120 * LONG;
        let (system, cluster) = connect(options);
        let outcomes = Outcomes::new();
        (0..3 * FIT).for_each(|number| cluster.set(KEY, &value).then(outcomes.of(number)));
        let expect_refusals = |count| {
            for (_, outcome) in outcomes.take(count) {
                assert!(outcome.is_err_and(|error| error.server().is_some()));
            }
        };
        expect_refusals(2 * FIT);
        assert_eq!(cluster.snapshot().waiting, FIT as u64);
        assert!(system.shutdown(LONG).is_clean());
        expect_refusals(FIT);
        let after = cluster.get(KEY).wait();
        assert!(after.is_err_and(|error| error.is_unsent()));
    }
}

#[test]
fn a_node_that_is_down_is_told_at_once_and_its_slots_are_found_elsewhere() {
    let is_dead = Arc::new(AtomicBool::new(false));
    let at_server = is_dead.clone();
    let nodes = Nodes::start(move |asked| {
        let is_dead = asked.node == 1 && at_server.load(Ordering::SeqCst);
        assert!(
            !is_dead,
            "what a dead node does: its thread, and with it the connection, ends"
        );
        asked.done()
    });
    *nodes.owners.lock().unwrap() = [0, 1];
    let (_system, cluster) = connect(ClusterOptions {
        refresh_interval: Duration::from_millis(20),
        ..nodes.options()
    });
    assert_eq!(cluster.get(KEY).wait().unwrap(), Some(done(KEY, 1)));
    is_dead.store(true, Ordering::SeqCst);
    let lost = cluster.get(KEY).wait();
    assert!(matches!(lost, Err(RedisError::Lost(_))), "{lost:?}");
    assert_eq!(
        cluster.get(OTHER).wait().unwrap(),
        Some(done(OTHER, 0)),
        "others work"
    );
    *nodes.owners.lock().unwrap() = [0, 0];
    eventually("the slot is found elsewhere", || {
        match cluster.get(KEY).wait() {
            Ok(reply) => reply == Some(done(KEY, 0)),
            Err(error) => {
                // Down, or late while it is being connected to.
                let is_told = matches!(
                    error,
                    RedisError::Down(_)
                        | RedisError::Lost(_)
                        | RedisError::TimedOut
                        | RedisError::Expired
                );
                assert!(is_told, "{error:?}");
                false
            }
        }
    });
}

#[test]
fn a_storm_of_redirections_asks_for_the_slots_once() {
    const COMMANDS: usize = 5_000;
    let nodes = Nodes::start(|asked| match asked.node {
        0 => asked.redirect("MOVED", 1),
        _ => asked.done(),
    });
    let (_system, cluster) = connect_once(&nodes);
    let outcomes = Outcomes::new();
    (0..COMMANDS).for_each(|number| cluster.get(number.to_string()).then(outcomes.of(number)));
    for (number, outcome) in outcomes.take(COMMANDS) {
        assert_eq!(outcome.unwrap(), Some(done(number.to_string(), 1)));
    }
    assert!(cluster.snapshot().moved > 1_000);
    assert_eq!(nodes.refreshes.load(Ordering::SeqCst), 1);
}

#[test]
fn unsupported_operations_are_not_sent_to_a_cluster() {
    let nodes = Nodes::start(|asked| asked.done());
    let (_system, cluster) = connect_once(&nodes);
    let command = Command::new("MGET").keys([KEY, OTHER]);
    let outcome = cluster.cmd::<()>(command).wait();
    assert_eq!(outcome, Err(RedisError::CrossSlot));
    assert_eq!(nodes.seen(0, OTHER) + nodes.seen(1, OTHER), 0);
}

#[test]
fn dropping_the_last_handle_ends_all_connections() {
    let nodes = Nodes::start(|asked| asked.done());
    let (system, cluster) = connect_once(&nodes);
    assert!(cluster.get(KEY).wait().is_ok());
    drop(cluster);
    eventually("all actors have ended", || system.actors_alive() == 0);
}

#[test]
fn a_server_that_is_no_cluster_is_named_as_such() {
    let fake = Fake::start(|_, peer| {
        peer.hello();
        while peer.command().is_some() {
            peer.write(b"-ERR This instance has cluster support disabled\r\n");
        }
    });
    let (system, poller) = system();
    let options = ClusterOptions::new([("127.0.0.1", fake.port)]);
    let cluster = Cluster::connect(&system, &poller, options).unwrap();
    let error = cluster.wait_up(LONG).unwrap_err();
    assert!(
        error.to_string().contains("cluster support disabled"),
        "{error}"
    );
}
