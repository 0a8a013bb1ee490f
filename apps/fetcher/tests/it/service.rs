//! The fetcher in one process: it replies, gives up, and loses nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::{
    common::{LONG, eventually, prefetch},
    fixture::{Ground, Service, USERS, notification, options},
    gate::POISON,
};
use freeboard_fetcher::{
    broker::{Broker, Delivery, Queue},
    message::{MessageId, NAME_BYTES_MAX, Notification, Reply},
    service::{FetcherOptions, OptionsError, StartError},
    store::{OnFetched, SlowStore, StoreError},
};

fn reply(delivery: &Delivery) -> Reply {
    Reply::parse(delivery.body()).expect("a reply")
}

/// The body of a dead letter and its reason.
fn letter(delivery: &Delivery) -> (Vec<u8>, String) {
    let reason = delivery.reason().expect("a dead letter has a reason");
    (delivery.body().to_vec(), reason.to_owned())
}

#[test]
fn every_notification_is_replied_to_once() {
    let ground = Ground::new();
    let service = ground.fetcher(options());
    let load = ground.load(5_000);
    load.assert_replied();
    ground.assert_balanced();
    assert_eq!(load.account.repeated(), 0);
    let snapshot = service.fetcher.snapshot();
    assert_eq!(snapshot.completed, 5_000);
    assert_eq!(snapshot.dead_lettered, 0);
    assert_eq!(
        snapshot.received,
        snapshot.completed + snapshot.retried.total()
    );
    assert_eq!(
        snapshot.mains.iter().flatten().sum::<u64>(),
        snapshot.received
    );
    assert!(
        snapshot
            .mains
            .iter()
            .all(|main| main.iter().any(|received| *received > 0))
    );
    assert_eq!(snapshot.lifetime.count, 5_000);
    eventually(|| service.fetcher.snapshot().under_way == 0);
    assert_eq!(service.fetcher.queued(), 0);
}

#[test]
fn a_reply_has_the_keys_and_the_device_of_its_user() {
    let ground = Ground::new();
    let _service = ground.fetcher(options());
    let replies = ground.take(Queue::Replies, reply);
    let mut asked = [
        notification(7, "user-7"),
        // This user is not in the directory.
        notification(8, "a stranger"),
    ];
    asked[1].app = "app-1".to_owned();
    for (notification, queue) in asked.iter().zip([Queue::Priority0, Queue::Priority1]) {
        ground.publish(queue, notification.to_body());
    }
    let mut replies = replies.wait_for(2);
    replies.sort_by_key(|reply| reply.id.clone());
    let wanted = |of: &Notification, device: Option<&str>| Reply {
        id: of.id.clone(),
        user: of.user.clone(),
        app: of.app.clone(),
        user_key: format!("value-of-user:{}", of.user),
        app_key: format!("value-of-app:{}", of.app),
        device: device.map(str::to_owned),
        payload: of.payload.clone(),
        redeliveries: 0,
    };
    let wanted = [wanted(&asked[0], Some("device-7")), wanted(&asked[1], None)];
    assert_eq!(replies, wanted);
}

#[test]
fn impossible_notifications_are_dead_lettered_with_the_reason() {
    let ground = Ground::new();
    let service = ground.fetcher(options());
    let replies = ground.take(Queue::Replies, reply);
    let dead = ground.take(Queue::DeadLetters, letter);
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let letters = [
        (b"no JSON".to_vec(), "not valid JSON of this message type"),
        (Vec::new(), "not valid JSON of this message type"),
        (
            br#"{"id": 1, "user": "ada"}"#.to_vec(),
            "missing field `app`",
        ),
        (notification(2, "").to_body(), "`user` is empty"),
        (
            notification(3, &long).to_body(),
            "`user` has 513 bytes, more than 512",
        ),
        (notification(4, "nobody-4").to_body(), "the user has no key"),
    ];
    for (number, (body, _)) in letters.iter().enumerate() {
        let queue = [Queue::Priority0, Queue::Priority1][number % 2];
        ground.publish(queue, body.clone());
        let user = format!("user-{number}");
        ground.publish(queue, notification(100, &user).to_body());
    }
    replies.wait_for(letters.len());
    for (body, reason) in dead.wait_for(letters.len()) {
        let wanted = letters.iter().find(|(other, _)| *other == body);
        let (_, says) = wanted.expect("no other one is dead");
        assert!(reason.contains(says), "{reason:?} does not say {says:?}");
    }
    ground.assert_balanced();
    assert_eq!(service.fetcher.snapshot().dead_lettered, 6);
    assert_eq!(service.fetcher.snapshot().malformed, 5);
}

