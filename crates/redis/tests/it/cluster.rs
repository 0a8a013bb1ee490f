//! A real cluster of three nodes, with a slot that moves under load.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use bytes::Bytes;
use freeboard_actor::System;
use freeboard_net::poller::Poller;
use freeboard_redis::{
    Cluster, ClusterOptions, Command, PubSub, RedisError, Request, Script, hash_slot,
};
use freeboard_test_servers::{RedisCluster, if_installed};

use crate::common::{Collector, LONG, eventually, options, ping, system};

const NODES: usize = 3;
const SLOTS: usize = 16_384;
/// Keys of the slot that moves.
const KEYS: usize = 100;

fn connect(system: &System, poller: &Poller, nodes: &RedisCluster) -> Cluster {
    let options = ClusterOptions {
        node: options(0),
        ..ClusterOptions::from_url(&nodes.url()).unwrap()
    };
    let cluster = Cluster::connect(system, poller, options).unwrap();
    cluster.wait_up(LONG).unwrap();
    cluster
}

fn incr(cluster: &Cluster, key: String) -> Request<'_, i64> {
    cluster.cmd(Command::new("INCR").key(key))
}

fn mget<K: AsRef<[u8]>>(cluster: &Cluster, keys: [K; 2]) -> Request<'_, Vec<Option<Bytes>>> {
    cluster.cmd(Command::new("MGET").keys(keys))
}

#[test]
fn commands_find_the_nodes_that_have_their_keys() {
    let (system, poller) = system();
    let Some(nodes) = if_installed(RedisCluster::start(NODES)) else {
        return;
    };
    let cluster = connect(&system, &poller, &nodes);
    for number in 0..300 {
        cluster
            .set(number.to_string(), number.to_string())
            .wait()
            .unwrap();
    }
    let sizes: Vec<u64> = cluster
        .masters()
        .iter()
        .map(|node| node.cmd(Command::new("DBSIZE")).wait().unwrap())
        .collect();
    assert_eq!((sizes.len(), sizes.iter().sum::<u64>()), (NODES, 300));
    for number in 0..300 {
        let value = cluster.get(number.to_string()).wait().unwrap().unwrap();
        assert_eq!(value, number.to_string());
    }
    assert_eq!(cluster.snapshot().moved, 0);
    ping(&cluster).wait().unwrap();
    let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    for key in ["a", "b", "c", "d"] {
        let sum: i64 = script.call().key(key).arg("7").on(&cluster).wait().unwrap();
        assert_eq!(sum, 7);
    }
    // Without saying what its key is, a command goes anywhere, and from there to where it belongs.
    for _ in 0..20 {
        let command = Command::new("GET").arg("7");
        assert_eq!(cluster.cmd::<String>(command).wait().unwrap(), "7");
    }
    assert_eq!(
        mget(&cluster, ["7", "8"]).wait(),
        Err(RedisError::CrossSlot)
    );
}

