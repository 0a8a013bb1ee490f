//! The fetcher answers notifications out of Redis and slow stores, while nodes crash and links break.
//!
//! ```text
//!   publisher ──▶ broker ──▶ fetcher ──▶ cache ──▶ Redis, on another node
//!   collector ◀── replies ◀─────┘  └───▶ slow store, directory
//! ```
//!
//! The broker is outside of the nodes. When the fetcher's process ends, its notifications are delivered again.
//!
//! It holds: each notification gets a reply and is acknowledged once, none is dead-lettered, and the broker's ledgers
//! balance.

use std::{collections::BTreeMap, num::NonZeroU16, sync::Arc, time::Duration};

use freeboard::{
    cache::{Cache, CacheOptions},
    flow::Backoff,
    platform::thread,
    redis::{Redis, RedisOptions},
    sim::{FaultRates, Machine, World},
};
use freeboard_fetcher::{
    broker::{Broker, Inbox, MemoryBroker, Queue},
    message::{MessageId, Notification, Reply},
    service::{Fetcher, FetcherOptions, Parts},
    store::{Directory, MemoryDirectory, MockStore},
};

use super::redis::{PORT, start_server};
use crate::record::{Mistakes, Record};

const RUN_TIME: Duration = Duration::from_secs(4);

/// All is settled so long after the faults.
const SETTLE_TIME: Duration = Duration::from_secs(120);

const SECOND: Duration = Duration::from_secs(1);

const USERS: usize = 5;

fn notification(id: u64, user: usize) -> Notification {
    Notification {
        id: MessageId::Number(id),
        user: format!("user-{user}"),
        app: "app-0".to_owned(),
        due_us: None,
        payload: "hello".to_owned(),
    }
}

fn options() -> FetcherOptions {
    let milli = 1_000_000;
    FetcherOptions {
        // A notification is given up never.
        attempts: 10_000,
        backoff: Backoff {
            min_ns: milli,
            max_ns: 20 * milli,
            factor: 2,
        },
        ..FetcherOptions::default()
    }
}

/// Starts the fetcher, once Redis answers.
fn start_fetcher(
    machine: &Machine,
    (broker, directory): (Arc<MemoryBroker>, Arc<MemoryDirectory>),
    redis: String,
    seed: u64,
) -> Arc<Fetcher> {
    // The broker has lost its connections.
    for queue in Queue::NOTIFICATIONS {
        broker.disconnect(queue);
    }
    let seed = Some(seed + machine.starts);
    let options_of_redis = RedisOptions {
        host: redis,
        port: PORT,
        seed,
        ..RedisOptions::default()
    };
    let redis = Redis::connect(&machine.system, &machine.poller, options_of_redis);
    let redis = redis.expect("the options are right");
    while redis.wait_up(SECOND).is_err() {
        thread::sleep(SECOND / 50);
    }
    let of_cache = CacheOptions {
        seed,
        ..CacheOptions::default()
    };
    let cache = Cache::new(&machine.system, &redis, of_cache);
    let parts = Parts {
        broker,
        cache: cache.expect("the options are right"),
        store: Arc::new(MockStore::new(SECOND / 1_000).expect("a thread")),
        directory,
    };
    Arc::new(Fetcher::start(&machine.system, parts, options()).expect("it starts"))
}

pub(crate) fn run(world: &mut World) {
    let mistakes = Mistakes::watched(world);
    let notifications = world.size("notifications", 1..=30) as u64;
    let mut random = world.random("fetcher");
    let of_fetcher = random.number() >> 1;
    let redis = world.node("redis", start_server);

    let broker = Arc::new(MemoryBroker::default());
    let directory = Arc::new(MemoryDirectory::default());
    directory.provision(USERS as u64).expect("it is filled");
    let outcomes = Record::<BTreeMap<u64, u32>>::default();
    let (collected, noted) = (outcomes.clone(), mistakes.clone());
    let inbox: Inbox = Box::new(move |delivery| {
        match Reply::parse(delivery.body()).map(|reply| reply.id) {
            Ok(MessageId::Number(id)) => *collected.lock().entry(id).or_default() += 1,
            other => noted.note(format!("a reply that is none: {other:?}")),
        }
        delivery.ack();
        Ok(())
    });
    let prefetch = NonZeroU16::MIN.saturating_add(3);
    let collector = broker.consume(Queue::Replies, prefetch, inbox);
    let collector = collector.expect("a thread");
    let (parts, address) = ((broker.clone(), directory), redis.ip().to_string());
    let fetcher = world.node("fetcher", move |machine| {
        start_fetcher(machine, parts.clone(), address.clone(), of_fetcher)
    });
    let rates = FaultRates {
        kills: 20.0,
        pauses: 6.0,
        partitions: 6.0,
        resets: 20.0,
        silences: 6.0,
        slow_links: 6.0,
        slow_actors: 4.0,
        late_wakeups: 6.0,
        panics: 20.0,
        ..FaultRates::default()
    };
    world.inject(rates, RUN_TIME);
    for id in 0..notifications {
        let queue = *random.choose(&Queue::NOTIFICATIONS);
        let body = notification(id, random.below(USERS)).to_body();
        let published = broker.publish_with(queue, body.into(), Box::new(|_| {}));
        published.expect("the queue has space");
        if random.once_in(3) {
            world.advance(random.time(RUN_TIME / 10));
        }
    }
    world.advance(RUN_TIME.saturating_sub(world.now()));
    world.end_faults();
    let is_settled = |queue: &Queue| {
        let ledger = broker.ledger(*queue);
        ledger.confirmed == ledger.acked + ledger.dead_lettered
    };
    let until = world.now() + SETTLE_TIME;
    while !Queue::NOTIFICATIONS.iter().all(is_settled) {
        assert!(
            world.now() < until,
            "unsettled: {:?}",
            Queue::NOTIFICATIONS.map(|queue| broker.ledger(queue))
        );
        world.advance(SECOND / 10);
    }
    world.advance(SECOND / 10);
    for queue in Queue::ALL {
        let ledger = broker.ledger(queue);
        assert!(ledger.is_balanced(), "{queue:?}: {ledger:?}");
    }
    let outcomes = outcomes.lock();
    assert!(
        outcomes.keys().copied().eq(0..notifications),
        "of {notifications} notifications these have a reply: {outcomes:?}"
    );
    assert_eq!(broker.queued(Queue::DeadLetters), 0);
    drop(fetcher);
    drop(collector);
}