#[test]
fn notifications_are_retried_while_the_directory_is_unavailable() {
    let ground = Ground::new();
    let service = ground.fetcher(options());
    ground.directory.set_failing(true);
    let load = ground.load(500);
    eventually(|| service.fetcher.snapshot().retried.directory >= 1_000);
    assert_eq!(load.account.accounted(), 0);
    ground.directory.set_failing(false);
    load.assert_replied();
    ground.assert_balanced();
    assert_eq!(load.account.repeated(), 0);
}

#[test]
fn repeated_failures_are_given_up_with_the_reason() {
    let ground = Ground::new();
    let service = ground.fetcher(FetcherOptions {
        attempts: 3,
        ..options()
    });
    ground.directory.set_failing(true);
    let dead = ground.take(Queue::DeadLetters, letter);
    ground.publish(Queue::Priority1, notification(1, "user-1").to_body());
    let (body, reason) = dead.wait_for(1).remove(0);
    assert_eq!(body, notification(1, "user-1").to_body());
    let says = "given up after 3 attempts: the store is not available: it is away";
    assert_eq!(reason, says);
    ground.assert_balanced();
    assert_eq!(ground.broker.ledger(Queue::Priority1).retried, 2);
    assert_eq!(service.fetcher.snapshot().retried.directory, 2);
}

#[test]
fn a_busy_fetcher_puts_off_what_waited_too_long() {
    const LATE: u64 = 200;
    let ground = Ground::new();
    ground.directory.hold();
    let wait_max = Duration::from_millis(100);
    publish_late(&ground, LATE, "slow", wait_max);
    let replies = ground.take(Queue::Replies, reply);
    let service = ground.fetcher(FetcherOptions {
        wait_max: Some(wait_max),
        prefetch: [prefetch(4); 2],
        ..options()
    });
    // Two are half of the prefetch. All others are put off.
    eventually(|| service.fetcher.snapshot().retried.wait >= LATE - 2);
    ground.directory.release();
    let replies = replies.wait_for(LATE as usize);
    ground.assert_balanced();
    eventually(|| service.fetcher.snapshot().completed == LATE);
    let snapshot = service.fetcher.snapshot();
    assert_eq!(snapshot.retried.total(), snapshot.retried.wait);
    assert_eq!(snapshot.received, LATE);
    let redeliveries = replies.iter().map(|reply| u64::from(reply.redeliveries));
    assert_eq!(redeliveries.sum::<u64>(), snapshot.retried.wait);
}

#[test]
fn an_idle_fetcher_puts_nothing_off() {
    const LATE: u64 = 16;
    let ground = Ground::new();
    let wait_max = Duration::from_millis(1);
    publish_late(&ground, LATE, "user", wait_max);
    let replies = ground.take(Queue::Replies, reply);
    let service = ground.fetcher(FetcherOptions {
        wait_max: Some(wait_max),
        prefetch: [prefetch(64); 2],
        ..options()
    });
    let replies = replies.wait_for(LATE as usize);
    assert!(replies.iter().all(|reply| reply.redeliveries == 0));
    assert_eq!(service.fetcher.snapshot().retried.wait, 0);
}

/// Publishes notifications and waits until they have waited longer than `wait_max`.
fn publish_late(ground: &Ground, count: u64, name: &str, wait_max: Duration) {
    for id in 0..count {
        let notification = notification(id, &format!("{name}-{id}"));
        ground.publish(Queue::Priority1, notification.to_body());
    }
    let published = Instant::now();
    eventually(|| published.elapsed() > wait_max);
}

/// A slow store that fails every other fetch.
struct FlakyStore {
    fetches: AtomicU64,
    store: Arc<dyn SlowStore>,
}

impl SlowStore for FlakyStore {
    fn fetch(&self, key: &[u8], on_outcome: OnFetched) {
        match self.fetches.fetch_add(1, Ordering::Relaxed) % 2 {
            0 => self.store.fetch(key, on_outcome),
            _ => on_outcome(Err(StoreError::Unavailable("it fails".to_owned()))),
        }
    }
}

#[test]
fn refusals_and_failures_of_the_slow_store_are_retried() {
    // One at a time, and one queued.
    let ground = Ground::with_store(1, 1);
    let service = ground.fetcher(options());
    let load = ground.load(300);
    load.assert_replied();
    ground.assert_balanced();
    assert!(ground.bulkhead.occupancy().refused > 0);
    assert!(service.fetcher.snapshot().retried.store > 0);
    assert_eq!(load.account.repeated(), 0);

    let ground = Ground::new();
    let service = ground.fetcher_on(options(), |parts| {
        parts.store = Arc::new(FlakyStore {
            fetches: AtomicU64::new(0),
            store: parts.store.clone(),
        });
    });
    ground.load(300).assert_replied();
    ground.assert_balanced();
    assert!(service.fetcher.snapshot().retried.store > 0);
}

