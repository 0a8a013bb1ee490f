//! The fetcher in a simulation: its broker, stores and Redis, in one order of one seed, while connections break and fetchers
//! crash.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use freeboard::{
    System,
    cache::{Cache, CacheOptions},
    flow::random,
    net::{
        poller::Poller,
        proxy::{Proxy, ProxyOptions},
        simulated::{Network, NetworkSettings},
    },
    platform::thread,
    redis::{Redis, RedisOptions},
    redis_embedded::{EmbeddedOptions, RedisEmbedded},
    testing::{TestSystem, each_seed},
};
use freeboard_fetcher::{
    broker::{Broker, Inbox, MemoryBroker, Queue},
    message::{MessageId, Reply},
    service::{Fetcher, Parts},
    store::{Directory, MemoryDirectory, MockStore},
};
use parking_lot::Mutex;

use crate::{
    common::{prefetch, publish},
    fixture::{notification, options},
};

const SECOND: Duration = Duration::from_secs(1);

const NOTIFICATIONS: u64 = 30;

/// Fetchers, one after the other; all but the last crash.
const LIVES: u64 = 3;

fn nothing_is_lost(system: &TestSystem) {
    let seed = system.seed();
    let settings = NetworkSettings {
        seed,
        ..NetworkSettings::default()
    };
    let network = Network::new(system.executor(), settings);
    let hosts = [network.host([10, 0, 0, 1]), network.host([10, 0, 0, 2])];
    let [at_fetcher, at_redis] = hosts.each_ref().map(Poller::simulated);
    let server_options = EmbeddedOptions {
        seed: Some(seed),
        ..EmbeddedOptions::default()
    };
    let server = RedisEmbedded::start(system, &at_redis, server_options).expect("a port");
    // The server itself binds to localhost.
    let (public, proxy) = (hosts[1].at(6_379), ProxyOptions::default());
    let proxy = Proxy::bind(system, &at_redis, public, server.address(), proxy);
    let _proxy = proxy.expect("a port");

    let broker = Arc::new(MemoryBroker::default());
    let directory = MemoryDirectory::default();
    directory.provision(NOTIFICATIONS).expect("it is filled");
    let (directory, store) = (Arc::new(directory), MockStore::new(SECOND / 1_000));
    let store = Arc::new(store.expect("a thread"));
    let replies = Arc::new(Mutex::new(BTreeMap::<u64, u32>::new()));
    let collected = replies.clone();
    let inbox: Inbox = Box::new(move |delivery| {
        let reply = Reply::parse(delivery.body()).expect("a reply");
        let MessageId::Number(id) = reply.id else {
            panic!("all ids are numbers");
        };
        *collected.lock().entry(id).or_default() += 1;
        delivery.ack();
        Ok(())
    });
    let collector = broker.consume(Queue::Replies, prefetch(4), inbox);
    let collector = collector.expect("a thread");

    for life in 0..LIVES {
        let node = system.build_another(System::builder()).expect("a system");
        let redis = RedisOptions {
            host: hosts[1].ip().to_string(),
            port: 6_379,
            seed: Some(seed + life),
            ..server.client_options()
        };
        let redis = Redis::connect(&node, &at_fetcher, redis).expect("the options are right");
        redis.wait_up(SECOND * 60).expect("it answers");
        let cache_options = CacheOptions {
            seed: Some(seed + life),
            ..CacheOptions::default()
        };
        let cache = Cache::new(&node, &redis, cache_options);
        let parts = Parts {
            broker: broker.clone(),
            cache: cache.expect("the options are right"),
            store: store.clone(),
            directory: directory.clone(),
        };
        let fetcher = Fetcher::start(&node, parts, options()).expect("it starts");
        for number in (0..NOTIFICATIONS).filter(|number| number % LIVES == life) {
            let queue = Queue::NOTIFICATIONS[number as usize % 2];
            let user = format!("user-{}", number % 7);
            publish(&*broker, queue, notification(number, &user).to_body());
            if number == random::below(random::number(seed, life), NOTIFICATIONS as usize) as u64 {
                network.reset_connections(hosts[0].ip(), hosts[1].ip());
            }
        }
        if life + 1 < LIVES {
            let crash_us = random::below(random::number(!seed, life), 20_000) as u64;
            thread::sleep(Duration::from_micros(crash_us));
        } else {
            let is_settled = |queue: &Queue| {
                let ledger = broker.ledger(*queue);
                ledger.confirmed == ledger.acked + ledger.dead_lettered
            };
            system.run_until(|| Queue::NOTIFICATIONS.iter().all(is_settled));
        }
        drop(fetcher);
        node.shutdown(SECOND * 60);
    }
    system.run_until(|| broker.queued(Queue::Replies) == 0);
    system.run_until_idle();
    assert!(
        replies.lock().keys().copied().eq(0..NOTIFICATIONS),
        "seed {seed}: {:?}",
        replies.lock()
    );
    for queue in Queue::ALL {
        let ledger = broker.ledger(queue);
        assert!(ledger.is_balanced(), "seed {seed}: {queue:?}: {ledger:?}");
    }
    drop(collector);
    server.stop(SECOND);
}

#[test]
fn no_notification_is_lost_whatever_crashes() {
    each_seed(0..100, nothing_is_lost);
}
