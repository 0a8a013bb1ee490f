//! Subscriptions that come and go: what is under way for them is bounded, and in the end the server has
//! those that are wanted.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Shutdown,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use bytes::Bytes;
use freeboard_flow::random;
use freeboard_redis::{
    PubSub, Redis, RedisError, RedisOptions, SUBSCRIPTIONS_ENDING_MAX, Subscription,
};

use crate::common::{
    Collector, client, eventually,
    fake::{Fake, Gate, Peer, bulk},
    figures, options,
};

/// What the server knows of the present connection.
#[derive(Default)]
struct Channels {
    subscribed: BTreeSet<Bytes>,
    /// Commands that changed nothing.
    idle: Vec<Bytes>,
}

impl Channels {
    /// Confirms one command.
    fn serve(&mut self, command: &[Bytes], peer: &mut Peer) {
        let name = &command[1];
        let (kind, is_change) = match &command[0][..] {
            b"SUBSCRIBE" => ("subscribe", self.subscribed.insert(name.clone())),
            b"UNSUBSCRIBE" => ("unsubscribe", self.subscribed.remove(name)),
            other => panic!("{other:?}"),
        };
        if !is_change {
            self.idle.push(name.clone());
        }
        let mut confirmation = b">3\r\n".to_vec();
        confirmation.extend(bulk(kind.as_bytes()));
        confirmation.extend(bulk(name));
        confirmation.extend(format!(":{}\r\n", self.subscribed.len()).into_bytes());
        peer.write(&confirmation);
    }
}

fn under_way(redis: &Redis) -> u64 {
    let figures = figures(redis);
    figures.in_flight + figures.waiting
}

fn subscribed(name: &str) -> PubSub {
    PubSub::Subscribed {
        name: name.to_owned().into(),
    }
}

#[test]
fn a_stalled_server_bounds_the_subscriptions_that_come_and_go() {
    const SUBSCRIPTIONS: usize = 4;
    const NAMES_MAX: usize = SUBSCRIPTIONS + SUBSCRIPTIONS_ENDING_MAX;
    let gate = Gate::default();
    let channels = Arc::new(Mutex::new(Channels::default()));
    let (at_server, known) = (gate.clone(), channels.clone());
    let fake = Fake::start(move |_, peer| {
        peer.hello();
        at_server.wait();
        while let Some(command) = peer.command() {
            known.lock().unwrap().serve(&command, peer);
        }
    });
    let (system, redis) = client(RedisOptions {
        subscriptions: SUBSCRIPTIONS,
        ..options(fake.port)
    });
    let (kept, collector) = Collector::spawn(&system);
    let subscribe = |name: &str| redis.subscribe(name.to_owned(), collector.clone());
    let asked_for = |count| eventually("asked for", || under_way(&redis) == count as u64);

    let _wanted = subscribe("wanted").unwrap();
    let again = subscribe("again").unwrap();
    asked_for(2);
    drop(again);
    (0..10_000).for_each(|_| drop(subscribe("again").unwrap()));
    assert_eq!(under_way(&redis), 2, "one for each name");

    for count in 2..NAMES_MAX {
        let subscription = subscribe(&format!("passing {count}")).unwrap();
        asked_for(count + 1);
        drop(subscription);
    }
    let refused = subscribe("one more").unwrap_err();
    assert_eq!(refused, RedisError::TooManySubscriptions);
    drop(subscribe("again").unwrap());
    assert_eq!(under_way(&redis), NAMES_MAX as u64);

    gate.open();
    eventually("the server has what is wanted", || {
        let names = channels.lock().unwrap().subscribed.clone();
        names == BTreeSet::from(["wanted".into()])
    });
    asked_for(0);
    let _new = subscribe("new").unwrap();
    eventually("told", || kept.lock().unwrap().len() == 2);
    let told = kept.lock().unwrap().clone();
    assert_eq!(told, [subscribed("wanted"), subscribed("new")]);
    assert_eq!(channels.lock().unwrap().idle, [] as [Bytes; 0]);
}

#[test]
fn after_any_changes_the_server_has_what_is_wanted() {
    const STEPS: u64 = 4_000;
    /// One in so many steps waits until the server has caught up.
    const WAITS: u64 = 4;
    /// One in so many commands is the last that the server takes on its connection.
    const LAST: u64 = 100;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = now.unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let channels = Arc::new(Mutex::new(Channels::default()));
    let known = channels.clone();
    let fake = Fake::start(move |connection, peer| {
        known.lock().unwrap().subscribed.clear();
        peer.hello();
        let seed = seed.wrapping_add(connection as u64);
        let mut turns = 0..;
        while let (Some(command), Some(turn)) = (peer.command(), turns.next()) {
            if random::number(seed, turn).is_multiple_of(LAST) {
                return peer.shutdown(Shutdown::Both);
            }
            known.lock().unwrap().serve(&command, peer);
        }
    });
    let (system, redis) = client(options(fake.port));
    let (kept, collector) = Collector::spawn(&system);
    let mut wanted: BTreeMap<usize, Subscription> = BTreeMap::new();
    for step in 0..STEPS {
        let name = random::below(random::number(seed, step), 8);
        if wanted.remove(&name).is_none() {
            let subscription = redis.subscribe(name.to_string(), collector.clone());
            wanted.insert(name, subscription.unwrap());
        }
        if random::number(!seed, step).is_multiple_of(WAITS) {
            eventually("caught up", || under_way(&redis) == 0);
        }
    }
    let names = wanted.keys().map(|name| Bytes::from(name.to_string()));
    let names: BTreeSet<Bytes> = names.collect();
    eventually("the server has what is wanted", || {
        let is_up = figures(&redis).is_up;
        is_up && under_way(&redis) == 0 && channels.lock().unwrap().subscribed == names
    });
    assert_eq!(channels.lock().unwrap().idle, [] as [Bytes; 0]);
    eventually("who wants it is told", || {
        let told = kept.lock().unwrap();
        let mut names = wanted.keys().map(ToString::to_string);
        names.all(|name| told.contains(&subscribed(&name)))
    });
}