#[test]
fn a_cold_cache_asks_the_slow_store_once_for_each_key_and_never_too_much_at_once() {
    let ground = Ground::with_store(16, 4_096);
    let service = ground.fetcher(options());
    ground.load(3 * USERS).assert_replied();
    ground.assert_balanced();
    let occupancy = ground.behind.occupancy();
    assert!(occupancy.running_high_water <= 16, "{occupancy:?}");
    // At most each user, and the app.
    assert!(occupancy.served <= USERS + 1, "{occupancy:?}");
    assert_eq!(service.fetcher.snapshot().misses, occupancy.served);
}

#[test]
fn a_panic_in_a_main_actor_loses_nothing() {
    let ground = Ground::new();
    let service = ground.fetcher(options());
    ground.directory.panic_at_next(2);
    let load = ground.load(2_000);
    load.assert_replied();
    assert!(ground.directory.has_panicked());
    ground.assert_balanced();
    eventually(|| service.fetcher.snapshot().under_way == 0);
}

#[test]
fn answers_to_a_panicked_main_actor_are_ignored() {
    let ground = Ground::new();
    let _service = ground.fetcher(FetcherOptions {
        mains: 1,
        queries: 2,
        ..options()
    });
    ground.directory.hold();
    ground.publish(Queue::Priority0, notification(1, "slow-1").to_body());
    eventually(|| ground.directory.held() == 1);
    ground.directory.panic_at_next(1);
    ground.publish(Queue::Priority0, notification(2, "user-2").to_body());
    eventually(|| ground.directory.has_panicked());
    // The restarted actor sends new queries; then both are answered.
    eventually(|| ground.directory.held() == 2);
    let replies = ground.take(Queue::Replies, reply);
    ground.directory.release();
    let mut ids: Vec<_> = replies.wait_for(2).into_iter().map(|it| it.id).collect();
    ids.sort();
    assert_eq!(ids, [1, 2].map(MessageId::Number));
    // The one panic alone caused both retries.
    assert_eq!(ground.broker.ledger(Queue::Priority0).retried, 2);
    drop(replies);
    ground.load(100).assert_replied();
    ground.assert_balanced();
}

#[test]
fn answers_to_earlier_incarnations_use_no_capacity() {
    // So many answers to earlier incarnations exceed the lane, which has three slots per job.
    const LIVES: u64 = 6;
    let ground = Ground::new();
    let _service = ground.fetcher(FetcherOptions {
        mains: 1,
        queries: 64,
        prefetch: [prefetch(4), prefetch(1)],
        ..options()
    });
    let replies = ground.take(Queue::Replies, reply);
    ground.directory.hold();
    for id in 0..4 {
        ground.publish(Queue::Priority0, notification(id, "slow").to_body());
    }
    for life in 1..LIVES {
        eventually(|| ground.directory.held() as u64 == 4 * life);
        ground.directory.panic_at_next(1);
        let id = 10 + life;
        ground.publish(Queue::Priority1, notification(id, "user-1").to_body());
        replies.wait_for(life as usize);
    }
    eventually(|| ground.directory.held() as u64 == 4 * LIVES);
    // All are answered while the actor is busy, those of the current incarnation last.
    ground.directory.set_blocking(true);
    ground.publish(Queue::Priority1, notification(99, "user-1").to_body());
    eventually(|| ground.directory.is_blocked());
    ground.directory.answer_all();
    ground.directory.set_blocking(false);
    let mut ids: Vec<_> = replies
        .wait_for(4 + LIVES as usize)
        .into_iter()
        .map(|it| it.id)
        .collect();
    ids.sort();
    let wanted = (0..4).chain(10 + 1..10 + LIVES).chain([99]);
    assert_eq!(ids, wanted.map(MessageId::Number).collect::<Vec<_>>());
    // Each panic retried the notifications in flight, and nothing else did.
    assert_eq!(
        ground.broker.ledger(Queue::Priority0).retried,
        4 * (LIVES - 1)
    );
}

#[test]
fn a_notification_that_no_main_actor_survives_is_given_up() {
    let ground = Ground::new();
    let _service = ground.fetcher(FetcherOptions {
        attempts: 10,
        ..options()
    });
    let dead = ground.take(Queue::DeadLetters, letter);
    ground.publish(Queue::Priority0, notification(1, POISON).to_body());
    let (body, reason) = dead.wait_for(1).remove(0);
    assert_eq!(body, notification(1, POISON).to_body());
    assert_eq!(reason, "given up after 10 attempts");
    ground.load(100).assert_replied();
    ground.assert_balanced();
}