#[test]
fn a_slot_moves_under_load_and_nothing_is_lost() {
    let (system, poller) = system();
    let Some(nodes) = if_installed(RedisCluster::start(NODES)) else {
        return;
    };
    let cluster = connect(&system, &poller, &nodes);
    let key = |number: usize| format!("{{t}}{}", number % KEYS);
    let slot = hash_slot(b"{t}");
    // Half of the keys are there; the others begin wherever the slot is then.
    let counts: Arc<Mutex<Vec<u64>>> = Arc::new(Mutex::new(vec![0; KEYS]));
    for number in 0..KEYS / 2 {
        incr(&cluster, key(number)).wait().unwrap();
        counts.lock().unwrap()[number] += 1;
    }
    let (is_over, done) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let load = |thread: usize| {
        let (cluster, counts) = (cluster.clone(), counts.clone());
        let (is_over, done) = (is_over.clone(), done.clone());
        thread::spawn(move || {
            let mut number = thread;
            while !is_over.load(Ordering::SeqCst) {
                number += 7;
                let (first, second) = (number, number + 1);
                // Both are in flight together.
                let sent = [first, second].map(|it| incr(&cluster, key(it)).into_future());
                for reply in sent {
                    assert!(reply.wait().unwrap() > 0);
                }
                let mut counts = counts.lock().unwrap();
                counts[first % KEYS] += 1;
                counts[second % KEYS] += 1;
                done.fetch_add(1, Ordering::SeqCst);
            }
        })
    };
    let mut threads: Vec<_> = (0..3).map(load).collect();
    // Several keys: refused while some have migrated and others have not.
    let reader = (cluster.clone(), is_over.clone());
    threads.push(thread::spawn(move || {
        let (cluster, is_over) = reader;
        while !is_over.load(Ordering::SeqCst) {
            match mget(&cluster, [key(0), key(1)]).wait() {
                Ok(values) => assert!(values.iter().all(Option::is_some)),
                Err(RedisError::Server(error)) => assert_eq!(error.code(), "TRYAGAIN"),
                Err(other) => panic!("{other}"),
            }
        }
    }));
    let pause = || {
        let before = done.load(Ordering::SeqCst);
        eventually("the load goes on", || {
            done.load(Ordering::SeqCst) > before + 20
        });
    };
    let owner = nodes.owner(slot);
    let other = (owner + 1) % NODES;
    for (from, to) in [(owner, other), (other, owner), (owner, other)] {
        nodes.migrate(slot, [from, to], pause);
    }
    is_over.store(true, Ordering::SeqCst);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    for (number, count) in counts.lock().unwrap().iter().enumerate() {
        let value: Option<u64> = cluster.get(key(number)).as_type().wait().unwrap();
        assert_eq!(value.unwrap_or(0), *count, "key {number}");
    }
    let snapshot = cluster.snapshot();
    assert!(snapshot.moved > 0 && snapshot.asked > 0, "{snapshot:?}");
    assert_eq!(snapshot.waiting, 0);
    let slots = snapshot.nodes.iter().map(|node| node.slots);
    assert_eq!(slots.sum::<u64>(), SLOTS as u64);
}

#[test]
fn a_subscription_hears_all_nodes_and_outlives_its_own() {
    let (system, poller) = system();
    let Some(mut nodes) = if_installed(RedisCluster::start(NODES)) else {
        return;
    };
    let cluster = connect(&system, &poller, &nodes);
    let (heard, collector) = Collector::<PubSub>::spawn(&system);
    let subscription = cluster.subscribe("news", collector).unwrap();
    let active = || {
        let heard = heard.lock().unwrap();
        let subscribed = heard
            .iter()
            .filter(|it| matches!(it, PubSub::Subscribed { .. }));
        subscribed.count()
    };
    let hears = |text: &'static str| {
        let message = PubSub::Message {
            channel: "news".into(),
            payload: text.into(),
        };
        heard.lock().unwrap().contains(&message)
    };
    eventually("it is active", || active() == 1);
    for node in cluster.masters() {
        node.publish("news", "from each").wait().unwrap();
    }
    let each =
        |it: &&PubSub| matches!(it, PubSub::Message { payload, .. } if payload == "from each");
    eventually("each node's message is heard once", || {
        heard.lock().unwrap().iter().filter(each).count() == NODES
    });
    // Whichever node has it, it is killed.
    for index in 0..NODES {
        let before = active();
        let has_it = nodes.has_subscriber(index, "news");
        nodes.node(index).kill();
        if has_it {
            eventually("it is active elsewhere", || active() > before);
        }
        nodes.node(index).restart().unwrap();
        nodes.wait_up();
    }
    eventually("a message of the others is heard", || {
        let _ = cluster.publish("news", "after all").wait();
        hears("after all")
    });
    drop(subscription);
    eventually("no node has it", || {
        !(0..NODES).any(|index| nodes.has_subscriber(index, "news"))
    });
}