#[test]
fn a_stopping_fetcher_finishes_its_notifications_and_leaves_the_rest() {
    let ground = Ground::new();
    let few = FetcherOptions {
        prefetch: [prefetch(8); 2],
        ..options()
    };
    let first = ground.fetcher(few.clone());
    let load = ground.load(10_000);
    eventually(|| first.fetcher.snapshot().completed > 100);
    assert_eq!(first.fetcher.stop(LONG), 0);
    drop(first);
    let sum = |of: fn(&Ground, Queue) -> u64| {
        let queues = [Queue::Priority0, Queue::Priority1];
        queues.map(|queue| of(&ground, queue)).iter().sum::<u64>()
    };
    let left = sum(|ground, queue| ground.broker.queued(queue) as u64);
    assert!(left > 0, "nothing is left to be seen");
    let acked = sum(|ground, queue| ground.broker.ledger(queue).acked);
    assert_eq!(left + acked, 10_000);
    let second = ground.fetcher(few);
    load.assert_replied();
    ground.assert_balanced();
    assert_eq!(second.fetcher.snapshot().completed, left);
}

#[test]
fn three_fetchers_share_the_load_and_take_over_from_a_dropped_one() {
    let ground = Ground::new();
    let few = FetcherOptions {
        prefetch: [prefetch(16); 2],
        ..options()
    };
    let mut services: Vec<_> = (0..3).map(|_| ground.fetcher(few.clone())).collect();
    let load = ground.load(20_000);
    let completed = |service: &Service| service.fetcher.snapshot().completed;
    eventually(|| services.iter().all(|service| completed(service) > 100));
    // At once, with all its notifications in flight.
    services.pop();
    let so_far: Vec<u64> = services.iter().map(completed).collect();
    assert!(
        load.account.accounted() < 20_000,
        "nothing is left for the others"
    );
    load.assert_replied();
    ground.assert_balanced();
    let rest: Vec<u64> = services.iter().map(completed).collect();
    assert!(rest.iter().zip(so_far).all(|(all, before)| *all > before));
}

#[test]
fn urgent_notifications_overtake_others() {
    let ground = Ground::new();
    let service = ground.fetcher(FetcherOptions {
        prefetch: [prefetch(16); 2],
        queries: 64,
        ..options()
    });
    ground.directory.hold();
    for id in 0..500 {
        ground.publish(Queue::Priority1, notification(id, "slow").to_body());
    }
    eventually(|| service.fetcher.snapshot().received == 16);
    let replies = ground.take(Queue::Replies, reply);
    ground.publish(Queue::Priority0, notification(500, "user-1").to_body());
    assert_eq!(replies.wait_for(1)[0].id, MessageId::Number(500));
    assert_eq!(ground.broker.queued(Queue::Priority1), 500 - 16);
    ground.directory.release();
    replies.wait_for(501);
    ground.assert_balanced();
}

#[test]
fn the_wait_is_counted_from_the_due_time() {
    let ground = Ground::new();
    let service = ground.fetcher(options());
    let replies = ground.take(Queue::Replies, reply);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("the clock is past 1970");
    let hour = Duration::from_secs(60 * 60);
    // Due later, by a sender whose clock is ahead; without a time of publication; long ago.
    let dues = [Some(now + hour), None, Some(now - hour)];
    for (id, due) in dues.into_iter().enumerate() {
        let mut body = notification(id as u64, "user-1");
        body.due_us = due.map(|due| u64::try_from(due.as_micros()).expect("some centuries"));
        ground.publish(Queue::Priority0, body.to_body());
        replies.wait_for(id + 1);
        let wait = service.fetcher.snapshot().wait;
        assert_eq!(wait.count, id as u64 + 1);
        let longest = Duration::from_nanos(wait.max);
        // Within the histogram's precision.
        assert_eq!(longest >= hour * 9 / 10, id == 2, "{wait:?}");
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    type Wrong = (&'static str, fn(&mut FetcherOptions));
    let wrong: [Wrong; 6] = [
        ("mains", |it| it.mains = 0),
        ("mailbox", |it| it.mailbox = 0),
        ("query_users", |it| it.query_users = 1_025),
        ("attempts", |it| it.attempts = 0),
        ("deadline in ms", |it| it.deadline = Duration::ZERO),
        ("wait_max in ms", |it| it.wait_max = Some(Duration::ZERO)),
    ];
    let ground = Ground::new();
    for (name, change) in wrong {
        let mut options = options();
        change(&mut options);
        let Err(StartError::Options(error)) = ground.try_fetcher(1, options, |_| {}) else {
            panic!("{name} is not refused");
        };
        let is_named = matches!(&error, OptionsError::Range { name: it, .. } if *it == name);
        assert!(is_named, "{error}");
    }
}
